//! How large the next segment of a tag shall be.
//!
//! The rule is Meituan Leaf's: a segment should last between one and two
//! [`segment_duration`](StepPolicy::segment_duration)s (15 and 30 minutes), so
//! that the catalog may be out of reach that long. One that lasted less doubles
//! the next, one that lasted longer halves it, never under the step that the
//! tag's row asks for.
//!
//! One rule is added: a segment that lasted less than a second shows a tag
//! whose step is far off, so the next one grows by up to [`MAX_GROWTH`] at once
//! and reaches its cruising size within a few loads.

use std::time::Duration;

/// The most a step grows from one segment to the next.
pub const MAX_GROWTH: u64 = 64;

/// Segments shorter than this are far too small, not just a little.
const FAR_TOO_SHORT: Duration = Duration::from_secs(1);

/// The settings of the step policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepPolicy {
    /// How long a segment should last at least (Leaf: 15 minutes).
    pub segment_duration: Duration,
    /// The step never grows beyond this many ids (Leaf: 1,000,000). A row that
    /// asks for more gets what it asks for, and no growth.
    pub max_step: u64,
}

impl Default for StepPolicy {
    fn default() -> Self {
        StepPolicy {
            segment_duration: Duration::from_secs(15 * 60),
            max_step: 1_000_000,
        }
    }
}

impl StepPolicy {
    /// The size of the next segment, in ids.
    ///
    /// `current` is the size of the last segment (0 if there was none),
    /// `row_step` the step in the tag's row (at least 1), `lasted` the time
    /// from that segment's load to this one.
    ///
    /// ```
    /// use leaf_core::StepPolicy;
    /// use std::time::Duration;
    ///
    /// let minutes = |n: u64| Duration::from_secs(60 * n);
    /// let policy = StepPolicy::default();
    /// assert_eq!(policy.next_step(2000, 1000, minutes(10)), 4000);
    /// assert_eq!(policy.next_step(2000, 1000, minutes(20)), 2000);
    /// assert_eq!(policy.next_step(2000, 1000, minutes(40)), 1000);
    /// ```
    pub fn next_step(&self, current: u64, row_step: u64, lasted: Duration) -> u64 {
        let row_step = row_step.max(1);
        if current == 0 {
            return row_step;
        }
        let wanted = if lasted < self.segment_duration {
            current.saturating_mul(growth(lasted))
        } else if lasted < self.segment_duration.saturating_mul(2) {
            current
        } else {
            current / 2
        };
        wanted.clamp(row_step, self.max_step.max(row_step))
    }
}

/// 2 for a segment that lasted a while; for one that lasted milliseconds, the
/// power of two that would have made it last up to a second.
fn growth(lasted: Duration) -> u64 {
    if lasted.is_zero() {
        return MAX_GROWTH;
    }
    let too_short_by = FAR_TOO_SHORT.as_nanos() / lasted.as_nanos();
    let factor = u64::try_from(too_short_by).unwrap_or(u64::MAX);
    prev_power_of_two(factor).clamp(2, MAX_GROWTH)
}

fn prev_power_of_two(n: u64) -> u64 {
    match n {
        0 => 1,
        n => 1 << n.ilog2(),
    }
}
