//! Statistics of calls that had to wait for ids.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Counters of waits.
#[derive(Default)]
#[repr(C)]
pub struct Waits {
    /// Calls that had to wait, and got ids.
    count: AtomicU64,
    /// How long all these waits lasted together, and those that were given up, in
    /// microseconds.
    total_us: AtomicU64,
    /// The longest wait, in microseconds.
    longest_us: AtomicU64,
    /// Calls that gave up after `leaf.wait_timeout`.
    timeouts: AtomicU64,
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug, Default)]
pub struct WaitCounts {
    /// Calls that had to wait, and got ids.
    pub waits: i64,
    /// How long calls have waited together.
    pub total_ms: f64,
    /// The longest wait.
    pub longest_ms: f64,
    /// Calls that gave up after `leaf.wait_timeout`.
    pub timeouts: i64,
}

impl Waits {
    /// Counts a wait that has ended with ids.
    pub fn add(&self, lasted: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.add_time(lasted);
    }

    fn add_time(&self, lasted: Duration) {
        let us = lasted.as_micros() as u64;
        self.total_us.fetch_add(us, Ordering::Relaxed);
        self.longest_us.fetch_max(us, Ordering::Relaxed);
    }

    /// Counts a call that gave up after `leaf.wait_timeout`.
    pub fn add_timeout(&self, lasted: Duration) {
        self.add_time(lasted);
        self.timeouts.fetch_add(1, Ordering::Relaxed);
    }

    /// The counters.
    pub fn counts(&self) -> WaitCounts {
        WaitCounts {
            waits: self.count.load(Ordering::Relaxed) as i64,
            total_ms: self.total_us.load(Ordering::Relaxed) as f64 / 1e3,
            longest_ms: self.longest_us.load(Ordering::Relaxed) as f64 / 1e3,
            timeouts: self.timeouts.load(Ordering::Relaxed) as i64,
        }
    }

    /// Resets the counters to 0.
    pub fn clear(&self) {
        self.count.store(0, Ordering::Relaxed);
        self.total_us.store(0, Ordering::Relaxed);
        self.longest_us.store(0, Ordering::Relaxed);
        self.timeouts.store(0, Ordering::Relaxed);
    }
}
