//! How far ahead a ceiling is set, and when it is due to be raised.
#![cfg(not(loom))]

use std::time::Duration;

use leaf_core::snowflake::{Layout, Scheme, ceiling};
use leaf_core::time::WallTime;

const NOW: WallTime = WallTime::from_unix_us(1_800_000_000_000_000);

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

#[test]
fn ceiling_is_as_far_ahead_of_the_clock_as_wanted() {
    for layout in [Layout::LEAF, Layout::JS53, Layout::SONYFLAKE, Layout::UID] {
        let scheme = Scheme::of(layout);
        let tick_us = layout.tick_us() as i64;
        for last in [WallTime::default(), NOW.plus_us(-100_000_000), NOW] {
            let next = ceiling::next(&scheme, NOW, last, seconds(60));
            let ahead_us = next.us_after(NOW + seconds(60));
            assert!((0..tick_us).contains(&ahead_us), "{layout}: {ahead_us}");
        }
    }
}

#[test]
fn ids_ahead_of_the_clock_get_a_quarter() {
    let scheme = Scheme::of(Layout::LEAF);
    let next = |last| ceiling::next(&scheme, NOW, last, seconds(4));
    assert_eq!(next(NOW + seconds(3)), NOW + seconds(4));
    assert_eq!(next(NOW + seconds(30)), NOW + seconds(31));
}

#[test]
fn restarts_without_end_do_not_run_away_from_the_clock() {
    let scheme = Scheme::of(Layout::LEAF);
    let (mut clock, mut last) = (NOW, NOW);
    for _ in 0..1_000 {
        // Each life begins at the ceiling of the one before, and lasts a second
        // and a half.
        last = ceiling::next(&scheme, clock, last, seconds(5));
        clock = clock + seconds(3) / 2;
    }
    assert!(
        last < clock + seconds(5),
        "{} us ahead",
        last.us_after(clock)
    );
}

#[test]
fn ceiling_is_two_ticks_ahead_or_one_if_they_are_long() {
    let of_seconds = |s: u64| Layout::custom(30, 4, 8, s * 1_000_000).expect("a layout");
    for (layout, least) in [
        (of_seconds(3_600), 1),
        (of_seconds(60), 1),
        (of_seconds(10), 1),
        (of_seconds(9), 2),
        (Layout::UID, 2),
        (Layout::LEAF, 2),
    ] {
        let scheme = Scheme::of(layout);
        for last in [NOW, NOW + seconds(7), NOW + seconds(61)] {
            for ahead_us in [0, 1, 100_000] {
                let ahead = Duration::from_micros(ahead_us);
                let next = ceiling::next(&scheme, NOW, last, ahead);
                let ticks = scheme.tick_at(next) - scheme.tick_at(last);
                assert!(ticks >= least, "{layout}: {ticks} ticks");
            }
        }
    }
}

#[test]
fn ceiling_ends_with_the_layouts_time() {
    let scheme = Scheme::of(Layout::LEAF);
    let end = scheme.ends_at();
    let zero = WallTime::default();
    for (clock, last) in [
        (end, end),
        (end.plus_us(-1), zero),
        (WallTime::MAX, WallTime::MAX),
        (zero, WallTime::MAX),
    ] {
        assert_eq!(ceiling::next(&scheme, clock, last, Duration::MAX), end);
    }
    // Before the epoch there are two ticks.
    let first = ceiling::next(&scheme, WallTime::MIN, WallTime::MIN, Duration::ZERO);
    assert_eq!(scheme.tick_at(first), 2);
}

#[test]
fn ceiling_is_due_half_way() {
    assert_eq!(ceiling::renew_at(10, 20), 15);
    assert_eq!(ceiling::renew_at(10, 12), 11);
    assert_eq!(ceiling::renew_at(10, 11), 11);
    // One that is reached already is due now.
    assert_eq!(ceiling::renew_at(20, 10), 20);
    assert_eq!(ceiling::renew_at(u64::MAX, u64::MAX), u64::MAX);
}

/// Each life begins at the ceiling of the one before, once the clock is a minute before it,
/// and crashes at once.
#[test]
fn crashes_in_a_row_cost_two_long_ticks_at_most() {
    for tick in [60, 3_600] {
        let layout = Layout::custom(30, 4, 8, tick * 1_000_000).expect("a layout");
        let scheme = Scheme::of(layout);
        let (mut clock, mut last) = (NOW, NOW);
        for _ in 0..100 {
            let from = ceiling::next(&scheme, clock, last, seconds(5));
            let wait_us = from.us_after(clock);
            assert!(wait_us <= 2 * layout.tick_us() as i64, "{wait_us} us");
            clock = clock.max(from.plus_us(-60_000_000));
            last = from;
        }
    }
}
