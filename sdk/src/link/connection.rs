//! A connection for a program's own statements.

use std::fmt;

use tokio_postgres::Client;

use super::Session;
use crate::{Config, Error};

/// A connection for statements of the program itself, made as a handle makes its own:
/// with the same hosts, time limits, password and service files, and TLS. It belongs to
/// the runtime in which it was opened, and ends when it is dropped.
pub struct Connection(Session);

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Connection").finish_non_exhaustive()
    }
}

impl Connection {
    /// Connects to the first host that answers in time, and that is what
    /// `target_session_attrs` asks for.
    ///
    /// # Errors
    /// The error of a host that may answer later, if there is one, otherwise that of the last
    /// host. [`Error::Config`] if the configuration contradicts itself.
    pub async fn open(config: &Config) -> Result<Connection, Error> {
        config.check()?;
        let session = Session::connect(config, config.targets.needs).await?;
        Ok(Connection(session))
    }

    /// The driver's client.
    pub fn client(&self) -> &Client {
        &self.0.client
    }

    /// Whether all commits so far, or since the last call, are as durable as they have to be. If
    /// somebody cancels the wait of a commit for a synchronous standby, PostgreSQL only warns.
    ///
    /// # Errors
    /// [`Error::Connection`] with the server's warning: a failover may lose what was committed.
    pub fn confirmed(&self) -> Result<(), Error> {
        self.0.confirmed()
    }

    /// Ends the connection, and waits until the server has been told so. A connection that
    /// is dropped ends by itself as long as its runtime goes on.
    pub async fn close(self) {
        self.0.end().await;
    }

    /// Asks the server to cancel the statement that is being executed, and returns when it
    /// has received the request.
    ///
    /// # Errors
    /// [`Error::Connection`] if the server cannot be reached.
    pub async fn cancel(&self) -> Result<(), Error> {
        self.0.cancel().await
    }
}
