//! The step policy: Leaf's three cases, the bounds, and how a tag gets from
//! idle to its cruising step and back.
#![cfg(not(loom))]

use std::time::Duration;

use leaf_core::StepPolicy;
use leaf_core::step::MAX_GROWTH;
use proptest::prelude::*;

const POLICY: StepPolicy = StepPolicy {
    segment_duration: Duration::from_secs(15 * 60),
    max_step: 1_000_000,
};

const fn minutes(n: u64) -> Duration {
    Duration::from_secs(60 * n)
}

const NANOSECOND: Duration = Duration::from_nanos(1);

#[test]
fn the_defaults_are_leafs() {
    assert_eq!(StepPolicy::default(), POLICY);
}

#[test]
fn a_segment_that_lasted_under_15_minutes_doubles_the_next() {
    assert_eq!(POLICY.next_step(2000, 1000, minutes(1)), 4000);
    assert_eq!(POLICY.next_step(2000, 1000, minutes(15) - NANOSECOND), 4000);
}

#[test]
fn one_that_lasted_15_to_30_minutes_keeps_it() {
    assert_eq!(POLICY.next_step(2000, 1000, minutes(15)), 2000);
    assert_eq!(POLICY.next_step(2000, 1000, minutes(30) - NANOSECOND), 2000);
}

#[test]
fn one_that_lasted_longer_halves_it() {
    assert_eq!(POLICY.next_step(4000, 1000, minutes(30)), 2000);
    assert_eq!(POLICY.next_step(4000, 1000, Duration::MAX), 2000);
}

#[test]
fn the_first_segment_is_what_the_row_asks_for() {
    assert_eq!(POLICY.next_step(0, 1000, Duration::ZERO), 1000);
    assert_eq!(POLICY.next_step(0, 5_000_000, minutes(60)), 5_000_000);
}

#[test]
fn the_step_never_falls_under_the_rows() {
    assert_eq!(POLICY.next_step(1000, 1000, minutes(60)), 1000);
    assert_eq!(POLICY.next_step(1500, 1000, minutes(60)), 1000);
    assert_eq!(POLICY.next_step(1, 1, minutes(60)), 1);
}

#[test]
fn raising_the_rows_step_acts_on_the_next_load() {
    assert_eq!(POLICY.next_step(1000, 50_000, minutes(20)), 50_000);
    assert_eq!(POLICY.next_step(1000, 50_000, minutes(60)), 50_000);
}

#[test]
fn the_step_never_grows_beyond_max_step() {
    assert_eq!(POLICY.next_step(600_000, 1000, minutes(1)), 1_000_000);
    assert_eq!(POLICY.next_step(1_000_000, 1000, Duration::ZERO), 1_000_000);
    let lowered = StepPolicy {
        max_step: 10_000,
        ..POLICY
    };
    assert_eq!(lowered.next_step(600_000, 1000, minutes(20)), 10_000);
}

#[test]
fn a_row_that_asks_for_more_than_max_step_gets_that_and_no_growth() {
    assert_eq!(
        POLICY.next_step(3_000_000, 3_000_000, Duration::ZERO),
        3_000_000
    );
}

#[test]
fn a_segment_that_lasted_no_time_grows_by_the_most() {
    assert_eq!(
        POLICY.next_step(1000, 1000, Duration::ZERO),
        1000 * MAX_GROWTH
    );
    assert_eq!(POLICY.next_step(1000, 1000, NANOSECOND), 1000 * MAX_GROWTH);
}

#[test]
fn doubling_never_overflows() {
    let unbounded = StepPolicy {
        max_step: u64::MAX,
        ..POLICY
    };
    assert_eq!(unbounded.next_step(u64::MAX, 1, Duration::ZERO), u64::MAX);
    assert_eq!(
        unbounded.next_step(u64::MAX / 2 + 1, 1, minutes(1)),
        u64::MAX
    );
    assert_eq!(
        unbounded.next_step(u64::MAX, u64::MAX, Duration::MAX),
        u64::MAX
    );
    let endless = StepPolicy {
        segment_duration: Duration::MAX,
        max_step: u64::MAX,
    };
    assert_eq!(endless.next_step(8, 1, Duration::MAX - NANOSECOND), 16);
    assert_eq!(endless.next_step(8, 1, Duration::MAX), 4);
}

proptest! {
    #[test]
    fn every_step_lies_between_the_rows_and_the_largest(
        current: u64,
        row_step in 1..=u64::MAX,
        max_step in 1..=u64::MAX,
        segment_seconds in 0..=u64::MAX,
        lasted_nanos: u64,
    ) {
        let segment_duration = Duration::from_secs(segment_seconds);
        let policy = StepPolicy { segment_duration, max_step };
        let step = policy.next_step(current, row_step, Duration::from_nanos(lasted_nanos));
        prop_assert!(step >= row_step);
        prop_assert!(step <= max_step.max(row_step));
    }

    #[test]
    fn a_longer_segment_never_asks_for_a_larger_step(
        current in 1..1_000_000u64,
        shorter: u64,
        longer: u64,
    ) {
        let (shorter, longer) = (shorter.min(longer), shorter.max(longer));
        let step = |nanos| POLICY.next_step(current, 1, Duration::from_nanos(nanos));
        prop_assert!(step(shorter) >= step(longer));
    }
}

/// A tag whose callers take `rate` ids a second without pause, and whose loads
/// take `latency`. Time is in nanoseconds.
struct Tag {
    policy: StepPolicy,
    latency: u64,
    step: u64,
    /// When the last load was asked for.
    loaded_at: u64,
    now: u64,
    /// Ids in both buffers.
    left: u64,
}

const ROW_STEP: u64 = 1000;
const SECOND: u64 = 1_000_000_000;

impl Tag {
    fn idle(latency: Duration, max_step: u64) -> Self {
        Tag {
            policy: StepPolicy { max_step, ..POLICY },
            latency: latency.as_nanos() as u64,
            step: ROW_STEP,
            loaded_at: 0,
            // The first segment has been there for hours, untouched.
            now: 3600 * SECOND,
            left: ROW_STEP,
        }
    }

    /// Consumes up to the threshold (a tenth of the newest segment), loads the
    /// next, and tells whether somebody had to wait for it.
    fn load(&mut self, rate: u64) -> bool {
        let until_threshold = self.left.saturating_sub(self.step - self.step / 10);
        self.consume(until_threshold, rate);
        let lasted = Duration::from_nanos(self.now - self.loaded_at);
        self.loaded_at = self.now;
        self.step = self.policy.next_step(self.step, ROW_STEP, lasted);
        let wanted = (u128::from(rate) * u128::from(self.latency) / u128::from(SECOND)) as u64;
        let waited = wanted > self.left;
        self.left -= wanted.min(self.left);
        self.now += self.latency;
        self.left += self.step;
        waited
    }

    fn consume(&mut self, ids: u64, rate: u64) {
        self.left -= ids;
        self.now += (u128::from(ids) * u128::from(SECOND) / u128::from(rate)) as u64;
    }

    /// Loads until nobody has waited for a long time; how many it took until
    /// the last wait was over.
    fn loads_until_no_caller_waits(&mut self, rate: u64) -> usize {
        let waits: Vec<bool> = (0..1000).map(|_| self.load(rate)).collect();
        let last_wait = waits.iter().rposition(|waited| *waited);
        last_wait.map_or(0, |last| last + 1)
    }
}

const TEN_MILLION: u64 = 10_000_000;

#[test]
fn from_idle_to_ten_million_ids_a_second_takes_a_few_loads() {
    // What a load takes, the largest step, and how many loads end the waits.
    // A segment must outlast a load, so slow loads want a larger `max_step`.
    let cases = [(5, 1_000_000, 5), (20, 1_000_000, 5), (200, 10_000_000, 7)];
    for (latency, max_step, at_most) in cases {
        let mut tag = Tag::idle(Duration::from_millis(latency), max_step);
        let loads = tag.loads_until_no_caller_waits(TEN_MILLION);
        assert!(
            loads <= at_most,
            "{loads} loads of {latency} ms, step {}",
            tag.step
        );
    }
}

#[test]
fn back_at_idle_the_step_returns_to_the_rows() {
    let mut tag = Tag::idle(Duration::from_millis(5), 1_000_000);
    tag.loads_until_no_caller_waits(TEN_MILLION);
    assert_eq!(tag.step, 1_000_000);
    // One id a second: a segment lasts hours, so every load halves the step.
    let loads = (0..).find(|_| {
        tag.load(1);
        tag.step == ROW_STEP
    });
    assert!(loads < Some(12), "{loads:?} loads");
}

/// The time between two loads is that of the segment before the current one, so
/// the step swings by one doubling around the target.
#[test]
fn a_steady_tag_stays_within_a_doubling_of_the_wanted_duration() {
    let mut tag = Tag::idle(Duration::from_millis(20), 1_000_000);
    tag.loads_until_no_caller_waits(100);
    for _ in 0..100 {
        tag.load(100);
        let lasts = Duration::from_secs(tag.step / 100);
        assert!(lasts >= minutes(15) / 2 && lasts < minutes(60), "{lasts:?}");
    }
}
