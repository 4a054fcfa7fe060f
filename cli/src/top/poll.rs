//! Reads the views of a database again and again, over a connection that is made again
//! when it breaks.

use std::time::Duration;

use leaf_sdk::{Config, Connection};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use crate::connection;
use crate::failure::Failure;
use crate::look::Look;
use crate::query;

/// What has become of a look at a source.
pub struct Update {
    /// The number of the source.
    pub source: usize,
    pub look: Result<Look, String>,
}

/// A database to look at.
pub struct Source {
    /// For people.
    pub name: String,
    config: Config,
    connection: Option<Connection>,
}

impl Source {
    /// Connects, and asks for a password if there has to be one.
    pub async fn open(args: &connection::Args, config: &Config) -> Result<Source, Failure> {
        let (config, connection) = args.open_config(config).await?;
        query::schema_of_leaf(connection.client()).await?;
        Ok(Source {
            name: format!("{} on {}", config.dbname(), config.hosts().join(",")),
            config,
            connection: Some(connection),
        })
    }

    /// Looks until nobody listens.
    pub async fn poll(
        mut self,
        source: usize,
        mut intervals: watch::Receiver<Duration>,
        updates: UnboundedSender<Update>,
    ) {
        loop {
            let look = self.look().await.map_err(|failure| failure.text());
            if look.is_err() {
                self.connection = None;
            }
            if updates.send(Update { source, look }).is_err() {
                return;
            }
            let pause = *intervals.borrow_and_update();
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                changed = intervals.changed() => if changed.is_err() { return },
            }
        }
    }

    async fn look(&mut self) -> Result<Look, Failure> {
        let connection = match &self.connection {
            Some(connection) => connection,
            None => {
                let connection = Connection::open(&self.config).await?;
                self.connection.insert(connection)
            }
        };
        Look::take(connection.client()).await
    }
}

/// A source for each database of a server that has the extension, and that the role may
/// connect to.
pub async fn all_databases(
    args: &connection::Args,
    config: &Config,
) -> Result<Vec<Source>, Failure> {
    let (config, connection) = args.open_config(config).await?;
    let sql = "SELECT datname::text FROM pg_database \
                WHERE datallowconn AND has_database_privilege(oid, 'CONNECT') ORDER BY datname";
    let names = query::all(connection.client(), sql, &[]).await?;
    drop(connection);
    let mut sources = Vec::new();
    for name in names {
        let config = config.clone().database(name.get(0));
        // One without the extension, or that refuses this role, is not watched.
        if let Ok(source) = Source::open(args, &config).await {
            sources.push(source);
        }
    }
    match sources.is_empty() {
        true => Err(
            Failure::failed("no database of this server has the extension leaf")
                .hint("CREATE EXTENSION leaf"),
        ),
        false => Ok(sources),
    }
}
