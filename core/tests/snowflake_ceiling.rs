//! How far ahead a ceiling is set, and when it is due to be raised.

use leaf_core::snowflake::{Layout, Scheme, ceiling};

const SECOND: i64 = 1_000_000;
const NOW: i64 = 1_800_000_000 * SECOND;

#[test]
fn ceiling_is_as_far_ahead_of_the_clock_as_wanted() {
    for layout in [Layout::LEAF, Layout::JS53, Layout::SONYFLAKE, Layout::UID] {
        let scheme = Scheme::of(layout);
        let tick = layout.tick_us() as i64;
        for last in [0, NOW - 100 * SECOND, NOW] {
            let next = ceiling::next(&scheme, NOW, last, 60 * SECOND);
            let ahead = next - (NOW + 60 * SECOND);
            assert!((0..tick).contains(&ahead), "{layout}: {ahead}");
        }
    }
}

#[test]
fn ids_ahead_of_the_clock_get_a_quarter() {
    let scheme = Scheme::of(Layout::LEAF);
    let next = |last| ceiling::next(&scheme, NOW, last, 4 * SECOND);
    assert_eq!(next(NOW + 3 * SECOND), NOW + 4 * SECOND);
    assert_eq!(next(NOW + 30 * SECOND), NOW + 31 * SECOND);
}

#[test]
fn restarts_without_end_do_not_run_away_from_the_clock() {
    let scheme = Scheme::of(Layout::LEAF);
    let (mut clock, mut last) = (NOW, NOW);
    for _ in 0..1_000 {
        // Each life begins at the ceiling of the one before, and lasts a second
        // and a half.
        last = ceiling::next(&scheme, clock, last, 5 * SECOND);
        clock += 3 * SECOND / 2;
    }
    assert!(last - clock < 5 * SECOND, "{} us ahead", last - clock);
}

#[test]
fn ceiling_is_two_ticks_ahead_however_long_they_are() {
    let layout = Layout::custom(30, 4, 8, 60_000_000).expect("a layout");
    for layout in [layout, Layout::UID, Layout::LEAF] {
        let scheme = Scheme::of(layout);
        for last in [NOW, NOW + 7 * SECOND, NOW + 61 * SECOND] {
            for ahead in [0, 1, 100_000] {
                let next = ceiling::next(&scheme, NOW, last, ahead);
                let ticks = scheme.tick_at(next) - scheme.tick_at(last);
                assert!(ticks >= 2, "{layout}: {ticks} ticks");
            }
        }
    }
}

#[test]
fn ceiling_ends_with_the_layouts_time() {
    let scheme = Scheme::of(Layout::LEAF);
    let end = scheme.ends_at();
    for (clock, last) in [
        (end, end),
        (end - 1, 0),
        (i64::MAX, i64::MAX),
        (0, i64::MAX),
    ] {
        assert_eq!(ceiling::next(&scheme, clock, last, i64::MAX), end);
    }
    // Before the epoch there are two ticks.
    let first = ceiling::next(&scheme, i64::MIN, i64::MIN, 0);
    assert_eq!(scheme.tick_at(first), 2);
}

#[test]
fn ceiling_is_due_half_way() {
    assert_eq!(ceiling::renew_at(10, 20), 15);
    assert_eq!(ceiling::renew_at(10, 11), 10);
    // One that is reached already is due now.
    assert_eq!(ceiling::renew_at(20, 10), 20);
    assert_eq!(ceiling::renew_at(u64::MAX, u64::MAX), u64::MAX);
}
