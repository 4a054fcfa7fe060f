//! The server, the database and the extension.

use serde::Serialize;
use tokio_postgres::Client;

use crate::failure::Failure;
use crate::query;

/// The server, the database and the extension.
#[derive(Clone, Debug, Serialize)]
pub struct Server {
    pub database: String,
    /// Such as `15.13`.
    pub version: String,
    /// Of the extension.
    pub leaf_version: String,
    pub is_in_recovery: bool,
    /// Whether the role has the privileges of `pg_monitor`, without which it sees its own
    /// tags only.
    pub is_monitor: bool,
    /// Of the loader of this database, if it is running.
    pub loader_pid: Option<i32>,
}

impl Server {
    pub(super) async fn look(client: &Client) -> Result<Server, Failure> {
        let sql = "SELECT current_database()::text, split_part(current_setting('server_version'), ' ', 1), \
                          (SELECT extversion FROM pg_extension WHERE extname = 'leaf'), \
                          pg_is_in_recovery(), pg_has_role('pg_monitor', 'USAGE'), \
                          (SELECT min(pid) FROM pg_stat_activity \
                            WHERE backend_type = 'leaf loader' AND datname = current_database())";
        let row = query::one(client, sql, &[]).await?;
        Ok(Server {
            database: row.get(0),
            version: row.get(1),
            leaf_version: row.get(2),
            is_in_recovery: row.get(3),
            is_monitor: row.get(4),
            loader_pid: row.get(5),
        })
    }
}
