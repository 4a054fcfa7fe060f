//! Whose ids the generator hands out, in which order, and up to where.
#![cfg(not(loom))]

mod rig;

use std::cell::Cell;

use leaf_core::snowflake::Layout;
use leaf_core::snowflake::generator::{
    ClockPolicy, ClockRules, Environment, Generator, Span, Stop,
};
use leaf_core::time::SinceEpoch;
use rig::{Id, MS, NEVER, Rig, SPAN, STRICT, TestEnvironment, wait};

#[test]
fn without_a_lease_there_are_no_ids() {
    let generator = Generator::new();
    let taken = generator.take(&Layout::LEAF, 1, &TestEnvironment::at(MS));
    assert_eq!(taken, Err(Stop::Ceiling));
    assert!(!generator.is_leased());
}

#[test]
fn a_lease_gives_the_ids_of_its_worker_id_from_where_it_begins() {
    let rig = Rig::at(10);
    assert!(rig.generator.is_leased());
    assert_eq!(rig.generator.last_tick(&rig.layout), 9);
    assert_eq!(rig.one(), Ok((10, 2, 0)));
    assert_eq!(rig.one(), Ok((10, 2, 1)));
    rig.clock(17);
    assert_eq!(rig.one(), Ok((17, 2, 0)));
    assert_eq!(rig.generator.last_tick(&rig.layout), 17);
}

#[test]
fn nothing_is_issued_at_or_past_the_ceiling() {
    let rig = Rig::at(99);
    assert_eq!(rig.one(), Ok((99, 2, 0)));
    for tick in [100, 101, 500] {
        rig.clock(tick);
        assert_eq!(rig.one(), Err(Stop::Ceiling));
        assert_eq!(rig.many(8), Err(Stop::Ceiling));
    }
}

#[test]
fn a_used_up_tick_does_not_lead_past_the_ceiling() {
    let rig = Rig::at(99);
    rig.policy(ClockPolicy::Borrow, 0, 100 * MS);
    rig.use_up();
    rig.back(MS);
    assert_eq!(rig.one(), Err(Stop::Ceiling));
}

#[test]
fn a_raised_ceiling_lets_ids_go_on() {
    let rig = Rig::at(99);
    rig.one().unwrap();
    rig.clock(100);
    rig.generator.extend(&rig.layout, 101, NEVER);
    assert_eq!(rig.one(), Ok((100, 2, 0)));
    rig.clock(101);
    assert_eq!(rig.one(), Err(Stop::Ceiling));
}

/// Whoever waits for a higher ceiling looks at this.
#[test]
fn there_is_room_exactly_where_the_next_id_lies_below_the_ceiling() {
    let rig = Rig::at(98);
    let has_room = || rig.generator.has_room(&rig.layout, rig.outside.now.get());
    for worker_id in 0..4 {
        rig.install(Span { worker_id, ..SPAN });
        for (tick, expected) in [(98, true), (99, true), (100, false), (5_000, false)] {
            rig.clock(tick);
            assert_eq!(has_room(), expected, "worker id {worker_id}, tick {tick}");
        }
        rig.clock(99);
        rig.use_up();
        rig.clock(98);
        assert!(
            !has_room(),
            "the last tick of worker id {worker_id} is used up"
        );
        rig.generator.fence();
        assert!(!has_room(), "without a lease");
    }
}

#[test]
fn a_lease_without_ticks_gives_no_ids_until_its_ceiling_is_raised() {
    let rig = Rig::at(50);
    rig.install(Span {
        ceiling: 10,
        ..SPAN
    });
    assert_eq!(rig.one(), Err(Stop::Ceiling));
    rig.generator.extend(&rig.layout, 51, NEVER);
    assert_eq!(rig.one(), Ok((50, 2, 0)));
}

#[test]
fn the_mark_is_crossed_with_the_first_id_of_its_tick() {
    let rig = Rig::at(49);
    rig.install(Span {
        renew_at: 50,
        ..SPAN
    });
    assert!(!rig.take(8).unwrap().due);
    assert!(!rig.generator.is_due());
    rig.clock(50);
    assert!(rig.take(1).unwrap().due);
    assert!(rig.take(1).unwrap().due, "until the ceiling is raised");
    assert!(rig.generator.is_due());
    rig.generator.extend(&rig.layout, 200, 150);
    assert!(!rig.generator.is_due());
    assert!(!rig.take(1).unwrap().due);
}

#[test]
fn a_new_tick_starts_anywhere_below_the_spread() {
    let rig = Rig::of(Layout::LEAF, SPAN, 10);
    for random in [0, 1, 77, 127, 128, 1_000, u64::MAX] {
        rig.forward(MS);
        rig.clock(rig.generator.last_tick(&rig.layout) + 2);
        rig.outside.random.set(random);
        assert_eq!(rig.one().unwrap().2, random % 128);
    }
}

#[test]
fn the_tick_after_a_used_up_one_starts_at_0() {
    let rig = Rig::at(20);
    rig.outside.random.set(1);
    rig.use_up();
    rig.clock(21);
    assert_eq!(rig.one(), Ok((21, 2, 0)));
    rig.use_up();
    rig.clock(23);
    assert_eq!(rig.one(), Ok((23, 2, 1)), "a tick was left out");
    rig.clock(24);
    assert_eq!(rig.one(), Ok((24, 2, 1)), "the last was not used up");
}

#[test]
fn a_batch_ends_with_its_tick() {
    let rig = Rig::at(20);
    let ids = |sequences: std::ops::Range<u64>| -> Result<Vec<Id>, Stop> {
        Ok(sequences.map(|sequence| (20, 2, sequence)).collect())
    };
    assert_eq!(rig.many(3), ids(0..3));
    assert_eq!(rig.many(5), ids(3..8));
    rig.clock(30);
    assert_eq!(rig.many(NEVER).unwrap().len(), 8);
    rig.clock(40);
    rig.outside.random.set(1);
    assert_eq!(rig.many(NEVER).unwrap().len(), 7);
}

#[test]
fn a_lease_of_another_worker_id_gives_its_ids_and_no_others() {
    let rig = Rig::at(20);
    rig.one().unwrap();
    rig.install(Span {
        worker_id: 3,
        from: 15,
        ceiling: 22,
        renew_at: NEVER,
    });
    assert_eq!(rig.one(), Ok((20, 3, 0)), "its time may be the other's");
    rig.clock(22);
    assert_eq!(rig.one(), Err(Stop::Ceiling));
    rig.install(Span {
        from: 100,
        ceiling: 200,
        ..SPAN
    });
    assert_eq!(rig.one(), Ok((100, 2, 0)));
}

#[test]
fn a_worker_id_that_follows_another_begins_above_its_last_id() {
    let span = Span {
        worker_id: 1,
        from: 15,
        ceiling: 22,
        renew_at: NEVER,
    };
    let rig = Rig::at(20);
    rig.one().unwrap();
    rig.install_above(span);
    assert_eq!(rig.one(), Err(wait(500)));
    rig.clock(21);
    assert_eq!(rig.one(), Ok((21, 1, 0)));

    let later = Span {
        worker_id: 0,
        from: 30,
        ceiling: 40,
        renew_at: NEVER,
    };
    rig.install_above(later);
    assert_eq!(rig.one(), Ok((30, 0, 0)), "nothing before its span");
}

#[test]
fn a_worker_id_that_follows_another_begins_in_its_span_if_that_ends_below() {
    for ceiling in [20, 21] {
        let rig = Rig::at(20);
        rig.one().unwrap();
        rig.clock(17);
        rig.install_above(Span {
            worker_id: 1,
            from: 15,
            ceiling,
            renew_at: NEVER,
        });
        assert_eq!(rig.one(), Ok((17, 1, 0)));
    }
}

#[test]
fn a_worker_id_that_follows_one_ahead_of_the_clock_keeps_its_head_start() {
    let rig = Rig::of(Layout::custom(10, 2, 3, MS).unwrap(), SPAN, 5);
    assert_eq!(rig.one(), Ok((10, 2, 0)));
    rig.install_above(Span {
        worker_id: 1,
        from: 3,
        ceiling: 50,
        renew_at: NEVER,
    });
    assert_eq!(rig.one(), Ok((11, 1, 0)));
}

#[test]
fn after_a_fence_there_are_no_ids_until_the_next_lease() {
    let rig = Rig::at(20);
    rig.one().unwrap();
    rig.generator.fence();
    assert!(!rig.generator.is_leased());
    assert_eq!(rig.one(), Err(Stop::Ceiling));
    rig.clock(21);
    assert_eq!(rig.many(8), Err(Stop::Ceiling));
    rig.install(Span {
        from: 100,
        ceiling: 110,
        ..SPAN
    });
    assert!(rig.generator.is_leased());
    assert_eq!(rig.one(), Ok((100, 2, 0)));
}

#[test]
fn a_reset_forgets_lease_head_start_and_steps_back() {
    let rig = Rig::of(Layout::custom(10, 2, 3, MS).unwrap(), SPAN, 5);
    rig.one().unwrap();
    rig.back(MS);
    rig.one().unwrap_err();
    assert_eq!(rig.generator.rollbacks(), 1);
    rig.generator.reset();
    assert_eq!(rig.generator.rollbacks(), 0);
    assert_eq!(rig.one(), Err(Stop::Ceiling));
}

#[test]
fn rules_are_asked_for_only_when_needed_and_chance_once_a_tick() {
    let rig = Rig::at(20);
    let asked = || rig.outside.asked.each_ref().map(|asked| asked.take());
    rig.one().unwrap();
    assert_eq!(asked(), [1, 0, 1], "a new tick");
    rig.use_up();
    assert_eq!(asked(), [1, 0, 0], "the same tick");
    rig.one().unwrap_err();
    assert_eq!(asked(), [1, 0, 0], "a used-up tick");
    rig.clock(21);
    rig.one().unwrap();
    assert_eq!(asked(), [1, 0, 0], "the tick after a used-up one");
    rig.clock(19);
    rig.one().unwrap_err();
    assert_eq!(asked(), [1, 1, 0], "a clock that is behind");
    rig.generator.fence();
    rig.one().unwrap_err();
    assert_eq!(asked(), [0, 0, 0], "no lease");
}

/// A caller that is put to sleep as soon as it has read the clock.
struct Sleeper<'a, F: Fn()> {
    rig: &'a Rig,
    meanwhile: Cell<Option<F>>,
}

impl<F: Fn()> Environment for Sleeper<'_, F> {
    fn now(&self) -> SinceEpoch {
        let now = self.rig.outside.now();
        if let Some(meanwhile) = self.meanwhile.take() {
            meanwhile();
        }
        now
    }

    fn clock_rules(&self) -> ClockRules {
        STRICT
    }

    fn random(&self) -> u64 {
        0
    }
}

/// What a caller takes that sleeps between reading the clock and taking.
fn asleep(rig: &Rig, meanwhile: impl Fn()) -> Result<Id, Stop> {
    let sleeper = Sleeper {
        rig,
        meanwhile: Cell::new(Some(meanwhile)),
    };
    let taken = rig.generator.take(&rig.layout, 1, &sleeper)?;
    Ok(rig.layout.unpack(taken.ids.first() as u64))
}

#[test]
fn a_caller_that_sleeps_while_others_draw_takes_the_id_after_theirs() {
    let rig = Rig::at(20);
    let taken = asleep(&rig, || {
        rig.clock(30);
        assert_eq!(rig.many(2), Ok(vec![(30, 2, 0), (30, 2, 1)]));
    });
    assert_eq!(taken, Ok((30, 2, 2)));
    assert_eq!(rig.generator.rollbacks(), 0, "its clock was old, not wrong");
}

#[test]
fn a_caller_that_sleeps_over_a_lease_takes_an_id_of_the_next() {
    let rig = Rig::at(20);
    rig.one().unwrap();
    let next = Span {
        worker_id: 3,
        from: 15,
        ceiling: 21,
        renew_at: NEVER,
    };
    assert_eq!(asleep(&rig, || rig.install(next)), Ok((20, 3, 0)));
    let next = Span {
        worker_id: 1,
        from: 15,
        ceiling: 20,
        renew_at: NEVER,
    };
    assert_eq!(asleep(&rig, || rig.install(next)), Err(Stop::Ceiling));
}

#[test]
fn a_caller_under_way_at_a_fence_takes_an_id_below_the_ceiling_or_none() {
    let rig = Rig::at(20);
    let under_way = asleep(&rig, || rig.generator.fence());
    assert!(matches!(under_way, Ok((20, 2, 0)) | Err(Stop::Ceiling)));
    rig.install(Span {
        from: 100,
        ceiling: 110,
        ..SPAN
    });
    rig.clock(110);
    let under_way = asleep(&rig, || rig.generator.fence());
    assert_eq!(under_way, Err(Stop::Ceiling));
}

/// The successor begins at the tick that `end` returns.
#[test]
fn a_caller_under_way_at_the_end_of_a_lease_takes_nothing_that_the_next_one_may() {
    for drawn in [1, 7, 8] {
        let rig = Rig::at(20);
        rig.many(drawn).unwrap();
        let ended = Cell::new(0);
        let under_way = asleep(&rig, || {
            ended.set(rig.generator.end(&rig.layout));
            rig.clock(50);
        });
        assert!(under_way.is_err(), "{under_way:?} after {drawn} ids");
        assert_eq!(ended.get(), 21);
        assert_eq!(rig.one(), Err(Stop::Ceiling));
        assert!(!rig.generator.is_leased());
    }
}

#[test]
fn a_lease_that_issued_nothing_ends_where_it_began() {
    let rig = Rig::at(20);
    assert_eq!(rig.generator.end(&rig.layout), SPAN.from);
}

#[test]
fn a_lease_ends_in_the_last_tick_of_its_layout() {
    let rig = Rig::at(1);
    let last = rig.layout.ticks() - 1;
    rig.install(Span {
        from: last,
        ceiling: last + 1,
        ..SPAN
    });
    rig.clock(last);
    rig.many(8).unwrap();
    assert_eq!(rig.generator.end(&rig.layout), last + 1);
}
