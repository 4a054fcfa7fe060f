//! One connection to the server.

use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use leaf_core::standby::says_unconfirmed;
use parking_lot::Mutex;
use tokio::task::JoinHandle;
use tokio_postgres::config::Host;
#[cfg(feature = "tls")]
use tokio_postgres::config::SslMode;
use tokio_postgres::error::DbError;
use tokio_postgres::tls::TlsConnect;
use tokio_postgres::{AsyncMessage, Client, NoTls};

use super::stream::Stream;
use crate::calls::statement::{IS_PLAIN, Statement};
use crate::cause::{Cause, text};
use crate::connection::{Needs, Target};
use crate::events::TARGET;
use crate::{Config, Error};

#[cfg(feature = "tls")]
use crate::connection::Connector;

/// One connection. When this is dropped, it ends after the answers that are missing.
pub(crate) struct Session {
    pub(super) client: Client,
    /// The task that reads from the connection and writes to it.
    connection: JoinHandle<()>,
    /// The host that it is to, and its configuration.
    host: Target,
    driver: tokio_postgres::Config,
    #[cfg(feature = "tls")]
    tls: Option<Connector>,
    /// The server's warning that no standby has confirmed a commit.
    unconfirmed: Arc<Mutex<Option<DbError>>>,
    /// Whether the database has the plain edition, as far as was asked.
    is_plain: bool,
    /// Locked while a statement is executed: a request to cancel is meant for that one.
    pub(super) alone: tokio::sync::Mutex<()>,
}

impl Session {
    /// Connects to the first host that answers in time and is what is needed.
    ///
    /// # Errors
    /// The error of a host that may answer later, if there is one, otherwise that of the
    /// last host.
    pub(super) async fn connect(config: &Config, needs: Needs) -> Result<Session, Error> {
        let limit = config.targets.connect_timeout;
        let mut failure: Option<Error> = None;
        for host in config.targets.each_host() {
            for address in addresses(host, limit).await {
                match connect(&address, config, needs).await {
                    Ok(session) => return Ok(session),
                    Err(error) => {
                        let error = name_host(error, &address);
                        tracing::debug!(target: TARGET, host = %address, %error, "no connection");
                        failure = failure.filter(Error::is_retryable).or(Some(error));
                    }
                }
            }
        }
        Err(failure.unwrap_or_else(|| Error::Config("there is no host to connect to".into())))
    }

    /// Where the server was found.
    pub(super) fn address(&self) -> String {
        format!("{} {:?}", self.host, self.host.address)
    }

    pub(crate) fn is_plain(&self) -> bool {
        self.is_plain
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.client.is_closed()
    }

    /// Does not wait for the answer to a statement, which may never come.
    pub(super) fn close(&self) {
        self.connection.abort();
    }

    /// Ends the connection, and waits until the server has been told so.
    #[cfg(feature = "async")]
    pub(super) async fn end(self) {
        drop(self.client);
        // Its error has been traced.
        let _ = self.connection.await;
    }

    /// Whether the server is what is needed; an error otherwise. Also asks which edition it has.
    async fn check(&mut self, needs: Needs) -> Result<(), Error> {
        let refuses = match needs {
            Needs::Any => return Ok(()),
            // A role whose transactions are read-only by default gets ids nevertheless.
            Needs::Primary => "pg_catalog.pg_is_in_recovery()",
            Needs::Writes => "pg_catalog.current_setting('transaction_read_only')::boolean",
        };
        let sql = format!("SELECT {refuses}, {IS_PLAIN}");
        let rows = self.client.query_typed(&sql, &[]).await?;
        let refuses = rows.first().is_none_or(|row| row.get(0));
        self.is_plain = rows.first().is_some_and(|row| row.get(1));
        match (refuses, needs) {
            (false, _) => Ok(()),
            (true, Needs::Writes) => Err(not_it("the session takes no writes")),
            (true, _) => Err(not_it("the server is a standby")),
        }
    }

    /// Executes a statement.
    ///
    /// # Errors
    /// Also if it was executed, but its commit may be lost in a failover, because somebody has
    /// cancelled the wait for the synchronous standby.
    pub(super) async fn query<T>(&self, statement: Statement<T>) -> Result<T, Error> {
        *self.unconfirmed.lock() = None;
        let answer = statement.execute_in(&self.client, self.is_plain).await?;
        self.confirmed().map(|()| answer)
    }

    /// An error if a commit since the last call may be lost in a failover.
    pub(super) fn confirmed(&self) -> Result<(), Error> {
        match self.unconfirmed.lock().take() {
            None => Ok(()),
            Some(warning) => Err(Cause::of_unconfirmed(warning).into()),
        }
    }

    /// Asks the server to cancel the statement that is being executed. Returns when the
    /// server has received the request.
    pub(super) async fn cancel(&self) -> Result<(), Error> {
        let token = self.client.cancel_token();
        let (stream, _) = Stream::connect(&self.host, &self.driver).await?;
        let stream = stream.ended_by_server();
        #[cfg(feature = "tls")]
        if let Some(tls) = &self.tls {
            let tls = tls.for_host(&self.host)?;
            return Ok(token.cancel_query_raw(stream, tls).await?);
        }
        Ok(token.cancel_query_raw(stream, NoTls).await?)
    }
}

/// Another server, or this one later, may be what is needed.
fn not_it(why: &str) -> Error {
    Error::Connection(Cause::of_driver(io::Error::other(why)))
}

/// Says which host did not answer in time.
fn name_host(error: Error, host: &Target) -> Error {
    let Error::Timeout { after, .. } = error else {
        return error;
    };
    let (name, port) = (host.name(), host.port);
    let last = Some(format!("host \"{name}\", port {port} did not answer"));
    Error::Timeout { after, last }
}

/// The host once for each of its addresses, so that each gets the whole time. A name
/// without address is tried as it is, for its error.
async fn addresses(host: Target, limit: Option<Duration>) -> Vec<Target> {
    let (Host::Tcp(name), None) = (&host.host, host.address) else {
        return vec![host];
    };
    let lookup = async { Ok(tokio::net::lookup_host((name.as_str(), 0)).await?) };
    let Ok(found) = in_time(limit, lookup).await else {
        return vec![host];
    };
    found.map(|address| host.at(address.ip())).collect()
}

/// Connects to an address, with and without TLS as the options say, one after the other.
async fn connect(host: &Target, config: &Config, needs: Needs) -> Result<Session, Error> {
    let limit = config.targets.connect_timeout;
    let mut failure = None;
    for &mode in config.targets.ssl_modes(host, config.use_of_tls) {
        let driver = config.targets.driver(host, mode);
        match in_time(limit, login(host, driver, config)).await {
            Ok(mut session) => {
                in_time(limit, session.check(needs)).await?;
                tracing::debug!(target: TARGET, %host, "connected");
                return Ok(session);
            }
            Err(error @ Error::Timeout { .. }) => return Err(error),
            // A server that has answered says more than a handshake that has failed.
            Err(error) => {
                failure = failure
                    .filter(|earlier: &Error| earlier.sqlstate().is_some())
                    .or(Some(error));
            }
        }
    }
    Err(failure.unwrap_or(Error::Closed))
}

async fn login(
    host: &Target,
    driver: tokio_postgres::Config,
    config: &Config,
) -> Result<Session, Error> {
    #[cfg(feature = "tls")]
    if let Some(tls) = config
        .tls
        .as_ref()
        .filter(|_| driver.get_ssl_mode() != SslMode::Disable)
    {
        let mut session = open(host, driver, tls.for_host(host)?).await?;
        session.tls = Some(tls.clone());
        return Ok(session);
    }
    let _ = config;
    open(host, driver, NoTls).await
}

async fn open<T>(host: &Target, driver: tokio_postgres::Config, tls: T) -> Result<Session, Error>
where
    T: TlsConnect<Stream>,
    T::Stream: Send + 'static,
{
    let connected = Stream::connect(host, &driver).await;
    let (stream, allowance) = connected.map_err(|error| {
        let text = format!("error connecting to server: {error}");
        Error::Connection(Cause::of_driver(io::Error::new(error.kind(), text)))
    })?;
    let connected = driver.connect_raw(stream, tls).await;
    let (client, mut connection) = connected.map_err(|error| match error.into() {
        // That to connect is missing, not that to draw from a tag.
        Error::Permission(cause) => Error::Server(cause),
        // The driver has no other sign of it.
        Error::Connection(cause) if cause.to_string().contains("password missing") => Error::Config(
            "password missing: it can be in the connection string, in a password file, and, with Config::from_env, in PGPASSWORD"
                .to_owned(),
        ),
        error => error,
    })?;
    allowance.lift();
    let unconfirmed = Arc::<Mutex<Option<DbError>>>::default();
    let noted = Arc::clone(&unconfirmed);
    let connection = tokio::spawn(async move {
        // A notice comes before the end of the statement that it belongs to.
        while let Some(message) = poll_fn(|context| connection.poll_message(context)).await {
            match message {
                Ok(AsyncMessage::Notice(notice)) => {
                    tracing::debug!(target: TARGET, %notice, "the server says");
                    if notice.routine().is_some_and(says_unconfirmed) {
                        *noted.lock() = Some(notice);
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    tracing::debug!(target: TARGET, error = text(&error), "the connection has ended");
                    return;
                }
            }
        }
    });
    Ok(Session {
        client,
        connection,
        host: host.clone(),
        driver,
        #[cfg(feature = "tls")]
        tls: None,
        unconfirmed,
        is_plain: false,
        alone: tokio::sync::Mutex::default(),
    })
}

/// The error of what takes too long says so.
pub(crate) async fn in_time<T>(
    limit: Option<Duration>,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let Some(after) = limit else {
        return work.await;
    };
    let timeout = Err(Error::Timeout { after, last: None });
    tokio::time::timeout(after, work).await.unwrap_or(timeout)
}
