//! Connections as psql makes them.

use std::env;
use std::io::{IsTerminal, stdin};
use std::time::Duration;

use leaf_sdk::{Config, Connection};

use crate::failure::{Code, Failure};

/// The heading of the options of a connection in a help text.
pub const HEADING: &str = "Connection";

/// How `leafctl` is called in `pg_stat_activity`.
const APPLICATION: &str = "leafctl";

/// How long the server may take to receive the request to cancel a statement.
const CANCEL_LIMIT: Duration = Duration::from_secs(5);

/// How long the server may take to receive that a connection ends.
const CLOSE_LIMIT: Duration = Duration::from_secs(1);

/// How to connect.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = HEADING)]
pub struct Args {
    /// Server host, or folder of its socket; several with commas
    #[arg(short = 'h', long, value_name = "HOST", global = true)]
    host: Option<String>,

    /// Server port
    #[arg(short = 'p', long, value_name = "PORT", global = true)]
    port: Option<String>,

    /// User name
    #[arg(short = 'U', long, value_name = "NAME", global = true)]
    username: Option<String>,

    /// Database name, or a connection string or URI
    #[arg(short = 'd', long, value_name = "DBNAME", global = true)]
    dbname: Vec<String>,

    /// Never ask for a password
    #[arg(short = 'w', long, conflicts_with = "password", global = true)]
    no_password: bool,

    /// Ask for the password before connecting
    #[arg(short = 'W', long, global = true)]
    password: bool,
}

/// Whether the server must not be a standby. A connection string can say more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Any,
    ReadWrite,
}

impl Args {
    /// The configuration of the client library, with a password, if one is to be asked for.
    ///
    /// # Errors
    /// If the options cannot be obeyed, or if there is more than one database.
    pub fn config(&self) -> Result<Config, Failure> {
        self.config_for(Access::Any)
    }

    fn config_for(&self, access: Access) -> Result<Config, Failure> {
        match self.dbname.as_slice() {
            [] => self.config_of(None, access),
            [one] => self.config_of(Some(one), access),
            _ => Err(Failure::usage("this command takes only one --dbname")),
        }
    }

    /// The configurations for a command that takes several databases.
    pub fn configs(&self) -> Result<Vec<Config>, Failure> {
        if self.dbname.is_empty() {
            return Ok(vec![self.config_of(None, Access::Any)?]);
        }
        let each = self.dbname.iter();
        each.map(|dbname| self.config_of(Some(dbname), Access::Any))
            .collect()
    }

    fn config_of(&self, dbname: Option<&String>, access: Access) -> Result<Config, Failure> {
        let mut params = Vec::new();
        if env::var_os("PGAPPNAME").is_none() {
            params.push(("application_name", APPLICATION));
        }
        if access == Access::ReadWrite {
            params.push(("target_session_attrs", "primary"));
        }
        let given = [
            ("host", &self.host),
            ("port", &self.port),
            ("user", &self.username),
            // As in psql, a connection string comes before the other options.
            ("dbname", &dbname.cloned()),
        ];
        for (key, value) in &given {
            params.extend(value.as_deref().map(|value| (*key, value)));
        }
        let config = Config::from_params(params)?.tls_by_mode()?;
        match self.password {
            true => Ok(config.clone().password(&ask(&config.user())?)),
            false => Ok(config),
        }
    }

    /// Connects. Asks for a password if the server wants one and there is a terminal.
    pub async fn open(&self, access: Access) -> Result<Connection, Failure> {
        let opened = self.open_config(&self.config_for(access)?).await?;
        Ok(opened.1)
    }

    /// Like [`open`](Self::open); returns the configuration, too, for further connections.
    pub async fn open_for_many(&self, access: Access) -> Result<(Config, Connection), Failure> {
        self.open_config(&self.config_for(access)?).await
    }

    /// Connects with one of the [`configs`](Self::configs). Returns it, too, with the
    /// password if one was asked for.
    pub async fn open_config(&self, config: &Config) -> Result<(Config, Connection), Failure> {
        let error = match Connection::open(config).await {
            Ok(connection) => return Ok((config.clone(), connection)),
            Err(error) => error,
        };
        if !is_password_missing(&error) {
            return Err(about_hosts(error, config));
        }
        if self.no_password || !stdin().is_terminal() {
            return Err(Failure::new(Code::Unreachable, "password missing")
                .about(config.hosts().join(", "))
                .hint("set PGPASSWORD, or add the server to the password file ~/.pgpass"));
        }
        let config = config.clone().password(&ask(&config.user())?);
        match Connection::open(&config).await {
            Ok(connection) => Ok((config, connection)),
            Err(error) => Err(about_hosts(error, &config)),
        }
    }
}

fn is_password_missing(error: &leaf_sdk::Error) -> bool {
    matches!(error, leaf_sdk::Error::Config(message) if message.starts_with("password missing"))
}

fn about_hosts(error: leaf_sdk::Error, config: &Config) -> Failure {
    let is_refused = error.sqlstate().is_some();
    let is_of_tls = is_of_tls(&error);
    let failure = Failure::from(error);
    if !failure.is_unreachable() && !is_refused {
        return failure;
    }
    let hosts = config.hosts().join(", ");
    let failure = Failure::new(Code::Unreachable, failure.text()).about(hosts);
    match is_refused {
        true => failure,
        false if is_of_tls => failure.hint(
            "check sslmode, the file of root certificates that sslrootcert names, and the host's name",
        ),
        false => failure.hint("check that the server runs there and accepts connections"),
    }
}

/// The driver has no other sign of it.
fn is_of_tls(error: &leaf_sdk::Error) -> bool {
    matches!(error, leaf_sdk::Error::Connection(cause) if cause.to_string().contains("TLS handshake"))
}

fn ask(user: &str) -> Result<String, Failure> {
    let prompt = format!("Password for user {user}: ");
    rpassword::prompt_password(prompt).map_err(Failure::failed)
}

/// Does the work on the connection, and ends it. Ctrl-C cancels the statement that is being
/// executed. Fails if a failover may lose what was committed.
pub async fn interruptible<T>(
    connection: Connection,
    work: impl AsyncFnOnce(&Connection) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let done = tokio::select! {
        done = work(&connection) => done,
        _ = tokio::signal::ctrl_c() => {
            // Whether or not the server receives it: the connection ends with this process,
            // and with the connection its transaction.
            let _ = tokio::time::timeout(CANCEL_LIMIT, connection.cancel()).await;
            Err(Failure::silent(Code::Interrupted))
        }
    };
    let done = done.and_then(|done| match connection.confirmed() {
        Err(leaf_sdk::Error::Connection(warning)) => Err(Failure::failed(warning)),
        _ => Ok(done),
    });
    close(connection).await;
    done
}

/// Ends a connection. A server that does not answer is not waited for.
pub async fn close(connection: Connection) {
    let _ = tokio::time::timeout(CLOSE_LIMIT, connection.close()).await;
}
