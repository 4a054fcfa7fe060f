//! Clocks, and instants as PostgreSQL counts them.

use std::sync::atomic::{AtomicI64, Ordering};

use leaf_core::time::{Monotonic, WallTime};
use pgrx::pg_sys;

/// The system's clock.
#[inline]
pub fn now() -> WallTime {
    WallTime::from_unix_us(read(libc::CLOCK_REALTIME))
}

/// A clock that never goes back, comparable between processes of one server.
pub fn monotonic() -> Monotonic {
    Monotonic::from_us(read(libc::CLOCK_MONOTONIC))
}

#[inline]
fn read(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills the struct; both clocks always exist.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

/// Microseconds from 1970-01-01, as instants in ids are counted, to 2000-01-01,
/// as PostgreSQL counts them.
const EPOCH_DISTANCE_US: i64 = 946_684_800_000_000;

/// An instant that PostgreSQL has counted.
pub fn from_timestamp(at: pg_sys::TimestampTz) -> WallTime {
    WallTime::from_unix_us(at).plus_us(EPOCH_DISTANCE_US)
}

/// An instant as PostgreSQL counts it; the last one is `infinity`.
pub fn to_timestamp(at: WallTime) -> pg_sys::TimestampTz {
    match at {
        WallTime::MAX => pg_sys::TimestampTz::MAX,
        at => at.plus_us(-EPOCH_DISTANCE_US).unix_us(),
    }
}

/// Whether an instant that PostgreSQL has counted is neither `infinity` nor `-infinity`.
pub fn is_finite(at: WallTime) -> bool {
    ![pg_sys::TimestampTz::MIN, pg_sys::TimestampTz::MAX]
        .map(from_timestamp)
        .contains(&at)
}

/// An instant as text.
pub fn text(at: WallTime) -> String {
    // SAFETY: returns a C string in a buffer of its own.
    let text = unsafe { std::ffi::CStr::from_ptr(pg_sys::timestamptz_to_str(to_timestamp(at))) };
    text.to_string_lossy().into_owned()
}

/// A monotonic instant that several processes read and write without a lock.
#[repr(transparent)]
pub struct AtomicMonotonic(AtomicI64);

impl AtomicMonotonic {
    /// [`Monotonic::ZERO`].
    pub const fn new() -> Self {
        AtomicMonotonic(AtomicI64::new(Monotonic::ZERO.as_us()))
    }

    /// The instant.
    pub fn get(&self) -> Monotonic {
        Monotonic::from_us(self.0.load(Ordering::Relaxed))
    }

    /// Sets the instant.
    pub fn set(&self, at: Monotonic) {
        self.0.store(at.as_us(), Ordering::Relaxed);
    }
}
