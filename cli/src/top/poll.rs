//! Reads the views of a database again and again, over a connection that is made again
//! when it breaks.

use std::pin::pin;
use std::time::{Duration, Instant};

use leaf_sdk::{Config, Connection};
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;

use crate::connection;
use crate::failure::Failure;
use crate::look::Look;
use crate::query;

/// After which time, and how often, it is said that a server does not answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// After which time another connection is made.
const LONGEST: Duration = Duration::from_secs(30);

/// The result of a look at a source.
pub struct Update {
    /// The number of the source.
    pub source: usize,
    pub look: Result<Look, String>,
}

/// A database to look at.
pub struct Source {
    pub database: String,
    /// Its server.
    pub hosts: String,
    config: Config,
    connection: Option<Connection>,
}

impl Source {
    /// Connects, and asks for a password if there has to be one.
    pub async fn open(args: &connection::Args, config: &Config) -> Result<Source, Failure> {
        let (config, connection) = args.open_config(config).await?;
        query::require_leaf(connection.client()).await?;
        Ok(Source {
            connection: Some(connection),
            ..Source::unreached(&config)
        })
    }

    /// One to which a connection is yet to be made.
    pub fn unreached(config: &Config) -> Source {
        Source {
            database: config.dbname(),
            hosts: config.hosts().join(","),
            config: config.clone(),
            connection: None,
        }
    }

    pub fn is_connected(&self) -> bool {
        self.connection.is_some()
    }

    /// Looks until nobody listens.
    pub async fn poll(
        mut self,
        source: usize,
        mut intervals: watch::Receiver<Duration>,
        updates: UnboundedSender<Update>,
    ) {
        loop {
            let late = |text| {
                let look = Err(text);
                updates.send(Update { source, look }).is_ok()
            };
            let look = self.look_in_time(late).await;
            let look = look.map_err(|failure| failure.text());
            if look.is_err() {
                self.give_up().await;
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

    /// Takes a look. Says so while the server does not answer, unless nobody listens, and
    /// fails if it takes too long.
    async fn look_in_time(&mut self, late: impl Fn(String) -> bool) -> Result<Look, Failure> {
        let begun = Instant::now();
        let mut look = pin!(self.look());
        loop {
            let done = tokio::time::timeout(PATIENCE, look.as_mut()).await;
            let passed = begun.elapsed().as_secs();
            match done {
                Ok(look) => return look,
                Err(_)
                    if begun.elapsed() < LONGEST && late(format!("no answer for {passed} s")) => {}
                Err(_) => return Err(Failure::failed(format!("no answer for {passed} s"))),
            }
        }
    }

    /// Ends the connection, and a statement that is still being executed.
    async fn give_up(&mut self) {
        if let Some(connection) = self.connection.take() {
            let _ = tokio::time::timeout(PATIENCE, connection.cancel()).await;
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
    let names = query::databases(connection.client()).await?;
    drop(connection);
    let mut sources = Vec::new();
    for name in names {
        let config = config.clone().database(&name);
        // One without the extension, or that refuses this role, is not watched.
        if let Ok(source) = Source::open(args, &config).await {
            sources.push(source);
        }
    }
    match sources.is_empty() {
        true => Err(query::no_database_has_leaf()),
        false => Ok(sources),
    }
}
