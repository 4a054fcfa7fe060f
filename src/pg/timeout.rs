//! The statement timeout, for a process that runs statements without a client.

use std::time::Duration;

/// `STATEMENT_TIMEOUT` and `LOCK_TIMEOUT` of PostgreSQL's `enum TimeoutId`,
/// the same in versions 15 to 18.
const LOCK_TIMEOUT: i32 = 2;
const STATEMENT_TIMEOUT: i32 = 3;

unsafe extern "C-unwind" {
    fn enable_timeout_after(id: i32, delay_ms: i32);
    fn disable_timeout(id: i32, keep_indicator: bool);
    fn get_timeout_indicator(id: i32, reset_indicator: bool) -> bool;
}

/// From now on, a statement that runs longer than `limit` is cancelled.
pub fn start(limit: Duration) {
    // SAFETY: the timeout's handler is registered in every process that is
    // connected to a database.
    unsafe { enable_timeout_after(STATEMENT_TIMEOUT, limit.as_millis() as i32) };
}

/// Ends what [`start`] began.
pub fn stop() {
    // SAFETY: as above; does nothing when it is not running.
    unsafe { disable_timeout(STATEMENT_TIMEOUT, false) };
}

/// Whether a timeout of this process, and not another process, has requested to cancel
/// its statement. Safe in a signal handler.
pub fn has_fired() -> bool {
    // SAFETY: reads two flags of this process.
    unsafe {
        get_timeout_indicator(LOCK_TIMEOUT, false)
            || get_timeout_indicator(STATEMENT_TIMEOUT, false)
    }
}
