//! The configuration of a snowflake generator.

use std::path::{Path, PathBuf};
use std::time::Duration;

use leaf_core::snowflake::generator::{ClockPolicy, ClockRules};

/// How a [`SnowflakeGenerator`](crate::SnowflakeGenerator) leases its worker id, and
/// what it does when the clock goes back.
///
/// ```
/// use std::time::Duration;
///
/// let config = leaf_sdk::SnowflakeConfig::new("checkout-7")
///     .cache("/var/lib/checkout/worker.json")
///     .lease(Duration::from_secs(3600));
/// ```
#[derive(Clone, Debug)]
pub struct SnowflakeConfig {
    pub(super) node: String,
    pub(super) worker_id: Option<i32>,
    pub(super) cache: Option<PathBuf>,
    pub(super) lease: Duration,
    pub(super) rules: ClockRules,
}

impl SnowflakeConfig {
    /// The configuration of a node with this name (1 to 256 characters), which is
    /// shown in `leaf.worker`.
    ///
    /// ```
    /// let config = leaf_sdk::SnowflakeConfig::new("checkout-7");
    /// ```
    pub fn new(node: &str) -> Self {
        SnowflakeConfig {
            node: node.to_owned(),
            worker_id: None,
            cache: None,
            lease: Duration::from_secs(600),
            rules: ClockRules {
                policy: ClockPolicy::Error,
                tolerance_us: 5_000,
                max_lead_us: 60_000_000,
            },
        }
    }

    /// Requires a worker id, instead of taking any free one.
    ///
    /// ```
    /// let config = leaf_sdk::SnowflakeConfig::new("checkout-7").worker_id(7);
    /// ```
    pub fn worker_id(mut self, worker_id: i32) -> Self {
        self.worker_id = Some(worker_id);
        self
    }

    /// Keeps the lease in a file, so that the service can restart while the server
    /// cannot be reached. One process per file; the folder must exist.
    ///
    /// ```
    /// let config = leaf_sdk::SnowflakeConfig::new("checkout-7").cache("/var/lib/checkout/worker.json");
    /// ```
    pub fn cache(mut self, path: impl AsRef<Path>) -> Self {
        self.cache = Some(path.as_ref().to_owned());
        self
    }

    /// How far ahead of the clock the registry's ceiling is set, from 100 ms to a day
    /// (10 minutes). While the server cannot be reached, ids can be issued for
    /// between half and all of that time.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let config = leaf_sdk::SnowflakeConfig::new("checkout-7").lease(Duration::from_secs(3_600));
    /// ```
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How far behind the last id the clock may be for calls to wait for it (5 ms).
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let config = leaf_sdk::SnowflakeConfig::new("checkout-7").clock_tolerance(Duration::from_millis(20));
    /// ```
    pub fn clock_tolerance(mut self, tolerance: Duration) -> Self {
        self.rules.tolerance_us = tolerance.as_micros() as u64;
        self
    }

    /// If the clock goes back further, calls wait for it up to the timeout instead of
    /// failing.
    ///
    /// ```
    /// let config = leaf_sdk::SnowflakeConfig::new("checkout-7").wait_for_clock();
    /// ```
    pub fn wait_for_clock(mut self) -> Self {
        self.rules.policy = ClockPolicy::Wait;
        self
    }

    /// If the clock goes back further, ids continue from the time of the last one, at
    /// most `max_lead` ahead of the clock.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// let config = leaf_sdk::SnowflakeConfig::new("checkout-7").borrow_time(Duration::from_secs(10));
    /// ```
    pub fn borrow_time(mut self, max_lead: Duration) -> Self {
        self.rules.policy = ClockPolicy::Borrow;
        self.rules.max_lead_us = max_lead.as_micros() as u64;
        self
    }
}
