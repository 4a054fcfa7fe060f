//! One connection to the server, replaced when it breaks.

use std::sync::Arc;
use std::time::Duration;

use backon::{BackoffBuilder, ExponentialBuilder};
use tokio::sync::Mutex;
use tokio_postgres::Client;

use crate::calls::statement::Statement;
use crate::error::text;
use crate::events::TARGET;
use crate::{Config, Error};

/// A connection that is made when it is needed.
pub(crate) struct Link {
    pub(crate) config: Config,
    client: Mutex<Option<Arc<Client>>>,
}

impl Link {
    /// A link that connects with the first query.
    pub(crate) fn new(config: Config) -> Self {
        Link {
            config,
            client: Mutex::new(None),
        }
    }

    /// Executes a statement, or fails within the time allowed for it. A connection on
    /// which a statement has not completed in time is abandoned.
    pub(crate) async fn query<T>(&self, statement: Statement<'_, T>) -> Result<T, Error> {
        let limit = self.config.query_timeout;
        let client = match tokio::time::timeout(limit, self.client()).await {
            Ok(client) => client?,
            Err(_) => return Err(timeout(limit)),
        };
        let answer = client.query_typed(statement.sql, &statement.params);
        match tokio::time::timeout(limit, answer).await {
            Ok(Ok(rows)) => (statement.read)(&rows),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => {
                self.forget(&client).await;
                Err(timeout(limit))
            }
        }
    }

    /// Connects, unless there is a connection.
    pub(crate) async fn reach(&self) -> Result<(), Error> {
        let limit = self.config.query_timeout;
        match tokio::time::timeout(limit, self.client()).await {
            Ok(client) => client.map(|_| ()),
            Err(_) => Err(timeout(limit)),
        }
    }

    async fn client(&self) -> Result<Arc<Client>, Error> {
        let mut kept = self.client.lock().await;
        if let Some(client) = kept.as_ref().filter(|client| !client.is_closed()) {
            return Ok(client.clone());
        }
        *kept = None;
        let client = Arc::new(self.connect().await?);
        tracing::debug!(target: TARGET, "connected");
        *kept = Some(client.clone());
        Ok(client)
    }

    async fn forget(&self, broken: &Arc<Client>) {
        let mut kept = self.client.lock().await;
        if kept
            .as_ref()
            .is_some_and(|client| Arc::ptr_eq(client, broken))
        {
            *kept = None;
        }
    }

    #[cfg(feature = "tls")]
    async fn connect(&self) -> Result<Client, Error> {
        match &self.config.tls {
            Some(tls) => {
                let tls = tokio_postgres_rustls::MakeRustlsConnect::new(tls.clone());
                self.connect_with(tls).await
            }
            None => self.connect_with(tokio_postgres::NoTls).await,
        }
    }

    #[cfg(not(feature = "tls"))]
    async fn connect(&self) -> Result<Client, Error> {
        self.connect_with(tokio_postgres::NoTls).await
    }

    async fn connect_with<T>(&self, tls: T) -> Result<Client, Error>
    where
        T: tokio_postgres::tls::MakeTlsConnect<tokio_postgres::Socket>,
        T::Stream: Send + 'static,
    {
        let (client, connection) = self.config.connection.connect(tls).await?;
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(target: TARGET, error = text(&error), "the connection has ended");
            }
        });
        Ok(client)
    }

    /// The pauses between attempts: they double, with jitter, and never end.
    pub(crate) fn pauses(&self) -> impl Iterator<Item = Duration> + use<> {
        let (shortest, longest) = self.config.retry;
        ExponentialBuilder::new()
            .with_min_delay(shortest)
            .with_max_delay(longest)
            .with_jitter()
            .without_max_times()
            .build()
    }
}

fn timeout(after: Duration) -> Error {
    Error::Timeout { after, last: None }
}
