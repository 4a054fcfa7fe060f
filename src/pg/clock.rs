//! Clocks, and instants as PostgreSQL counts them.

use std::sync::atomic::{AtomicI64, Ordering};

use leaf_core::time::Monotonic;
use pgrx::pg_sys;

/// The system's clock, in microseconds since 1970.
#[inline]
pub fn unix_us() -> i64 {
    read(libc::CLOCK_REALTIME)
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

/// Now, as PostgreSQL counts it.
pub fn now() -> pg_sys::TimestampTz {
    // SAFETY: reads the system clock.
    unsafe { pg_sys::GetCurrentTimestamp() }
}

/// Microseconds from 1970-01-01, as instants in ids are counted, to 2000-01-01,
/// as PostgreSQL counts them.
const EPOCH_DISTANCE_US: i64 = 946_684_800_000_000;

/// An instant of PostgreSQL's in microseconds since 1970.
pub fn to_unix_us(at: pg_sys::TimestampTz) -> i64 {
    at.saturating_add(EPOCH_DISTANCE_US)
}

/// An instant in microseconds since 1970 as PostgreSQL counts it.
pub fn from_unix_us(us: i64) -> pg_sys::TimestampTz {
    us.saturating_sub(EPOCH_DISTANCE_US)
}

/// An instant as text.
pub fn timestamp_text(at: pg_sys::TimestampTz) -> String {
    // SAFETY: returns a C string in a buffer of its own.
    let text = unsafe { std::ffi::CStr::from_ptr(pg_sys::timestamptz_to_str(at)) };
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
