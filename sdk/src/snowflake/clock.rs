//! This machine's clock, and the other inputs of a generator.

use std::time::SystemTime;

use leaf_core::snowflake::Scheme;
use leaf_core::snowflake::generator::{ClockRules, Environment};

use crate::time::to_unix_us;

/// The time in microseconds since 1970.
pub(super) fn unix_us() -> i64 {
    to_unix_us(SystemTime::now())
}

/// The environment of a generator with this scheme.
pub(super) struct Clock<'a>(pub(super) &'a Scheme, pub(super) &'a ClockRules);

impl Environment for Clock<'_> {
    #[inline]
    fn now(&self) -> u64 {
        self.0.since_epoch(unix_us())
    }

    fn clock_rules(&self) -> ClockRules {
        *self.1
    }

    fn random(&self) -> u64 {
        fastrand::u64(..)
    }
}
