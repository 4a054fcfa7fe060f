//! The server, the database and the extension.

use leaf_sdk::calls::rows::row;
use leaf_sdk::calls::statement::Statement;
use serde::Serialize;
use tokio_postgres::Client;

use crate::failure::Failure;
use crate::query;

row! {
    /// The server, the database and the extension.
    #[derive(Clone, Debug, Serialize)]
    pub struct Server {
        pub database: String = "pg_catalog.current_database()::text",
        /// Such as `15.13`.
        pub version: String = "pg_catalog.split_part(pg_catalog.current_setting('server_version'), ' ', 1)",
        pub leaf_version: String = "version",
        /// Whether there is no library, and so no process and no memory of leaf's.
        pub is_plain: bool = "is_plain",
        pub is_in_recovery: bool = "pg_catalog.pg_is_in_recovery()",
        /// Whether the role has the privileges of `pg_monitor`, without which it sees its own
        /// tags only.
        pub is_monitor: bool = "pg_catalog.pg_has_role('pg_monitor', 'USAGE')",
        /// Of the loader of this database, if it is running.
        pub loader_pid: Option<i32> = "(SELECT min(pid) FROM pg_stat_activity \
             WHERE backend_type = 'leaf loader' AND datname = current_database())",
    }
}

impl Server {
    pub(super) async fn look(client: &Client) -> Result<Server, Failure> {
        let edition = match query::is_plain(client).await? {
            true => "(SELECT version, true AS is_plain FROM leaf.plain) AS leaf",
            false => {
                "(SELECT extversion AS version, false AS is_plain FROM pg_extension \
                   WHERE extname = 'leaf') AS leaf"
            }
        };
        let row = Statement::<Server>::select(edition, vec![]);
        Ok(row.execute(client).await?)
    }
}
