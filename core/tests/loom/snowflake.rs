//! The generator of snowflake ids.

use std::sync::{Arc, Mutex};

use leaf_core::snowflake::Layout;
use leaf_core::snowflake::generator::{
    ClockPolicy, ClockRules, Environment, Generator, Span, Stop, Taken,
};
use leaf_core::time::SinceEpoch;
use loom::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use loom::thread;

use crate::check;

const TICK_US: u64 = 1_000;

/// Two ids a tick.
fn layout() -> Layout {
    Layout::custom(8, 2, 1, TICK_US).unwrap()
}

/// A clock that stands in the middle of a tick.
struct At(u64);

impl Environment for At {
    fn now(&self) -> SinceEpoch {
        SinceEpoch::from_us(self.0 * TICK_US + TICK_US / 2)
    }

    fn clock_rules(&self) -> ClockRules {
        ClockRules {
            policy: ClockPolicy::Error,
            tolerance_us: 0,
            max_lead_us: 0,
        }
    }

    fn random(&self) -> u64 {
        0
    }
}

/// A lease whose ceiling is not due to be raised.
const fn span(worker_id: u64, from: u64, ceiling: u64) -> Span {
    Span {
        worker_id,
        from,
        ceiling,
        renew_at: u64::MAX,
    }
}

/// A generator whose keeper and callers are watched: no id twice, none outside
/// the spans granted, and none at or below one of the same worker id that
/// was taken before this call began.
///
/// The record is kept with `std`, which the model checker does not see, so
/// that keeping it orders nothing.
#[derive(Default)]
struct Watched {
    generator: Generator,
    granted: Mutex<Vec<Span>>,
    taken: Mutex<Vec<Id>>,
}

/// Worker id, tick and sequence of an id: those of one worker id in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Id {
    worker_id: u64,
    tick: u64,
    sequence: u64,
}

impl Watched {
    fn new(span: Span) -> Arc<Self> {
        let watched = Arc::new(Watched::default());
        watched.install(span, 1);
        watched
    }

    fn install(&self, span: Span, now: u64) {
        self.granted.lock().unwrap().push(span);
        self.generator.install(&layout(), span, At(now).now());
    }

    fn follow(&self, span: Span, now: u64) {
        self.granted.lock().unwrap().push(span);
        let now = At(now).now();
        self.generator.install_above(&layout(), span, now);
    }

    fn extend(&self, ceiling: u64) {
        self.granted.lock().unwrap().last_mut().unwrap().ceiling = ceiling;
        self.generator.extend(&layout(), ceiling, u64::MAX);
    }

    /// Takes one id at a tick of the clock.
    fn take(&self, tick: u64) -> Result<Id, Stop> {
        Ok(self.take_many(tick, 1)?[0])
    }

    fn take_many(&self, tick: u64, count: u64) -> Result<Vec<Id>, Stop> {
        let before = self.taken.lock().unwrap().clone();
        let ids = ids(self.generator.take(&layout(), count, &At(tick))?);
        assert!(ids.len() as u64 <= count, "more ids than asked for");
        for id in &ids {
            self.record(&before, *id);
        }
        Ok(ids)
    }

    fn record(&self, before: &[Id], id: Id) {
        let granted = self.granted.lock().unwrap();
        assert!(
            granted.iter().any(|span| span.worker_id == id.worker_id
                && (span.from..span.ceiling).contains(&id.tick)),
            "{id:?} was never granted: {granted:?}"
        );
        let last = before
            .iter()
            .filter(|other| other.worker_id == id.worker_id)
            .max();
        assert!(last < Some(&id), "{id:?} was taken after {last:?}");
        let mut taken = self.taken.lock().unwrap();
        assert!(!taken.contains(&id), "{id:?} was taken twice");
        taken.push(id);
    }
}

fn ids(taken: Taken) -> Vec<Id> {
    let parts = |id| {
        let (tick, worker_id, sequence) = layout().unpack(id as u64);
        Id {
            worker_id,
            tick,
            sequence,
        }
    };
    taken.ids.map(parts).collect()
}

/// Starts a thread that works on the watched generator.
fn spawn<T: 'static>(
    watched: &Arc<Watched>,
    work: impl FnOnce(&Watched) -> T + 'static,
) -> thread::JoinHandle<T> {
    let watched = watched.clone();
    thread::spawn(move || work(&watched))
}

#[test]
fn two_threads_never_take_the_same_id() {
    check(|| {
        let watched = Watched::new(span(1, 1, 9));
        let other = spawn(&watched, |watched| {
            let _ = watched.take(3);
            let _ = watched.take(4);
        });
        let _ = watched.take(3);
        let _ = watched.take(4);
        other.join().unwrap();
    });
}

#[test]
fn batches_overlap_nowhere() {
    check(|| {
        let watched = Watched::new(span(1, 1, 9));
        let other = spawn(&watched, |watched| {
            let _ = watched.take_many(3, 2);
            let _ = watched.take_many(4, 2);
        });
        let _ = watched.take(3);
        let _ = watched.take_many(4, 2);
        other.join().unwrap();
    });
}

/// The lease ends while callers draw, and the worker id passes to another node.
#[test]
fn ids_of_a_lease_that_has_ended_lie_below_those_of_the_next() {
    check(|| {
        let watched = Watched::new(span(1, 1, 9));
        let caller = spawn(&watched, |watched| {
            let _ = watched.take(5);
            let _ = watched.take(6);
        });
        let from = watched.generator.end(&layout());
        assert_eq!(watched.take(7), Err(Stop::Ceiling));
        caller.join().unwrap();
        let taken = watched.taken.lock().unwrap();
        assert!(taken.iter().all(|id| id.tick < from), "{taken:?} at {from}");
    });
}

/// The lease passes from one worker id to another under a caller's hands.
fn passes(old: Span, new: Span) {
    check(move || {
        let watched = Watched::new(old);
        let caller = spawn(&watched, |watched| {
            let _ = watched.take(5);
            let _ = watched.take(5);
        });
        watched.install(new, 5);
        let _ = watched.take(5);
        caller.join().unwrap();
    });
}

#[test]
fn ids_of_a_new_worker_id_stay_below_its_ceiling_under_the_old_ones_higher() {
    passes(span(1, 1, 9), span(2, 1, 5));
}

#[test]
fn ids_of_an_old_worker_id_stay_below_its_ceiling_under_the_new_ones_higher() {
    passes(span(1, 1, 5), span(2, 1, 9));
}

#[test]
fn a_worker_id_leased_again_never_repeats_an_id() {
    passes(span(1, 1, 5), span(1, 5, 9));
}

/// A worker id that follows another goes on above it, even above what callers take while
/// the lease passes.
#[test]
fn a_worker_id_that_follows_another_begins_above_all_its_ids() {
    check(|| {
        let watched = Watched::new(span(1, 1, 9));
        let caller = spawn(&watched, |watched| {
            let _ = watched.take(4);
            let _ = watched.take(5);
        });
        watched.follow(span(2, 1, 9), 4);
        let _ = watched.take(5);
        caller.join().unwrap();
        let taken = watched.taken.lock().unwrap();
        let ticks_of = |worker_id| {
            let ids = taken
                .iter()
                .filter(move |id: &&Id| id.worker_id == worker_id);
            ids.map(|id| id.tick)
        };
        let (old, new) = (ticks_of(1).max(), ticks_of(2).min());
        assert!(new.is_none() || old < new, "{old:?} before {new:?}");
    });
}

/// The first worker id had used up its span: when it comes back, the last id is
/// the one that the caller has read before it slept.
#[test]
fn a_caller_that_sleeps_over_two_leases_mixes_none() {
    check(|| {
        let watched = Watched::new(span(1, 1, 3));
        assert_eq!(watched.take_many(2, 2).map(|ids| ids.len()), Ok(2));
        let caller = spawn(&watched, |watched| {
            let _ = watched.take(5);
        });
        watched.install(span(2, 3, 9), 2);
        watched.install(span(1, 3, 5), 2);
        caller.join().unwrap();
    });
}

#[test]
fn a_raised_ceiling_is_used_and_never_passed() {
    check(|| {
        let watched = Watched::new(span(1, 1, 5));
        let caller = spawn(&watched, |watched| {
            let _ = watched.take(4);
            let _ = watched.take(5);
            let _ = watched.take(6);
        });
        watched.extend(6);
        assert!(watched.take(5).is_ok());
        caller.join().unwrap();
        assert_eq!(watched.take(6), Err(Stop::Ceiling));
    });
}

#[test]
fn after_a_fence_no_caller_gets_an_id_before_the_next_lease() {
    check(|| {
        let watched = Watched::new(span(1, 1, 9));
        let fenced = Arc::new(AtomicBool::new(false));
        let caller = {
            let fenced = fenced.clone();
            spawn(&watched, move |watched| {
                for _ in 0..2 {
                    let too_late = fenced.load(Ordering::Acquire);
                    if let Ok(id) = watched.take(5) {
                        assert!(!too_late || id.worker_id == 2, "{id:?} after the fence");
                    }
                }
            })
        };
        watched.generator.fence();
        fenced.store(true, Ordering::Release);
        assert_eq!(watched.take(5), Err(Stop::Ceiling));
        watched.install(span(2, 3, 9), 5);
        caller.join().unwrap();
        assert_eq!(watched.take(7).map(|id| id.worker_id), Ok(2));
    });
}

/// A caller that found the clock ahead of the old lease's ids must not end the
/// head start of the new one.
#[test]
fn a_lease_that_begins_ahead_of_the_clock_goes_on_there_whoever_sleeps() {
    check(|| {
        let watched = Watched::new(span(1, 1, 9));
        let caller = spawn(&watched, |watched| {
            let _ = watched.take(5);
        });
        watched.install(span(2, 7, 9), 5);
        caller.join().unwrap();
        assert!(watched.take(5).is_ok());
    });
}

/// A clock that somebody else moves.
struct Moving(Arc<AtomicU64>);

impl Environment for Moving {
    fn now(&self) -> SinceEpoch {
        SinceEpoch::from_us(self.0.load(Ordering::Relaxed))
    }

    fn clock_rules(&self) -> ClockRules {
        At(0).clock_rules()
    }

    fn random(&self) -> u64 {
        0
    }
}

#[test]
fn a_clock_that_only_goes_forward_is_never_found_behind() {
    check(|| {
        let generator = Arc::new(Generator::new());
        generator.install(&layout(), span(1, 1, 9), At(1).now());
        let clock = Arc::new(AtomicU64::new(2 * TICK_US));
        let caller = {
            let (generator, clock) = (generator.clone(), clock.clone());
            thread::spawn(move || {
                assert!(generator.take(&layout(), 1, &Moving(clock)).is_ok());
            })
        };
        clock.store(3 * TICK_US, Ordering::Relaxed);
        assert!(generator.take(&layout(), 1, &Moving(clock)).is_ok());
        caller.join().unwrap();
        assert_eq!(generator.rollbacks(), 0);
    });
}

#[test]
fn whoever_takes_an_id_of_a_new_lease_is_told_when_it_is_due() {
    check(|| {
        let generator = Arc::new(Generator::new());
        generator.install(&layout(), span(1, 1, 9), At(1).now());
        let caller = {
            let generator = generator.clone();
            thread::spawn(move || generator.take(&layout(), 1, &At(5)))
        };
        let new = Span {
            renew_at: 5,
            ..span(2, 3, 9)
        };
        generator.install(&layout(), new, At(5).now());
        if let Ok(taken) = caller.join().unwrap() {
            assert!(taken.due || ids(taken)[0].worker_id == 1);
        }
        assert!(generator.take(&layout(), 1, &At(5)).unwrap().due);
    });
}
