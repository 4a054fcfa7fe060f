//! The inputs of a generator: clock, settings, random numbers.

use leaf_core::snowflake::Scheme;
use leaf_core::snowflake::generator::{ClockRules, Environment};

use leaf_core::time::SinceEpoch;

use crate::pg::{clock, process};
use crate::settings;

/// The environment of a generator in PostgreSQL.
pub struct PgEnvironment<'a>(&'a Scheme);

impl<'a> PgEnvironment<'a> {
    /// The environment with the clock counted from the scheme's epoch.
    #[inline(always)]
    pub fn new(scheme: &'a Scheme) -> Self {
        PgEnvironment(scheme)
    }
}

impl Environment for PgEnvironment<'_> {
    #[inline(always)]
    fn now(&self) -> SinceEpoch {
        self.0.since_epoch(clock::now())
    }

    fn clock_rules(&self) -> ClockRules {
        settings::snowflake::clock_rules()
    }

    #[inline(always)]
    fn random(&self) -> u64 {
        process::random()
    }
}
