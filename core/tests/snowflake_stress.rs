//! The generator of snowflake ids under real threads and the real clock for
//! half a second: what `loom` proves on a few steps is seen here over millions.
#![cfg(not(loom))]

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leaf_core::snowflake::Layout;
use leaf_core::snowflake::generator::{
    ClockPolicy, ClockRules, Environment, Generator, Span, Stop,
};
use leaf_core::time::SinceEpoch;

const CALLERS: usize = 4;
const DURATION: Duration = Duration::from_millis(500);
const LAYOUT: Layout = Layout::LEAF;
const WORKER_IDS: usize = 3;

/// After so many rounds of the keeper everything has happened.
const ENOUGH: usize = 80;

/// How far ahead of the clock the ceiling is, in ticks: milliseconds.
const AHEAD: u64 = 20;

/// How far the clock steps back now and then, in microseconds.
const STEP_BACK_US: u64 = 3_000;

/// The real clock, but for the steps back.
struct Clock {
    start: Instant,
    stepped_back: AtomicU64,
}

impl Environment for &Clock {
    fn now(&self) -> SinceEpoch {
        let elapsed = self.start.elapsed().as_micros() as u64;
        // It begins a while after the epoch: it may step back below zero.
        SinceEpoch::from_us(1_000_000 + elapsed - self.stepped_back.load(Ordering::SeqCst))
    }

    fn clock_rules(&self) -> ClockRules {
        ClockRules {
            policy: ClockPolicy::Borrow,
            tolerance_us: 1_000,
            max_lead_us: 60_000_000,
        }
    }

    fn random(&self) -> u64 {
        self.start.elapsed().subsec_nanos().into()
    }
}

/// A generator, its keeper's records, and what was taken.
struct World {
    generator: Generator,
    clock: Clock,
    /// Each worker id's ceiling, noted before the generator knows it.
    ceilings: [AtomicU64; WORKER_IDS],
    /// Each worker id's highest id that was returned.
    highest: [AtomicI64; WORKER_IDS],
    over: AtomicBool,
}

#[test]
fn no_id_twice_and_those_of_a_worker_id_in_order_under_real_threads() {
    let world = World {
        generator: Generator::new(),
        clock: Clock {
            start: Instant::now(),
            stepped_back: AtomicU64::new(0),
        },
        ceilings: [const { AtomicU64::new(1) }; WORKER_IDS],
        highest: [const { AtomicI64::new(0) }; WORKER_IDS],
        over: AtomicBool::new(false),
    };
    let all = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for number in 0..CALLERS {
            let (world, all) = (&world, &all);
            scope.spawn(move || {
                let taken = world.take_until_over(if number % 2 == 1 { 10 } else { 1 });
                all.lock().unwrap().extend(taken);
            });
        }
        world.keep_lease();
        world.over.store(true, Ordering::SeqCst);
    });

    let mut all = all.into_inner().unwrap();
    all.sort_unstable();
    assert!(
        all.windows(2).all(|pair| pair[0] < pair[1]),
        "an id came twice"
    );
    assert!(all.len() > 10_000, "only {} ids", all.len());
    assert!(world.generator.rollbacks() > 0, "no step back was seen");
    for highest in world.highest {
        assert!(highest.into_inner() > 0, "a worker id was never used");
    }
}

impl World {
    /// Raises the ceiling again and again; now and then steps the clock back or
    /// passes the lease on.
    fn keep_lease(&self) {
        let mut worker_id = 0;
        self.lease(worker_id);
        for round in 1.. {
            thread::sleep(Duration::from_micros(500));
            if self.clock.start.elapsed() > DURATION && round > ENOUGH {
                break;
            }
            if round % 37 == 0 {
                let stepped_back = &self.clock.stepped_back;
                stepped_back.fetch_add(STEP_BACK_US, Ordering::SeqCst);
            }
            if round % 13 == 0 {
                // Each twice in a row.
                worker_id = round / 26 % WORKER_IDS;
                if round % 2 == 0 {
                    self.generator.fence();
                }
                self.lease(worker_id);
            }
            let ceiling = self.raise(worker_id);
            self.generator.extend(&LAYOUT, ceiling, ceiling);
        }
    }

    fn lease(&self, worker_id: usize) {
        let from = self.ceilings[worker_id].load(Ordering::SeqCst);
        let ceiling = self.raise(worker_id);
        let span = Span {
            worker_id: worker_id as u64,
            from,
            ceiling,
            renew_at: ceiling,
        };
        let now = (&self.clock).now();
        self.generator.install(&LAYOUT, span, now);
    }

    fn raise(&self, worker_id: usize) -> u64 {
        let ceiling = (&self.clock).now().as_us() / LAYOUT.tick_us() + AHEAD;
        let before = self.ceilings[worker_id].fetch_max(ceiling, Ordering::SeqCst);
        before.max(ceiling)
    }

    /// Takes, and checks that every id lies above all of its worker id whose take
    /// had returned before, and below the worker id's ceiling.
    fn take_until_over(&self, count: u64) -> Vec<i64> {
        let mut all = Vec::new();
        while !self.over.load(Ordering::SeqCst) {
            let before = self.highest.each_ref().map(|id| id.load(Ordering::SeqCst));
            let ids = match self.generator.take(&LAYOUT, count, &&self.clock) {
                Ok(taken) => taken.ids,
                Err(Stop::Ceiling | Stop::Wait { .. }) => {
                    thread::yield_now();
                    continue;
                }
                Err(stop) => panic!("{stop:?}"),
            };
            let first = ids.first();
            let last = ids.clone().last().expect("an id");
            let (tick, worker_id, _) = LAYOUT.unpack(last as u64);
            let before = before[worker_id as usize];
            assert!(first > before, "{first} was taken after {before}");
            let ceiling = self.ceilings[worker_id as usize].load(Ordering::SeqCst);
            assert!(tick < ceiling, "tick {tick} under the ceiling {ceiling}");
            self.highest[worker_id as usize].fetch_max(last, Ordering::SeqCst);
            all.extend(ids);
        }
        all
    }
}
