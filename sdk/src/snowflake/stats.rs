//! Statistics of a generator.

use std::time::{Duration, SystemTime};

use crate::Error;

/// Statistics of a generator, from
/// [`SnowflakeGenerator::stats`](crate::SnowflakeGenerator::stats).
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct SnowflakeStats {
    /// The worker id in the ids, if there is a lease.
    pub worker_id: Option<i32>,
    /// Until when the registry allows ids.
    pub ceiling: Option<SystemTime>,
    /// Leases and renewals.
    pub renewals: u64,
    /// How often the clock was seen to have gone back.
    pub rollbacks: u64,
    /// Calls that had to wait for a lease or for the clock and then got ids.
    pub waits: u64,
    /// The longest such wait.
    pub longest_wait: Duration,
    /// Why the last failed attempt to lease or to renew failed.
    pub last_error: Option<String>,
}

impl SnowflakeStats {
    /// For a generator about which nothing can be found out.
    pub(super) fn unavailable(why: &Error) -> Self {
        SnowflakeStats {
            worker_id: None,
            ceiling: None,
            renewals: 0,
            rollbacks: 0,
            waits: 0,
            longest_wait: Duration::ZERO,
            last_error: Some(why.to_string()),
        }
    }
}
