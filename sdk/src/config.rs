//! How to reach the server, and how much to keep at hand.

use std::time::Duration;

use leaf_core::StepPolicy;

use crate::Error;
#[cfg(feature = "tls")]
use crate::connection::Connector;
use crate::connection::{Targets, TlsUse};

/// How a [`Leaf`](crate::Leaf) connects, buffers and waits.
///
/// ```
/// use std::time::Duration;
///
/// let config = leaf_sdk::Config::new("host=db1,db2 user=shop dbname=shop")?
///     .buffer_duration(Duration::from_secs(20 * 60))
///     .timeout(Duration::from_millis(500));
/// # Ok::<(), leaf_sdk::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Config {
    pub(crate) targets: Targets,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<Connector>,
    pub(crate) use_of_tls: TlsUse,
    pub(crate) steps: StepPolicy,
    pub(crate) min_step: u64,
    pub(crate) timeout: Duration,
    pub(crate) query_timeout: Duration,
    pub(crate) retry: (Duration, Duration),
    pub(crate) max_buffer_age: Duration,
}

impl Config {
    /// A configuration for a connection string as libpq takes it: a URI or
    /// `key=value` pairs, with one host or several, of which the first one that answers
    /// and is no standby is used.
    ///
    /// Keywords mean what they mean in libpq, with these exceptions: without
    /// `connect_timeout`, each host has 5 seconds to answer; TLS needs
    /// `Config::tls`; and of the environment, only the password file and the
    /// service file are read, see [`from_env`](Config::from_env).
    ///
    /// # Errors
    /// [`Error::Config`] if the string cannot be parsed, or has an option that is
    /// unknown or cannot be obeyed.
    ///
    /// ```
    /// let config = leaf_sdk::Config::new("postgresql://shop@db1,db2/shop")?;
    /// assert!(leaf_sdk::Config::new("host").is_err());
    /// assert!(leaf_sdk::Config::new("hots=db1").is_err());
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    pub fn new(connection: &str) -> Result<Config, Error> {
        Targets::of_string(connection).map(Config::of)
    }

    /// A configuration for the server that the environment names, as for `psql`
    /// without arguments: `PGHOST`, `PGUSER` and the other variables of libpq, and the
    /// service that `PGSERVICE` names.
    ///
    /// # Errors
    /// [`Error::Config`] as for [`new`](Config::new).
    ///
    /// ```no_run
    /// let config = leaf_sdk::Config::from_env()?;
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    pub fn from_env() -> Result<Config, Error> {
        Config::from_params([])
    }

    /// A configuration for keywords and values, such as `("host", "db1")`, and for what
    /// they leave out, from the service and the environment: for programs that take the
    /// options of `psql`. Of a keyword that is given twice, the last one counts. A `dbname`
    /// that is a connection string stands for its options.
    ///
    /// # Errors
    /// [`Error::Config`] as for [`new`](Config::new).
    ///
    /// ```
    /// let config = leaf_sdk::Config::from_params([("user", "shop"), ("dbname", "host=db1,db2")])?;
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    pub fn from_params<'a>(
        params: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Config, Error> {
        Targets::of_params(params).map(Config::of)
    }

    /// The password for all hosts, for a program that has asked a person for it.
    ///
    /// ```
    /// let config = leaf_sdk::Config::new("host=db user=shop")?.password("from a prompt");
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    pub fn password(mut self, password: &str) -> Config {
        self.targets.driver.password(password);
        self
    }

    /// Another database of the same server.
    ///
    /// ```
    /// let config = leaf_sdk::Config::new("host=db user=shop")?.database("archive");
    /// assert_eq!(config.dbname(), "archive");
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    pub fn database(mut self, name: &str) -> Config {
        self.targets.driver.dbname(name);
        self
    }

    /// More settings of the sessions, as `options` in a connection string gives them, which they follow.
    ///
    /// ```
    /// let config = leaf_sdk::Config::new("host=db user=shop")?.options("-c search_path=ids");
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    pub fn options(mut self, options: &str) -> Config {
        let driver = &mut self.targets.driver;
        let before = driver.get_options().unwrap_or_default();
        driver.options(format!("{before} {options}"));
        self
    }

    /// The name of the user.
    ///
    /// ```
    /// let config = leaf_sdk::Config::new("host=db user=shop")?;
    /// assert_eq!(config.user(), "shop");
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    pub fn user(&self) -> String {
        self.targets.user().to_owned()
    }

    /// The name of the database.
    ///
    /// ```
    /// let config = leaf_sdk::Config::new("host=db user=shop")?;
    /// assert_eq!(config.dbname(), "shop");
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    pub fn dbname(&self) -> String {
        self.targets.dbname().to_owned()
    }

    /// The hosts with their ports, as `host:port`, in the order in which they are tried.
    ///
    /// ```
    /// let config = leaf_sdk::Config::new("host=db1,db2 port=6432 user=shop")?;
    /// assert_eq!(config.hosts(), ["db1:6432", "db2:6432"]);
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    pub fn hosts(&self) -> Vec<String> {
        self.targets.hosts.iter().map(ToString::to_string).collect()
    }

    fn of(targets: Targets) -> Config {
        Config {
            targets,
            #[cfg(feature = "tls")]
            tls: None,
            use_of_tls: TlsUse::Never,
            steps: StepPolicy {
                segment_duration: Duration::from_secs(10 * 60),
                max_step: 1_000_000,
            },
            min_step: 1_000,
            timeout: Duration::from_secs(5),
            query_timeout: Duration::from_secs(10),
            retry: (Duration::from_millis(50), Duration::from_secs(5)),
            max_buffer_age: Duration::from_secs(3600),
        }
    }

    /// How long one buffer should last (10 minutes): a tag has up to two, so
    /// the server may be unreachable for at least about that long.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let config = leaf_sdk::Config::new("host=db user=shop")?.buffer_duration(Duration::from_secs(1_200));
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    pub fn buffer_duration(mut self, duration: Duration) -> Config {
        self.steps.segment_duration = duration;
        self
    }

    /// The smallest and the largest number of ids to fetch at once (1,000 and
    /// 1,000,000). A process that ends without [`close`](crate::Leaf::close)
    /// loses at most two buffers of each tag.
    ///
    /// ```
    /// let config = leaf_sdk::Config::new("host=db user=shop")?.steps(100, 50_000);
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    pub fn steps(mut self, min: u64, max: u64) -> Config {
        self.min_step = min;
        self.steps.max_step = max;
        self
    }

    /// How long ids may be held without a sign from the server that the tag is still the
    /// one that they were reserved from (1 hour). A tag that was dropped and created
    /// again starts anew; for up to this time, a process that does not need more ids may
    /// still issue ids of the earlier tag. The server is asked after half of the time. If
    /// it cannot be reached, the ids are discarded after the whole time.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let config = leaf_sdk::Config::new("host=db user=shop")?.max_buffer_age(Duration::from_secs(60));
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    pub fn max_buffer_age(mut self, age: Duration) -> Config {
        self.max_buffer_age = age;
        self
    }

    /// How long a call waits for an id that is not at hand (5 s).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let config = leaf_sdk::Config::new("host=db user=shop")?.timeout(Duration::from_millis(500));
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    pub fn timeout(mut self, timeout: Duration) -> Config {
        self.timeout = timeout;
        self
    }

    /// How long a statement may take before it is cancelled and repeated on another
    /// connection (10 s).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let config = leaf_sdk::Config::new("host=db user=shop")?.query_timeout(Duration::from_secs(2));
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    pub fn query_timeout(mut self, timeout: Duration) -> Config {
        self.query_timeout = timeout;
        self
    }

    /// The shortest and the longest pause before a failed attempt is repeated
    /// (50 ms, 5 s). Pauses double, with jitter.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let config = leaf_sdk::Config::new("host=db user=shop")?.retry_between(Duration::from_millis(10), Duration::from_secs(1));
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    pub fn retry_between(mut self, shortest: Duration, longest: Duration) -> Config {
        self.retry = (shortest, longest);
        self
    }

    /// Connects with TLS only, and verifies the server's certificate: it must have been
    /// issued by an authority that the system trusts, or one in the file that
    /// `sslrootcert` names, and, except with `sslmode=verify-ca`, for the name of the
    /// host. That is stricter than libpq's `sslmode=require`.
    ///
    /// # Errors
    /// [`Error::Config`] if the root certificates cannot be used. [`Leaf::new`] fails
    /// with it if the connection string has `sslmode=disable` or names a Unix-domain
    /// socket, over which there is no TLS.
    ///
    /// [`Leaf::new`]: crate::Leaf::new
    ///
    /// ```no_run
    /// let config = leaf_sdk::Config::new("host=db user=shop sslmode=verify-full")?.tls()?;
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls(self) -> Result<Config, Error> {
        let tls = Connector::verified(&self.targets)?;
        Ok(self.always_with(tls))
    }

    /// Connects with TLS only, configured by the caller, who decides what is verified.
    ///
    /// ```
    /// use openssl::ssl::{SslConnector, SslMethod};
    ///
    /// let tls = SslConnector::builder(SslMethod::tls_client())?.build();
    /// let config = leaf_sdk::Config::new("host=db user=shop sslmode=require")?.tls_config(tls);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls_config(self, tls: openssl::ssl::SslConnector) -> Config {
        self.always_with(Connector::new(tls))
    }

    #[cfg(feature = "tls")]
    fn always_with(mut self, tls: Connector) -> Config {
        self.tls = Some(tls);
        self.use_of_tls = TlsUse::Always;
        self
    }

    /// Connects with TLS where `sslmode` says so, and verifies what libpq verifies then, with the
    /// files that libpq uses, in `~/.postgresql` by default. With `prefer`, the default, and
    /// `allow`, a server that refuses one kind of connection gets the other. Connections
    /// over Unix-domain sockets have no TLS. For programs that are to connect as `psql`
    /// does; services use [`tls`](Config::tls).
    ///
    /// # Errors
    /// [`Error::Config`] if the root certificates cannot be used.
    ///
    /// ```
    /// let config = leaf_sdk::Config::new("host=db user=shop sslmode=require")?.tls_by_mode()?;
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls_by_mode(mut self) -> Result<Config, Error> {
        self.tls = Some(Connector::by_mode(&self.targets)?);
        self.use_of_tls = TlsUse::ByMode;
        Ok(self)
    }

    /// Checks what no setter can check alone.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let bad = |what: &str| Err(Error::Config(what.into()));
        if self.min_step == 0 || self.min_step > self.steps.max_step {
            return bad("the smallest step must be at least 1 and at most the largest step");
        }
        if self.steps.max_step > i64::MAX as u64 {
            return bad("the largest step is out of range for type bigint");
        }
        if self.retry.0.is_zero() || self.retry.0 > self.retry.1 {
            return bad(
                "the shortest pause must be longer than zero and at most the longest pause",
            );
        }
        if self.steps.segment_duration.is_zero() {
            return bad("buffer_duration must be longer than zero");
        }
        if self.query_timeout.is_zero() {
            return bad("query_timeout must be longer than zero");
        }
        if self.max_buffer_age.is_zero() {
            return bad("max_buffer_age must be longer than zero");
        }
        self.targets.check_tls(self.use_of_tls)
    }
}

/// As [`Config::new`] for a connection string.
impl TryFrom<tokio_postgres::Config> for Config {
    type Error = Error;

    fn try_from(config: tokio_postgres::Config) -> Result<Config, Error> {
        Targets::of_driver(config).map(Config::of)
    }
}
