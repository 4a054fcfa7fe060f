//! How far a lease's ceiling is raised, and when. The *ceiling* is the instant that the
//! time of ids must stay below.

use std::time::Duration;

use super::scheme::Scheme;
use crate::time::WallTime;

/// The instant to which the ceiling of a lease is raised when the clock shows
/// `clock` and ids have been issued up to `last`: the clock plus `ahead`.
///
/// The ids themselves may be ahead of the clock. The ceiling is then a quarter of
/// `ahead` after them, if that is later, and no more. Therefore, a node that
/// crashes again and again, and starts at its ceiling each time, does not run further
/// and further ahead of the clock. Because ids are issued by the tick, the ceiling is always
/// at least two ticks ahead of both, or one if ticks are [long](is_long): after a crash, ids
/// begin at the ceiling, and callers wait until then. It is never beyond the end of the
/// layout's time.
///
/// If the clock has gone back, the result can be below an earlier ceiling; the caller
/// must use the higher of the two.
///
/// ```
/// use leaf_core::snowflake::{Layout, Scheme, ceiling};
/// use leaf_core::time::WallTime;
/// use std::time::Duration;
///
/// let scheme = Scheme::of(Layout::LEAF);
/// let now = WallTime::from_unix_us(1_800_000_000_000_000);
/// let ahead = Duration::from_secs(4);
/// assert_eq!(ceiling::next(&scheme, now, now, ahead), now + ahead);
/// let last = now + Duration::from_secs(10);
/// assert_eq!(ceiling::next(&scheme, now, last, ahead), last + ahead / 4);
/// ```
pub fn next(scheme: &Scheme, clock: WallTime, last: WallTime, ahead: Duration) -> WallTime {
    let of_clock = clock + ahead;
    let of_ids = last + ahead / 4;
    let ticks = if is_long(scheme) { 1 } else { 2 };
    let least = scheme.tick_at(clock.max(last)).saturating_add(ticks);
    let tick = scheme.tick_from(of_clock.max(of_ids)).max(least);
    scheme.instant_of(tick.min(scheme.layout.ticks()))
}

/// Whether ticks are long, that is, at least ten seconds. A ceiling at the end of the
/// current tick is then sufficient: there is time to raise it before that.
pub fn is_long(scheme: &Scheme) -> bool {
    scheme.layout.tick_us() >= 10_000_000
}

/// The tick from which a ceiling is due to be raised: half-way from `from`, the first
/// tick in which ids are issued, to the ceiling, but not within the first tick. Ids reach it, not
/// the clock: where none are issued, nothing is written.
///
/// ```
/// use leaf_core::snowflake::ceiling;
///
/// assert_eq!(ceiling::renew_at(100, 200), 150);
/// assert_eq!(ceiling::renew_at(100, 101), 101);
/// ```
pub fn renew_at(from: u64, ceiling: u64) -> u64 {
    let ticks = ceiling.saturating_sub(from);
    from + (ticks / 2).max(1).min(ticks)
}
