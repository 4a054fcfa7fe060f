//! The server, the database and the extension.

use serde::Serialize;
use tokio_postgres::Client;

use crate::failure::Failure;

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

/// Makes the functions of the extension callable without naming their schema.
///
/// # Errors
/// If the database has no extension `leaf`.
pub async fn use_extension(client: &Client) -> Result<(), Failure> {
    // Last, so that nothing that a user has created is called instead of leaf's.
    let sql = "SELECT set_config('search_path', \
                      quote_ident(n.nspname) || ', ' || current_setting('search_path'), false) \
                 FROM pg_extension AS e JOIN pg_namespace AS n ON n.oid = e.extnamespace \
                WHERE e.extname = 'leaf'";
    let found = client.query_opt(sql, &[]).await?;
    if found.is_some() {
        return Ok(());
    }
    let row = client.query_one("SELECT current_database()", &[]).await?;
    let database: String = row.get(0);
    Err(
        Failure::failed(format!("there is no extension leaf in database \"{database}\"")).hint(
            "CREATE EXTENSION leaf, with leaf in shared_preload_libraries; or name another database with -d",
        ),
    )
}

impl Server {
    pub(super) async fn look(client: &Client) -> Result<Server, Failure> {
        let sql = "SELECT current_database()::text, split_part(current_setting('server_version'), ' ', 1), \
                          (SELECT extversion FROM pg_extension WHERE extname = 'leaf'), \
                          pg_is_in_recovery(), pg_has_role('pg_monitor', 'USAGE'), \
                          (SELECT min(pid) FROM pg_stat_activity \
                            WHERE backend_type = 'leaf loader' AND datname = current_database())";
        let row = client.query_one(sql, &[]).await?;
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
