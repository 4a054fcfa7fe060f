//! How far a lease's ceiling is raised, and when.

use super::Scheme;

/// The instant to which the ceiling of a lease is raised, when the clock shows
/// one instant and ids have been issued up to another: `ahead_us` microseconds
/// ahead of the clock.
///
/// Ids may be ahead of the clock themselves. The ceiling is then at least a
/// quarter of `ahead_us` ahead of them, and no more, so that a node which
/// crashes again and again, and begins at its ceiling each time, does not run
/// away from the clock. It is always at least two ticks ahead of both, because
/// ids are issued by the tick, and never beyond the end of the layout's time.
///
/// The result can be below an earlier ceiling, when the clock has gone back: a
/// caller that raises a ceiling takes the higher of the two.
///
/// ```
/// use leaf_core::snowflake::{Layout, Scheme, ceiling};
///
/// let scheme = Scheme::of(Layout::LEAF);
/// let now = 1_800_000_000_000_000;
/// let second = 1_000_000;
/// assert_eq!(ceiling::next(&scheme, now, now, 4 * second), now + 4 * second);
/// let last = now + 10 * second;
/// assert_eq!(ceiling::next(&scheme, now, last, 4 * second), last + second);
/// ```
pub fn next(scheme: &Scheme, clock_us: i64, last_us: i64, ahead_us: i64) -> i64 {
    let of_clock = clock_us.saturating_add(ahead_us);
    let of_ids = last_us.saturating_add(ahead_us / 4);
    let two_ticks = scheme.tick_at(clock_us.max(last_us)).saturating_add(2);
    let tick = scheme.tick_from(of_clock.max(of_ids)).max(two_ticks);
    scheme.instant_of(tick.min(scheme.layout.ticks()))
}

/// The tick from which on a ceiling is due to be raised, when ids are issued
/// from the tick `from` on: half-way.
///
/// ```
/// use leaf_core::snowflake::ceiling;
///
/// assert_eq!(ceiling::renew_at(100, 200), 150);
/// ```
pub fn renew_at(from: u64, ceiling: u64) -> u64 {
    from + ceiling.saturating_sub(from) / 2
}
