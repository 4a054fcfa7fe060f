//! How often and how long to measure.

use std::time::Duration;

/// How often and how long to measure.
#[derive(Clone, Copy, Debug)]
pub struct Runs {
    /// How often each side of a comparison runs.
    pub repetitions: u32,
    /// Whether this run only tries the benchmark.
    pub quick: bool,
}

impl Runs {
    /// `quick` if this run only tries the benchmark, otherwise `full`.
    pub fn size(&self, full: u64, quick: u64) -> u64 {
        if self.quick { quick } else { full }
    }

    /// The duration of a run that is limited by time.
    pub fn duration(&self, full_seconds: u64) -> Duration {
        Duration::from_secs(self.size(full_seconds, 1))
    }
}
