//! How large the next segment of a tag is.
//!
//! The rule is Meituan Leaf's: a segment should last between one and two
//! [`segment_duration`](StepPolicy::segment_duration)s (15 and 30 minutes), so
//! that the catalog can be out of reach for that long. If a segment lasted less, the
//! next one is twice as large; if it lasted longer, the next one is half as large,
//! but never smaller than the step in the tag's row.
//!
//! One rule is added: if a segment lasted less than a second, the step is far too
//! small. The next segment then grows by a factor of up to [`MAX_GROWTH`], so that the
//! step reaches its final size within a few loads.

use std::time::Duration;

/// The largest factor by which a step grows from one segment to the next.
pub const MAX_GROWTH: u64 = 64;

/// Segments that last less than this are far too small, not just a little.
const FAR_TOO_SHORT: Duration = Duration::from_secs(1);

/// The settings of the step policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepPolicy {
    /// How long a segment should last at least (Meituan Leaf: 15 minutes).
    pub segment_duration: Duration,
    /// The step never grows beyond this many ids (Meituan Leaf: 1,000,000). If the
    /// step in the tag's row is larger, that step is used and does not grow.
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
    /// `row_step` is the step in the tag's row (at least 1), and `lasted` is the time
    /// from the load of the last segment to the load of this one.
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

/// The factor by which the step grows: 2, or, if the segment lasted less than a
/// second, the power of two with which it would have lasted up to a second.
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
