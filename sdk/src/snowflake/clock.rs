//! This machine's clock, and the other inputs of a generator.

use leaf_core::snowflake::Scheme;
use leaf_core::snowflake::generator::{ClockRules, Environment};
use leaf_core::time::SinceEpoch;

use crate::time;

/// The environment of a generator with this scheme.
pub(super) struct Clock<'a>(pub(super) &'a Scheme, pub(super) &'a ClockRules);

impl Environment for Clock<'_> {
    #[inline]
    fn now(&self) -> SinceEpoch {
        self.0.since_epoch(time::now())
    }

    fn clock_rules(&self) -> ClockRules {
        *self.1
    }

    fn random(&self) -> u64 {
        fastrand::u64(..)
    }
}
