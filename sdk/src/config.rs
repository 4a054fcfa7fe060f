//! How to reach the server, and how much to keep at hand.

use std::time::Duration;

use leaf_core::StepPolicy;
use tokio_postgres::config::TargetSessionAttrs;

use crate::Error;
use crate::error::text;

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
#[derive(Clone)]
pub struct Config {
    pub(crate) connection: tokio_postgres::Config,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<rustls::ClientConfig>,
    pub(crate) steps: StepPolicy,
    pub(crate) min_step: u64,
    pub(crate) prefetch_percent: u64,
    pub(crate) timeout: Duration,
    pub(crate) query_timeout: Duration,
    pub(crate) retry: (Duration, Duration),
}

impl Config {
    /// A configuration for a connection string as `tokio-postgres` takes it: a
    /// URL or `key=value` pairs, with one host or several, of which the one that
    /// takes writes is used.
    ///
    /// # Errors
    /// [`Error::Config`] if the string cannot be parsed.
    ///
    /// ```
    /// let config = leaf_sdk::Config::new("postgresql://shop@db1,db2/shop")?;
    /// assert!(leaf_sdk::Config::new("host").is_err());
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    pub fn new(connection: &str) -> Result<Config, Error> {
        let mut connection: tokio_postgres::Config = connection
            .parse()
            .map_err(|error: tokio_postgres::Error| Error::Config(text(&error)))?;
        connection.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if connection.get_connect_timeout().is_none() {
            connection.connect_timeout(Duration::from_secs(5));
        }
        if connection.get_application_name().is_none() {
            connection.application_name("leaf-sdk");
        }
        Ok(Config {
            connection,
            #[cfg(feature = "tls")]
            tls: None,
            steps: StepPolicy {
                segment_duration: Duration::from_secs(10 * 60),
                max_step: 1_000_000,
            },
            min_step: 1_000,
            prefetch_percent: 10,
            timeout: Duration::from_secs(5),
            query_timeout: Duration::from_secs(10),
            retry: (Duration::from_millis(50), Duration::from_secs(5)),
        })
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

    /// How much of a buffer is used, in percent, before the next one is fetched (10).
    ///
    /// ```
    /// let config = leaf_sdk::Config::new("host=db user=shop")?.prefetch_percent(50);
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    pub fn prefetch_percent(mut self, percent: u8) -> Config {
        self.prefetch_percent = u64::from(percent);
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

    /// How long a statement may take before it is abandoned and repeated on another
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

    /// Connects with TLS, as the connection string's `sslmode` says, checking
    /// the server's certificate against the system's roots.
    ///
    /// # Errors
    /// [`Error::Config`] if the system's roots cannot be used.
    ///
    /// ```no_run
    /// let config = leaf_sdk::Config::new("host=db user=shop sslmode=require")?.tls()?;
    /// # Ok::<(), leaf_sdk::Error>(())
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls(self) -> Result<Config, Error> {
        use rustls_platform_verifier::ConfigVerifierExt;
        let tls = rustls::ClientConfig::with_platform_verifier()
            .map_err(|error| Error::Config(error.to_string()))?;
        Ok(self.tls_config(tls))
    }

    /// Connects with TLS, configured by the caller.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// // Add the root certificates to trust.
    /// let provider = Arc::new(rustls::crypto::ring::default_provider());
    /// let roots = rustls::RootCertStore::empty();
    /// let tls = rustls::ClientConfig::builder_with_provider(provider)
    ///     .with_safe_default_protocol_versions()?
    ///     .with_root_certificates(roots)
    ///     .with_no_client_auth();
    /// let config = leaf_sdk::Config::new("host=db user=shop sslmode=require")?.tls_config(tls);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls_config(mut self, tls: rustls::ClientConfig) -> Config {
        self.tls = Some(tls);
        self
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
        if self.prefetch_percent > 100 {
            return bad("prefetch_percent must be at most 100");
        }
        if self.retry.0.is_zero() || self.retry.0 > self.retry.1 {
            return bad(
                "the shortest pause must be longer than zero and at most the longest pause",
            );
        }
        if self.steps.segment_duration.is_zero() {
            return bad("buffer_duration must be longer than zero");
        }
        Ok(())
    }
}
