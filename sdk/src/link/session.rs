//! One connection to the server.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio_postgres::config::{Host, SslMode, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, NoTls, Socket};

use super::cancel::UntilClosed;
use crate::calls::statement::Statement;
use crate::cause::text;
use crate::events::TARGET;
use crate::{Config, Error};

/// One connection. When this is dropped, it ends after the answers that are missing.
pub(crate) struct Session {
    pub(super) client: Client,
    /// The task that reads from the connection and writes to it.
    connection: JoinHandle<()>,
    /// The host that it is to.
    server: tokio_postgres::Config,
    tls: Tls,
    /// Locked while a statement is executed: a request to cancel is meant for that one.
    pub(super) alone: tokio::sync::Mutex<()>,
}

/// How connections of a handle are encrypted, requests to cancel included.
#[derive(Clone)]
enum Tls {
    None,
    #[cfg(feature = "tls")]
    Rustls(Box<tokio_postgres_rustls::MakeRustlsConnect>),
}

impl Session {
    /// Connects to the first host that answers in time and takes writes.
    ///
    /// # Errors
    /// That of a host that may answer later, if there is one, otherwise that of the
    /// last host.
    pub(super) async fn connect(config: &Config) -> Result<Session, Error> {
        Session::connect_to(config, TargetSessionAttrs::ReadWrite).await
    }

    /// Like [`connect`](Self::connect), for a server that can do this.
    pub(super) async fn connect_to(
        config: &Config,
        attributes: TargetSessionAttrs,
    ) -> Result<Session, Error> {
        let tls = Tls::of(config);
        let limit = config.targets.connect_timeout;
        let mut failure: Option<Error> = None;
        for mut host in config.targets.each_host(config.use_of_tls) {
            host.target_session_attrs(attributes);
            for address in addresses(host, limit).await {
                match in_time(limit, connect(&address, &tls)).await {
                    Ok(session) => return Ok(session),
                    Err(error) => {
                        let error = name_host(error, &address);
                        tracing::debug!(target: TARGET, host = ?address.get_hosts(), %error, "no connection");
                        failure = failure.filter(Error::is_retryable).or(Some(error));
                    }
                }
            }
        }
        Err(failure.unwrap_or_else(|| Error::Config("there is no host to connect to".into())))
    }

    /// Where the server was found.
    pub(super) fn address(&self) -> String {
        let server = &self.server;
        let (hosts, addresses) = (server.get_hosts(), server.get_hostaddrs());
        format!("{hosts:?} {addresses:?} {:?}", server.get_ports())
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

    /// Executes a statement.
    pub(super) async fn query<T>(&self, statement: Statement<'_, T>) -> Result<T, Error> {
        let rows = self.client.query_typed(statement.sql, &statement.params);
        statement.answer(&rows.await?)
    }

    /// Asks the server to cancel the statement that is being executed. Returns when the
    /// server has received the request.
    pub(super) async fn cancel(&self) -> Result<(), Error> {
        let token = self.client.cancel_token();
        let stream = UntilClosed::connect(&self.server).await?;
        match &self.tls {
            Tls::None => token.cancel_query_raw(stream, NoTls).await?,
            #[cfg(feature = "tls")]
            Tls::Rustls(tls) => {
                let name = match self.server.get_hosts() {
                    [Host::Tcp(name), ..] => name.as_str(),
                    _ => "",
                };
                let mut tls = *tls.clone();
                let connect = MakeTlsConnect::<UntilClosed>::make_tls_connect(&mut tls, name);
                let connect = connect.map_err(|error| Error::Config(error.to_string()))?;
                token.cancel_query_raw(stream, connect).await?;
            }
        }
        Ok(())
    }
}

impl Tls {
    fn of(config: &Config) -> Tls {
        #[cfg(feature = "tls")]
        if let Some(tls) = &config.tls {
            let tls = tokio_postgres_rustls::MakeRustlsConnect::new(tls.clone());
            return Tls::Rustls(Box::new(tls));
        }
        let _ = config;
        Tls::None
    }
}

/// Says which host did not answer in time.
fn name_host(error: Error, host: &tokio_postgres::Config) -> Error {
    let Error::Timeout { after, .. } = error else {
        return error;
    };
    let name = match host.get_hosts() {
        [Host::Tcp(name)] => name.clone(),
        [Host::Unix(folder)] => folder.display().to_string(),
        _ => String::new(),
    };
    let port = host.get_ports().first().copied().unwrap_or_default();
    let last = Some(format!("host \"{name}\", port {port} did not answer"));
    Error::Timeout { after, last }
}

/// The host once for each of its addresses, so that each gets the whole time. A name
/// without address is tried as it is, for its error.
async fn addresses(
    host: tokio_postgres::Config,
    limit: Option<Duration>,
) -> Vec<tokio_postgres::Config> {
    let ([Host::Tcp(name)], []) = (host.get_hosts(), host.get_hostaddrs()) else {
        return vec![host];
    };
    let lookup = async { Ok(tokio::net::lookup_host((name.as_str(), 0)).await?) };
    let Ok(found) = in_time(limit, lookup).await else {
        return vec![host];
    };
    let configure = |address: std::net::SocketAddr| {
        let mut host = host.clone();
        host.hostaddr(address.ip());
        host
    };
    found.map(configure).collect()
}

async fn connect(host: &tokio_postgres::Config, tls: &Tls) -> Result<Session, Error> {
    let session = match tls {
        // A Unix-domain socket has no name that the others would be prepared for.
        _ if host.get_ssl_mode() == SslMode::Disable => open(host, NoTls, &Tls::None).await,
        Tls::None => open(host, NoTls, tls).await,
        #[cfg(feature = "tls")]
        Tls::Rustls(rustls) => open(host, *rustls.clone(), tls).await,
    }?;
    tracing::debug!(target: TARGET, host = ?host.get_hosts(), "connected");
    Ok(session)
}

async fn open<T>(host: &tokio_postgres::Config, make_tls: T, tls: &Tls) -> Result<Session, Error>
where
    T: MakeTlsConnect<Socket>,
    T::Stream: Send + 'static,
{
    let (client, connection) = host.connect(make_tls).await?;
    let connection = tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(target: TARGET, error = text(&error), "the connection has ended");
        }
    });
    Ok(Session {
        client,
        connection,
        server: host.clone(),
        tls: tls.clone(),
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
