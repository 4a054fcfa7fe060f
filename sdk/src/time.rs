//! Instants as microseconds since 1970, which is how ids and leases count them.

use std::time::{Duration, SystemTime};

/// An instant in microseconds since 1970.
pub(crate) fn to_unix_us(at: SystemTime) -> i64 {
    match at.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(since) => since.as_micros() as i64,
        Err(before) => -(before.duration().as_micros() as i64),
    }
}

/// The instant so many microseconds after 1970.
pub(crate) fn from_unix_us(us: i64) -> SystemTime {
    let distance = Duration::from_micros(us.unsigned_abs());
    match us < 0 {
        true => SystemTime::UNIX_EPOCH - distance,
        false => SystemTime::UNIX_EPOCH + distance,
    }
}
