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

const CALLERS: usize = 4;
const DURATION: Duration = Duration::from_millis(500);
const LAYOUT: Layout = Layout::LEAF;
const WORKERS: usize = 3;

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
    fn now(&self) -> u64 {
        let elapsed = self.start.elapsed().as_micros() as u64;
        // It begins a while after the epoch: it may step back below zero.
        1_000_000 + elapsed - self.stepped_back.load(Ordering::SeqCst)
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
    /// Each worker's ceiling, noted before the generator knows it.
    ceilings: [AtomicU64; WORKERS],
    /// Each worker's highest id that was returned.
    highest: [AtomicI64; WORKERS],
    over: AtomicBool,
}

#[test]
fn no_id_twice_and_each_workers_in_order_under_real_threads() {
    let world = World {
        generator: Generator::new(),
        clock: Clock {
            start: Instant::now(),
            stepped_back: AtomicU64::new(0),
        },
        ceilings: [const { AtomicU64::new(1) }; WORKERS],
        highest: [const { AtomicI64::new(0) }; WORKERS],
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
        assert!(highest.into_inner() > 0, "a worker has issued nothing");
    }
}

impl World {
    /// Raises the ceiling again and again; now and then steps the clock back or
    /// passes the lease on.
    fn keep_lease(&self) {
        let mut worker = 0;
        self.lease(worker);
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
                worker = round / 26 % WORKERS;
                if round % 2 == 0 {
                    self.generator.fence();
                }
                self.lease(worker);
            }
            let ceiling = self.raise(worker);
            self.generator.extend(&LAYOUT, ceiling, ceiling);
        }
    }

    fn lease(&self, worker: usize) {
        let from = self.ceilings[worker].load(Ordering::SeqCst);
        let ceiling = self.raise(worker);
        let span = Span {
            worker: worker as u64,
            from,
            ceiling,
            renew_at: ceiling,
        };
        let now = (&self.clock).now();
        self.generator.install(&LAYOUT, span, now);
    }

    fn raise(&self, worker: usize) -> u64 {
        let ceiling = (&self.clock).now() / LAYOUT.tick_us() + AHEAD;
        let before = self.ceilings[worker].fetch_max(ceiling, Ordering::SeqCst);
        before.max(ceiling)
    }

    /// Takes, and checks that every id lies above all of its worker whose take
    /// had returned before, and below the worker's ceiling.
    fn take_until_over(&self, count: u64) -> Vec<i64> {
        let mut all = Vec::new();
        while !self.over.load(Ordering::SeqCst) {
            let before = self.highest.each_ref().map(|id| id.load(Ordering::SeqCst));
            let taken = match self.generator.take(&LAYOUT, count, &&self.clock) {
                Ok(taken) => taken,
                Err(Stop::Ceiling | Stop::Wait { .. }) => {
                    thread::yield_now();
                    continue;
                }
                Err(stop) => panic!("{stop:?}"),
            };
            let last = taken.first + (taken.len - 1) as i64;
            let (tick, worker, _) = LAYOUT.unpack(last as u64);
            let before = before[worker as usize];
            let first = taken.first;
            assert!(first > before, "{first} was taken after {before}");
            let ceiling = self.ceilings[worker as usize].load(Ordering::SeqCst);
            assert!(tick < ceiling, "tick {tick} under the ceiling {ceiling}");
            self.highest[worker as usize].fetch_max(last, Ordering::SeqCst);
            all.extend(first..=last);
        }
        all
    }
}
