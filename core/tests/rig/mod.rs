//! A generator of snowflake ids and the world around it, as a test wants them.

// Every test uses its part.
#![allow(dead_code)]

use std::cell::Cell;
use std::ops::Range;

use leaf_core::snowflake::Layout;
use leaf_core::snowflake::generator::{
    ClockPolicy, ClockRules, Environment, Generator, Span, Stop, Taken,
};
use leaf_core::time::SinceEpoch;
use proptest::prelude::*;

pub const MS: u64 = 1_000;
pub const NEVER: u64 = u64::MAX;

/// A lease of worker id 2 for the ticks 10 to 99.
pub const SPAN: Span = Span {
    worker_id: 2,
    from: 10,
    ceiling: 100,
    renew_at: NEVER,
};

/// Tick, worker id and sequence.
pub type Id = (u64, u64, u64);

/// A generator, and the world around it. Eight ids a tick of a millisecond,
/// four worker ids; a new tick starts at 0 or 1.
pub struct Rig {
    pub layout: Layout,
    pub generator: Generator,
    pub outside: TestEnvironment,
}

impl Rig {
    /// The clock stands in the middle of a tick.
    pub fn at(tick: u64) -> Self {
        Rig::of(Layout::custom(10, 2, 3, MS).unwrap(), SPAN, tick)
    }

    pub fn of(layout: Layout, span: Span, tick: u64) -> Self {
        let rig = Rig {
            layout,
            generator: Generator::new(),
            outside: TestEnvironment::at(0),
        };
        rig.clock(tick);
        rig.install(span);
        rig
    }

    pub fn install(&self, span: Span) {
        let now = self.outside.now.get();
        self.generator.install(&self.layout, span, now);
    }

    pub fn install_above(&self, span: Span) {
        let now = self.outside.now.get();
        self.generator.install_above(&self.layout, span, now);
    }

    pub fn clock(&self, tick: u64) {
        let tick_us = self.layout.tick_us();
        self.clock_us(tick * tick_us + tick_us / 2);
    }

    /// The clock stands so many microseconds after the epoch.
    pub fn clock_us(&self, us: u64) {
        self.outside.now.set(SinceEpoch::from_us(us));
    }

    pub fn back(&self, us: u64) {
        self.clock_us(self.outside.now.get().as_us() - us);
    }

    pub fn forward(&self, us: u64) {
        self.clock_us(self.outside.now.get().as_us() + us);
    }

    pub fn policy(&self, policy: ClockPolicy, tolerance_us: u64, max_lead_us: u64) {
        self.outside.rules.set(ClockRules {
            policy,
            tolerance_us,
            max_lead_us,
        });
    }

    pub fn take(&self, count: u64) -> Result<Taken, Stop> {
        self.generator.take(&self.layout, count, &self.outside)
    }

    pub fn many(&self, count: u64) -> Result<Vec<Id>, Stop> {
        let ids = self.take(count)?.ids;
        Ok(ids.map(|id| self.layout.unpack(id as u64)).collect())
    }

    pub fn one(&self) -> Result<Id, Stop> {
        Ok(self.many(1)?[0])
    }

    /// Uses up a tick. Returns which.
    pub fn use_up(&self) -> u64 {
        let ids = self.many(NEVER).unwrap();
        assert_eq!(ids.last().unwrap().2, self.layout.ids_per_tick() - 1);
        ids[0].0
    }
}

pub const fn wait(us: u64) -> Stop {
    Stop::Wait { us }
}

pub const fn behind(us: u64) -> Stop {
    Stop::ClockBehind { us }
}

/// Never waits, never borrows.
pub const STRICT: ClockRules = ClockRules {
    policy: ClockPolicy::Error,
    tolerance_us: 0,
    max_lead_us: 0,
};

/// A layout of bit fields whose worker id and sequence have so many bits, in either order.
pub fn layouts(
    time: u32,
    worker: Range<u32>,
    sequence: Range<u32>,
    tick_us: u64,
) -> impl Strategy<Value = Layout> {
    (worker, sequence, any::<bool>()).prop_map(move |(worker, sequence, worker_is_lowest)| {
        let layout = Layout::custom(time, worker, sequence, tick_us).unwrap();
        match worker_is_lowest {
            true => layout.worker_lowest(),
            false => layout,
        }
    })
}

/// Any rules, most of them tight.
pub fn rules() -> impl Strategy<Value = ClockRules> {
    let policies = [ClockPolicy::Error, ClockPolicy::Wait, ClockPolicy::Borrow];
    let us = || prop_oneof![Just(0), 1..50u64, Just(1 << 40)];
    (prop::sample::select(policies.to_vec()), us(), us()).prop_map(
        |(policy, tolerance_us, max_lead_us)| ClockRules {
            policy,
            tolerance_us,
            max_lead_us,
        },
    )
}

/// An environment that a test sets, and that counts what it is asked for.
pub struct TestEnvironment {
    /// The clock.
    pub now: Cell<SinceEpoch>,
    /// What to do when it is behind.
    pub rules: Cell<ClockRules>,
    /// The next random number.
    pub random: Cell<u64>,
    /// How often the clock, the rules and a random number were asked for.
    pub asked: [Cell<u32>; 3],
}

impl TestEnvironment {
    /// The clock so many microseconds after the epoch, strict rules.
    pub fn at(us: u64) -> Self {
        TestEnvironment {
            now: Cell::new(SinceEpoch::from_us(us)),
            rules: Cell::new(STRICT),
            random: Cell::new(0),
            asked: Default::default(),
        }
    }

    fn count(&self, question: usize) {
        let asked = &self.asked[question];
        asked.set(asked.get() + 1);
    }
}

impl Environment for TestEnvironment {
    fn now(&self) -> SinceEpoch {
        self.count(0);
        self.now.get()
    }

    fn clock_rules(&self) -> ClockRules {
        self.count(1);
        self.rules.get()
    }

    fn random(&self) -> u64 {
        self.count(2);
        self.random.get()
    }
}
