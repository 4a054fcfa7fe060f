//! What the generator does when the clock stands, steps back, is behind a lease
//! or runs out of ticks.
#![cfg(not(loom))]

mod rig;

use leaf_core::snowflake::generator::{ClockPolicy, Span, Stop};
use leaf_core::snowflake::{Layout, Scheme};
use leaf_core::time::WallTime;
use rig::{MS, NEVER, Rig, SPAN, behind, wait};

#[test]
fn a_used_up_tick_is_waited_for_exactly_until_the_next() {
    let rig = Rig::at(20);
    rig.use_up();
    assert_eq!(rig.one(), Err(wait(500)));
    rig.forward(499);
    assert_eq!(rig.one(), Err(wait(1)));
    rig.forward(1);
    assert_eq!(rig.one(), Ok((21, 2, 0)));
}

#[test]
fn a_clock_within_the_last_ids_tick_is_not_behind() {
    let rig = Rig::at(20);
    rig.one().unwrap();
    rig.back(500);
    assert_eq!(rig.one(), Ok((20, 2, 1)));
    assert_eq!(rig.generator.rollbacks(), 0);
}

#[test]
fn a_clock_a_little_behind_is_waited_for_whatever_the_policy() {
    for policy in [ClockPolicy::Error, ClockPolicy::Wait, ClockPolicy::Borrow] {
        let rig = Rig::at(20);
        rig.policy(policy, 5 * MS, 100 * MS);
        rig.one().unwrap();
        rig.back(500 + 5 * MS);
        assert_eq!(rig.one(), Err(wait(5 * MS)));
        rig.forward(5 * MS - 1);
        assert_eq!(rig.one(), Err(wait(1)));
        rig.forward(1);
        assert_eq!(rig.one(), Ok((20, 2, 1)));
    }
}

#[test]
fn beyond_the_tolerance_is_borrowed_and_not_waited_for() {
    let rig = Rig::at(20);
    rig.policy(ClockPolicy::Borrow, 5 * MS, 100 * MS);
    rig.one().unwrap();
    rig.back(500 + 5 * MS + 1);
    assert_eq!(rig.one(), Ok((20, 2, 1)));
}

#[test]
fn the_tolerance_begins_where_the_head_start_ends() {
    let rig = Rig::of(Layout::custom(10, 2, 3, MS).unwrap(), SPAN, 5);
    rig.policy(ClockPolicy::Borrow, MS, 100 * MS);
    assert_eq!(rig.one(), Ok((10, 2, 0)), "4.5 ms ahead, as it began");
    rig.back(MS);
    assert_eq!(rig.one(), Err(wait(MS)));
    rig.back(1);
    assert_eq!(rig.one(), Ok((10, 2, 1)));
}

#[test]
fn a_clock_further_behind_is_an_error() {
    let rig = Rig::at(20);
    rig.policy(ClockPolicy::Error, 5 * MS, 100 * MS);
    rig.one().unwrap();
    rig.back(500 + 5 * MS + 1);
    assert_eq!(rig.one(), Err(behind(5 * MS + 1)));
    rig.forward(5 * MS + 1);
    assert_eq!(rig.one(), Ok((20, 2, 1)));
}

#[test]
fn the_wait_policy_waits_however_far_behind_the_clock_is() {
    let rig = Rig::at(90);
    rig.policy(ClockPolicy::Wait, 0, 100 * MS);
    rig.one().unwrap();
    rig.clock(10);
    assert_eq!(rig.one(), Err(wait(80 * MS - 500)));
    rig.clock_us(0);
    assert_eq!(rig.one(), Err(wait(90 * MS)));
}

#[test]
fn the_borrow_policy_goes_on_from_the_last_id() {
    let rig = Rig::at(20);
    rig.policy(ClockPolicy::Borrow, 0, 5 * MS);
    rig.many(7).unwrap();
    rig.clock(15);
    assert_eq!(rig.one(), Ok((20, 2, 7)));
    assert_eq!(rig.one(), Err(wait(500)), "the next tick is too far ahead");
    rig.forward(500);
    assert_eq!(rig.one(), Ok((21, 2, 0)));
}

#[test]
fn nothing_is_borrowed_while_the_clock_is_right() {
    let rig = Rig::at(20);
    rig.policy(ClockPolicy::Borrow, 0, 5 * MS);
    rig.use_up();
    assert_eq!(rig.one(), Err(wait(500)));
}

#[test]
fn nothing_is_borrowed_beyond_the_largest_lead() {
    let rig = Rig::at(20);
    rig.policy(ClockPolicy::Borrow, 2 * MS, 5 * MS);
    rig.one().unwrap();
    rig.clock_us(15 * MS - 1);
    assert_eq!(rig.one(), Err(wait(1)));
    rig.clock_us(13 * MS);
    assert_eq!(rig.one(), Err(wait(2 * MS)));
    rig.clock_us(13 * MS - 1);
    assert_eq!(rig.one(), Err(behind(7 * MS + 1)));
    rig.clock_us(15 * MS);
    assert_eq!(rig.one(), Ok((20, 2, 1)));
}

#[test]
fn borrowed_ids_are_never_further_ahead_than_the_largest_lead() {
    let rig = Rig::at(20);
    rig.policy(ClockPolicy::Borrow, 0, 5 * MS);
    rig.one().unwrap();
    rig.clock_us(18 * MS);
    let ids = std::iter::from_fn(|| rig.one().ok());
    assert_eq!(ids.last(), Some((23, 2, 7)));
    assert_eq!(rig.one(), Err(wait(MS)));
}

#[test]
fn a_lease_that_begins_ahead_of_the_clock_counts_on_from_there() {
    let rig = Rig::of(Layout::custom(10, 2, 3, MS).unwrap(), SPAN, 5);
    assert_eq!(rig.one(), Ok((10, 2, 0)));
    assert_eq!(rig.use_up(), 10);
    assert_eq!(rig.one(), Err(wait(MS)), "it is no more ahead than it was");
    rig.forward(MS - 1);
    assert_eq!(rig.one(), Err(wait(1)));
    rig.forward(1);
    assert_eq!(rig.one(), Ok((11, 2, 0)));
    assert_eq!(rig.generator.rollbacks(), 0);
}

#[test]
fn a_clock_that_falls_behind_a_head_start_is_behind_by_the_rules() {
    let rig = Rig::of(Layout::custom(10, 2, 3, MS).unwrap(), SPAN, 5);
    rig.policy(ClockPolicy::Error, MS, 0);
    rig.one().unwrap();
    rig.back(MS);
    assert_eq!(rig.one(), Err(wait(MS)));
    rig.back(1);
    assert_eq!(rig.one(), Err(behind(5 * MS + 501)));
    assert_eq!(rig.generator.rollbacks(), 1);
    rig.policy(ClockPolicy::Wait, 0, 0);
    assert_eq!(rig.one(), Err(wait(MS + 1)));
    rig.policy(ClockPolicy::Borrow, 0, 5 * MS + 501);
    assert_eq!(rig.one(), Ok((10, 2, 1)));
    rig.policy(ClockPolicy::Borrow, 0, MS);
    assert_eq!(rig.one(), Err(behind(5 * MS + 501)));
}

#[test]
fn the_usual_rules_return_once_the_clock_has_caught_up() {
    for caught_up_at in [10, 11] {
        let rig = Rig::of(Layout::custom(10, 2, 3, MS).unwrap(), SPAN, 5);
        rig.one().unwrap();
        rig.clock(caught_up_at);
        assert!(rig.one().is_ok());
        rig.clock_us(caught_up_at * MS - 1);
        assert_eq!(rig.one(), Err(behind(1)));
    }
}

#[test]
fn a_lease_that_begins_with_the_next_tick_waits_for_it() {
    let rig = Rig::of(Layout::custom(10, 2, 3, MS).unwrap(), SPAN, 9);
    assert_eq!(rig.one(), Err(wait(500)));
    rig.forward(500);
    assert_eq!(rig.one(), Ok((10, 2, 0)));
    rig.back(1);
    assert_eq!(rig.one(), Err(behind(1)), "that was no head start");
}

#[test]
fn a_lease_forgets_the_head_start_of_the_one_before() {
    let rig = Rig::of(Layout::custom(10, 2, 3, MS).unwrap(), SPAN, 5);
    rig.install(Span { from: 5, ..SPAN });
    assert_eq!(rig.one(), Ok((5, 2, 0)));
    rig.back(MS);
    assert_eq!(rig.one(), Err(behind(500)));
}

#[test]
fn a_clock_before_the_epoch_is_behind() {
    let rig = Rig::at(20);
    rig.clock_us(0);
    rig.install(Span { from: 0, ..SPAN });
    assert_eq!(rig.one(), Err(wait(MS)), "tick 0 is never used");
    rig.forward(MS);
    assert_eq!(rig.one(), Ok((1, 2, 0)));
    rig.clock_us(0);
    assert_eq!(rig.one(), Err(behind(MS)));
}

#[test]
fn the_last_id_of_all_is_the_largest_and_none_follows() {
    let named = Layout::NAMED.iter().map(|(_, layout)| *layout);
    let custom = Layout::custom(3, 1, 1, MS).unwrap();
    for layout in named.chain([custom, custom.worker_lowest()]) {
        let span = Span {
            worker_id: layout.worker_ids() - 1,
            from: 1,
            ceiling: layout.ticks(),
            renew_at: NEVER,
        };
        let rig = Rig::of(layout, span, layout.ticks() - 1);
        let last = rig.take(NEVER).unwrap().ids.last().unwrap();
        let end = Scheme::of(layout).floor(WallTime::MAX);
        assert!(last == end - 1 || last == i64::MAX, "{layout}: {last}");
        assert_eq!(rig.one(), Err(wait(layout.tick_us().div_ceil(2))));
        for tick in [layout.ticks(), layout.ticks() + 1, 2 * layout.ticks()] {
            rig.clock(tick);
            assert_eq!(rig.one(), Err(Stop::TimeUsedUp), "{layout}");
        }
        rig.clock_us(i64::MAX as u64);
        assert_eq!(rig.one(), Err(Stop::TimeUsedUp), "{layout}");
    }
}

#[test]
fn a_lease_beyond_the_end_of_time_gives_no_ids() {
    let layout = Layout::custom(3, 1, 1, MS).unwrap();
    for (from, now) in [(8, 7), (8, 0), (9, 8), (NEVER, 100)] {
        let span = Span {
            worker_id: 1,
            from,
            ceiling: NEVER,
            renew_at: NEVER,
        };
        let rig = Rig::of(layout, span, now);
        rig.policy(ClockPolicy::Borrow, NEVER, NEVER);
        let stop = rig.one().unwrap_err();
        assert!(
            matches!(stop, Stop::TimeUsedUp | Stop::Wait { .. }),
            "{stop:?}"
        );
        rig.clock(8);
        assert_eq!(rig.one(), Err(Stop::TimeUsedUp));
    }
}

#[test]
fn a_clock_beyond_the_end_of_time_spoils_nothing() {
    let rig = Rig::at(20);
    rig.one().unwrap();
    rig.clock(5_000);
    assert_eq!(rig.one(), Err(Stop::TimeUsedUp));
    rig.clock(20);
    assert_eq!(rig.one(), Ok((20, 2, 1)));
}

#[test]
fn a_step_back_is_counted_once() {
    let rig = Rig::at(20);
    rig.one().unwrap();
    assert_eq!(rig.generator.rollbacks(), 0);
    for tick in [18, 18, 17, 19] {
        rig.clock(tick);
        assert_eq!(rig.one(), Err(behind((20 - tick) * MS - 500)));
        assert_eq!(rig.generator.rollbacks(), 1);
    }
    rig.clock(20);
    assert_eq!(rig.one(), Ok((20, 2, 1)));
    rig.clock(19);
    rig.one().unwrap_err();
    assert_eq!(rig.generator.rollbacks(), 2, "it had caught up");
    rig.clock(21);
    rig.one().unwrap();
    rig.clock(20);
    rig.one().unwrap_err();
    assert_eq!(rig.generator.rollbacks(), 3);
}

#[test]
fn borrowing_counts_the_step_back_and_not_every_id() {
    let rig = Rig::at(20);
    rig.policy(ClockPolicy::Borrow, 0, 5 * MS);
    rig.one().unwrap();
    rig.clock(18);
    rig.many(4).unwrap();
    rig.many(4).unwrap();
    assert_eq!(rig.generator.rollbacks(), 1);
}
