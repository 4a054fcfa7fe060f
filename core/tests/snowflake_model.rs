//! The generator of snowflake ids against a plain model: its rules, applied by
//! one thread through any history of clock, lease and policy.
#![cfg(not(loom))]

mod rig;

use leaf_core::snowflake::Layout;
use leaf_core::snowflake::generator::{ClockPolicy, ClockRules, Generator, Span, Stop, Taken};
use leaf_core::time::SinceEpoch;
use proptest::prelude::*;
use rig::{TestEnvironment, layouts, rules};

/// What the generator promises, written down as simply as possible.
struct Model {
    layout: Layout,
    lease: Option<Span>,
    /// The last id's worker id, tick and sequence.
    last: (u64, u64, u64),
    /// How far ahead of the clock ids may be until it has caught up, in
    /// microseconds.
    head_start: u64,
    /// Whether the clock was behind when it was last looked at.
    is_behind: bool,
    rollbacks: u64,
}

/// Worker id, tick, sequences, and whether the ceiling is due.
type Ids = (u64, u64, std::ops::Range<u64>, bool);

impl Model {
    fn begin_of(&self, tick: u64) -> u64 {
        tick * self.layout.tick_us()
    }

    fn install(&mut self, span: Span, now: SinceEpoch) {
        self.begin(span, span.from, now);
    }

    fn install_above(&mut self, span: Span, now: SinceEpoch) {
        let above = self.last.1 + 1;
        let has_room = above < span.ceiling;
        let from = if has_room {
            above.max(span.from)
        } else {
            span.from
        };
        self.begin(span, from, now);
    }

    fn begin(&mut self, span: Span, from: u64, now: SinceEpoch) {
        let now = now.as_us();
        let from = from.max(1).min(self.layout.ticks());
        self.lease = Some(span);
        self.last = (span.worker_id, from - 1, self.layout.ids_per_tick() - 1);
        let is_ahead = now < self.begin_of(from - 1);
        self.head_start = if is_ahead {
            self.begin_of(from) - now
        } else {
            0
        };
        self.is_behind = false;
    }

    fn take(&mut self, count: u64, outside: &TestEnvironment) -> Result<Ids, Stop> {
        let Some(lease) = self.lease else {
            return Err(Stop::Ceiling);
        };
        let (tick, start) = self.next(outside)?;
        if tick >= self.layout.ticks() {
            return Err(Stop::TimeUsedUp);
        }
        if tick >= lease.ceiling {
            return Err(Stop::Ceiling);
        }
        let end = self.layout.ids_per_tick().min(start.saturating_add(count));
        self.last = (lease.worker_id, tick, end - 1);
        let due = tick >= lease.renew_at.min(self.layout.ticks());
        Ok((lease.worker_id, tick, start..end, due))
    }

    /// Tick and sequence of the next id.
    fn next(&mut self, outside: &TestEnvironment) -> Result<(u64, u64), Stop> {
        let (_, tick, sequence) = self.last;
        let now = outside.now.get().as_us();
        let is_used_up = sequence == self.layout.ids_per_tick() - 1;
        let lead = self.lead(now, outside.rules.get())?;
        let now_tick = now / self.layout.tick_us();
        if now_tick > tick {
            let is_next = now_tick == tick + 1;
            let start = outside.random.get() % self.layout.start_spread();
            return Ok((now_tick, if is_used_up && is_next { 0 } else { start }));
        }
        if !is_used_up {
            return Ok((tick, sequence + 1));
        }
        match self.begin_of(tick + 1).saturating_sub(now + lead) {
            0 => Ok((tick + 1, 0)),
            us => Err(Stop::Wait { us }),
        }
    }

    /// How far ahead of the clock ids may be, if that is far enough for the last.
    fn lead(&mut self, now: u64, rules: ClockRules) -> Result<u64, Stop> {
        let behind = self.begin_of(self.last.1).saturating_sub(now);
        if behind == 0 {
            self.is_behind = false;
            self.head_start = 0;
            return Ok(0);
        }
        if behind > self.head_start && !self.is_behind {
            self.is_behind = true;
            self.rollbacks += 1;
        }
        match behind.saturating_sub(self.head_start) {
            0 => {}
            us if us <= rules.tolerance_us => return Err(Stop::Wait { us }),
            _ => {}
        }
        let lead = match rules.policy {
            ClockPolicy::Borrow => self.head_start.max(rules.max_lead_us),
            _ => self.head_start,
        };
        match behind.saturating_sub(lead) {
            0 => Ok(lead),
            us if us <= rules.tolerance_us => Err(Stop::Wait { us }),
            us if rules.policy == ClockPolicy::Wait => Err(Stop::Wait { us }),
            _ => Err(Stop::ClockBehind { us: behind }),
        }
    }
}

#[derive(Clone, Debug)]
enum Op {
    Take {
        count: u64,
        random: u64,
    },
    Clock {
        us: i64,
    },
    Rules(ClockRules),
    Extend {
        by: u64,
        due_in: u64,
    },
    Install {
        worker_id: u64,
        ahead: i64,
        span: u64,
        due_in: u64,
        above: bool,
    },
    Fence,
}

const TICK_US: u64 = 10;

fn op() -> impl Strategy<Value = Op> {
    let count = prop_oneof![4 => Just(1), 3 => 1..10u64, 1 => Just(u64::MAX)];
    let us = prop_oneof![
        6 => 1..2 * TICK_US as i64,
        2 => -40..40i64,
        1 => -1_000..3_000i64,
        1 => 0..20_000i64,
    ];
    let due_in = prop_oneof![0..10u64, Just(u64::MAX)];
    let lease = (
        0..4u64,
        -10..10i64,
        0..200u64,
        due_in.clone(),
        any::<bool>(),
    );
    prop_oneof![
        30 => (count, 0..5u64).prop_map(|(count, random)| Op::Take { count, random }),
        15 => us.prop_map(|us| Op::Clock { us }),
        3 => rules().prop_map(Op::Rules),
        3 => (0..100u64, due_in).prop_map(|(by, due_in)| Op::Extend { by, due_in }),
        2 => lease.prop_map(|(worker_id, ahead, span, due_in, above)| {
            Op::Install { worker_id, ahead, span, due_in, above }
        }),
        1 => Just(Op::Fence),
    ]
}

/// A generator and its model, which live through the same.
struct Pair {
    generator: Generator,
    model: Model,
    outside: TestEnvironment,
}

impl Pair {
    fn new(layout: Layout, start: u64) -> Self {
        let model = Model {
            layout,
            lease: None,
            last: (0, 0, 0),
            head_start: 0,
            is_behind: false,
            rollbacks: 0,
        };
        Pair {
            generator: Generator::new(),
            model,
            outside: TestEnvironment::at(start),
        }
    }

    fn take(&mut self, count: u64) -> Result<Ids, Stop> {
        let layout = self.model.layout;
        let had_room = self.has_room();
        let taken = self.generator.take(&layout, count, &self.outside);
        let ids = taken.map(|Taken { ids, due }| {
            let (tick, worker_id, start) = layout.unpack(ids.first() as u64);
            let sequences = start..start + ids.len() as u64;
            let expected = sequences.clone().map(|it| layout.pack(tick, worker_id, it));
            assert!(ids.map(|id| id as u64).eq(expected));
            (worker_id, tick, sequences, due)
        });
        assert_eq!(ids, self.model.take(count, &self.outside));
        match ids {
            Ok(_) => assert!(had_room),
            Err(Stop::Ceiling) => assert!(!had_room),
            Err(_) => {}
        }
        ids
    }

    fn has_room(&self) -> bool {
        let now = self.outside.now.get();
        self.generator.has_room(&self.model.layout, now)
    }

    fn run(&mut self, op: Op) {
        let layout = self.model.layout;
        let now = self.outside.now.get();
        let now_tick = now.as_us() / TICK_US;
        match op {
            Op::Take { count, random } => {
                self.outside.random.set(random);
                let _ = self.take(count);
            }
            Op::Clock { us } => {
                let now = now.as_us().saturating_add_signed(us);
                self.outside.now.set(SinceEpoch::from_us(now));
            }
            Op::Rules(rules) => self.outside.rules.set(rules),
            Op::Extend { by, due_in } => {
                let Some(lease) = &mut self.model.lease else {
                    return;
                };
                lease.ceiling += by;
                lease.renew_at = now_tick.saturating_add(due_in);
                let (ceiling, renew_at) = (lease.ceiling, lease.renew_at);
                self.generator.extend(&layout, ceiling, renew_at);
            }
            Op::Install {
                worker_id,
                ahead,
                span,
                due_in,
                above,
            } => {
                let from = now_tick.saturating_add_signed(ahead).max(1);
                let span = Span {
                    worker_id,
                    from,
                    ceiling: from + span,
                    renew_at: from.saturating_add(due_in),
                };
                if above {
                    self.generator.install_above(&layout, span, now);
                    self.model.install_above(span, now);
                } else {
                    self.generator.install(&layout, span, now);
                    self.model.install(span, now);
                }
            }
            Op::Fence => {
                self.generator.fence();
                self.model.lease = None;
            }
        }
        assert_eq!(self.generator.rollbacks(), self.model.rollbacks);
        assert_eq!(self.generator.is_leased(), self.model.lease.is_some());
        if let Some(lease) = self.model.lease {
            assert_eq!(self.generator.last_tick(&layout), self.model.last.1);
            let renew_at = lease.renew_at.min(layout.ticks());
            assert_eq!(self.generator.is_due(), self.model.last.1 >= renew_at);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn the_generator_does_what_its_rules_say(
        layout in layouts(10, 2..3, 1..5, TICK_US),
        start in prop_oneof![Just(0), 0..10_000u64],
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let mut pair = Pair::new(layout, start);
        for op in ops {
            pair.run(op);
        }
    }

    #[test]
    fn no_wait_is_too_long_and_all_end_with_the_last_ids_tick(
        layout in layouts(10, 2..3, 2..3, TICK_US),
        ops in prop::collection::vec(op(), 1..50),
        rules in rules(),
    ) {
        let mut pair = Pair::new(layout, 1_000);
        pair.run(Op::Install { worker_id: 1, ahead: 0, span: 1 << 20, due_in: 0, above: false });
        ops.into_iter().for_each(|op| pair.run(op));
        pair.run(Op::Rules(rules));
        let end = pair.model.begin_of(pair.model.last.1 + 1);
        while let Err(Stop::Wait { us }) = pair.take(1) {
            prop_assert!(us > 0, "nothing to wait for");
            pair.run(Op::Clock { us: us as i64 - 1 });
            let too_early = pair.take(1);
            prop_assert!(matches!(too_early, Err(Stop::Wait { .. })), "{:?}", too_early);
            pair.run(Op::Clock { us: 1 });
            prop_assert!(pair.outside.now.get().as_us() <= end, "waits for another tick");
        }
    }
}
