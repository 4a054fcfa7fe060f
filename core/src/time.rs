//! Kinds of time, as types that cannot be mixed.
//!
//! - [`Monotonic`] measures how long something took or when to try again. It
//!   never goes back, and says nothing about the date.
//! - [`WallTime`] is an instant of the calendar. The clock behind it can step in
//!   either direction, so the difference of two readings is not a duration.
//! - [`SinceEpoch`] is a wall time as it is counted in ids: from the epoch of their
//!   [`Scheme`](crate::snowflake::Scheme) on, never negative.
//!
//! All count microseconds. Nothing here reads a clock.

use std::time::Duration;

/// An instant of a clock that never goes back, in microseconds. It is counted from
/// an arbitrary instant, which must be the same for all values that are compared.
///
/// ```
/// use leaf_core::time::Monotonic;
/// use std::time::Duration;
///
/// let began = Monotonic::from_us(1_000);
/// let retry_at = began + Duration::from_millis(2);
/// assert_eq!(retry_at.since(began), Duration::from_millis(2));
/// assert_eq!(began.since(retry_at), Duration::ZERO);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct Monotonic(i64);

impl Monotonic {
    /// The instant 0, before every reading of the clock.
    pub const ZERO: Monotonic = Monotonic(0);

    /// An instant from its count of microseconds.
    pub const fn from_us(us: i64) -> Self {
        Monotonic(us)
    }

    /// Its count of microseconds.
    pub const fn as_us(self) -> i64 {
        self.0
    }

    /// How long this instant is after `earlier`; zero if it is not after it.
    pub fn since(self, earlier: Monotonic) -> Duration {
        let us = self.0.saturating_sub(earlier.0).max(0);
        Duration::from_micros(us as u64)
    }
}

impl std::ops::Add<Duration> for Monotonic {
    type Output = Monotonic;

    fn add(self, duration: Duration) -> Monotonic {
        Monotonic(self.0.saturating_add(micros(duration)))
    }
}

/// An instant of the calendar: microseconds since 1970-01-01 00:00 UTC, without
/// leap seconds.
///
/// ```
/// use leaf_core::time::WallTime;
///
/// let at = WallTime::from_unix_us(1_500_000);
/// assert_eq!(at.us_after(WallTime::from_unix_us(2_000_000)), -500_000);
/// assert_eq!(at.plus_us(500_000).unix_us(), 2_000_000);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(transparent))]
#[repr(transparent)]
pub struct WallTime(i64);

impl WallTime {
    /// Before every other instant.
    pub const MIN: WallTime = WallTime(i64::MIN);
    /// After every other instant.
    pub const MAX: WallTime = WallTime(i64::MAX);

    /// An instant from microseconds since 1970.
    pub const fn from_unix_us(us: i64) -> Self {
        WallTime(us)
    }

    /// Microseconds since 1970.
    pub const fn unix_us(self) -> i64 {
        self.0
    }

    /// The instant `us` microseconds later, or earlier if `us` is negative.
    pub const fn plus_us(self, us: i64) -> Self {
        WallTime(self.0.saturating_add(us))
    }

    /// How many microseconds this instant is after `other`; negative if it is before.
    pub const fn us_after(self, other: WallTime) -> i64 {
        self.0.saturating_sub(other.0)
    }
}

impl std::ops::Add<Duration> for WallTime {
    type Output = WallTime;

    fn add(self, duration: Duration) -> WallTime {
        self.plus_us(micros(duration))
    }
}

/// Microseconds since the epoch of ids; 0 for every instant before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
#[repr(transparent)]
pub struct SinceEpoch(u64);

impl SinceEpoch {
    /// An instant from microseconds since the epoch.
    pub const fn from_us(us: u64) -> Self {
        SinceEpoch(us)
    }

    /// Microseconds since the epoch.
    pub const fn as_us(self) -> u64 {
        self.0
    }
}

/// A duration in microseconds, `i64::MAX` at most.
fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_wraps_at_the_ends_of_time() {
        assert_eq!(WallTime::MAX + Duration::MAX, WallTime::MAX);
        assert_eq!(WallTime::MIN.us_after(WallTime::MAX), i64::MIN);
        let last = Monotonic::from_us(i64::MAX);
        assert_eq!(last + Duration::MAX, last);
        assert_eq!(Monotonic::from_us(i64::MIN).since(last), Duration::ZERO);
    }
}
