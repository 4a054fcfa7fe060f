//! Waiting for a condition instead of for a time.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Polls `condition` until it holds; panics with `what` if that takes longer than
/// two minutes, which no healthy machine needs for anything the tests wait for.
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(120);
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain until {what}");
        sleep(Duration::from_millis(5));
    }
}

/// Tells threads to stop when it is dropped, and so also when the test that
/// started them fails.
pub struct Stop<'a>(pub &'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}
