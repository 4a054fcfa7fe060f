//! Nodes that lease worker ids from one registry, each with a clock of its own,
//! and a record of every id they issue.
//!
//! The registry does what is asked of one: it notes a ceiling before anybody
//! issues below it, and lets the next lease begin there. Everything else may go
//! wrong.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use leaf_core::snowflake::Layout;
use leaf_core::snowflake::choice::{Holder, RegistryRow, Request, choose, random_unused};
use leaf_core::snowflake::generator::{
    ClockPolicy, ClockRules, Environment, Generator, Span, Stop,
};
use leaf_core::time::{SinceEpoch, WallTime};

use crate::rig::STRICT;

pub const TICK_US: u64 = 10;
pub const NODES: usize = 3;

/// A worker id's row of the registry.
#[derive(Clone, Copy, Debug)]
struct Row {
    /// Which lease it is.
    lease: u64,
    holder: usize,
    history: u64,
    /// Below this tick ids may have been issued.
    ceiling: u64,
    leased_until: WallTime,
}

struct Node {
    now: Cell<SinceEpoch>,
    rules: Cell<ClockRules>,
    history: Cell<u64>,
    /// Lost in a crash, but a caller under way still holds the old one.
    generator: RefCell<Rc<Generator>>,
    lease: Cell<Option<Lease>>,
}

/// What a node knows of its lease.
#[derive(Clone, Copy, Debug)]
struct Lease {
    number: u64,
    span: Span,
    /// The tick to begin with.
    from: u64,
    /// How far ahead of the node's clock it began.
    head_start_us: u64,
    is_fenced: bool,
}

pub struct World {
    layout: Layout,
    registry: RefCell<BTreeMap<u64, Row>>,
    registry_now: Cell<WallTime>,
    leases: Cell<u64>,
    histories: Cell<u64>,
    nodes: [Node; NODES],
    /// Every id ever issued, and by which lease.
    issued: RefCell<BTreeMap<i64, u64>>,
    /// Each lease's last.
    last: RefCell<BTreeMap<u64, i64>>,
}

/// Whether a node lives to use what it has written into the registry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Then {
    Uses,
    Crashes,
}

#[derive(Clone, Debug)]
pub enum Op {
    Clock(i64),
    RegistryClock(i64),
    Rules(ClockRules),
    /// Draws; `meanwhile` happens between its reading the clock and its taking.
    Take {
        count: u64,
        random: u64,
        meanwhile: Vec<(usize, Op)>,
    },
    Register {
        worker_id: Option<u64>,
        ahead: u64,
        lasts: Duration,
        random: u64,
        then: Then,
    },
    Renew {
        ahead: u64,
        then: Then,
    },
    Fence,
    Release,
    Crash,
    /// The node's data goes on in another history, as after a promotion.
    Promote,
}

impl World {
    /// The nodes' clocks stand so many microseconds after the epoch.
    pub fn new(layout: Layout, clocks_us: [u64; NODES]) -> Self {
        World {
            layout,
            registry: RefCell::default(),
            registry_now: Cell::default(),
            leases: Cell::new(0),
            histories: Cell::new(0),
            nodes: clocks_us.map(|us| Node {
                now: Cell::new(SinceEpoch::from_us(us)),
                rules: Cell::new(STRICT),
                history: Cell::new(0),
                generator: RefCell::default(),
                lease: Cell::new(None),
            }),
            issued: RefCell::default(),
            last: RefCell::default(),
        }
    }

    pub fn run(&self, (number, op): &(usize, Op)) {
        let node = &self.nodes[*number];
        match op {
            Op::Clock(us) => {
                let now = node.now.get().as_us().saturating_add_signed(*us);
                node.now.set(SinceEpoch::from_us(now));
            }
            Op::RegistryClock(us) => self.registry_now.set(self.registry_now.get().plus_us(*us)),
            Op::Rules(rules) => node.rules.set(*rules),
            Op::Take {
                count,
                random,
                meanwhile,
            } => self.take(*number, *count, *random, meanwhile),
            Op::Register {
                worker_id,
                ahead,
                lasts,
                random,
                then,
            } => {
                let request = Request {
                    worker_id: *worker_id,
                    worker_ids: self.layout.worker_ids(),
                    now: self.registry_now.get(),
                    reuse_after: Duration::from_micros(50),
                };
                self.register(*number, &request, *random, *ahead, *lasts, *then);
            }
            Op::Renew { ahead, then } => self.renew(node, *ahead, *then),
            Op::Fence => self.fence(node),
            Op::Release => {
                self.fence(node);
                if let Some(row) = self.row_of(node) {
                    self.registry
                        .borrow_mut()
                        .get_mut(&row)
                        .unwrap()
                        .leased_until = WallTime::MIN;
                }
            }
            Op::Crash => self.crash(node),
            Op::Promote => {
                self.crash(node);
                self.histories.set(self.histories.get() + 1);
                node.history.set(self.histories.get());
            }
        }
    }

    fn register(
        &self,
        number: usize,
        request: &Request,
        random: u64,
        ahead: u64,
        lasts: Duration,
        then: Then,
    ) {
        let node = &self.nodes[number];
        let mut registry = self.registry.borrow_mut();
        let held: Vec<RegistryRow> = registry
            .iter()
            .map(|(worker_id, row)| RegistryRow {
                worker_id: *worker_id,
                holder: match row.history == node.history.get() {
                    true if row.holder == number => Holder::Claimant,
                    true => Holder::Other,
                    false => Holder::OtherHistory,
                },
                leased_until: row.leased_until,
            })
            .collect();
        let taken: Vec<u64> = held.iter().map(|row| row.worker_id).collect();
        let in_copies = held.iter().any(|row| row.holder == Holder::OtherHistory);
        let unused = || random_unused(&taken, 0..request.worker_ids, random * u64::from(in_copies));
        let Ok(worker_id) = choose(&held, request, unused) else {
            return;
        };
        self.leases.set(self.leases.get() + 1);
        let from = registry.get(&worker_id).map_or(1, |row| row.ceiling);
        let ceiling = from.max(self.tick(node)) + ahead;
        let row = Row {
            lease: self.leases.get(),
            holder: number,
            history: node.history.get(),
            ceiling,
            leased_until: request.now + lasts,
        };
        registry.insert(worker_id, row);
        if then == Then::Crashes {
            return self.crash(node);
        }
        let span = Span {
            worker_id,
            from,
            ceiling,
            renew_at: ceiling,
        };
        let now = node.now.get();
        let generator = node.generator.borrow().clone();
        let above = generator.last_tick(&self.layout) + 1;
        let follows = random.is_multiple_of(2);
        let from = match follows && above < ceiling {
            true => from.max(above),
            false => from,
        };
        node.lease.set(Some(Lease {
            number: row.lease,
            span,
            from,
            head_start_us: (from * TICK_US).saturating_sub(now.as_us()),
            is_fenced: false,
        }));
        match follows {
            true => generator.install_above(&self.layout, span, now),
            false => generator.install(&self.layout, span, now),
        }
    }

    /// Raises the ceiling, unless somebody else has the lease by now: the node
    /// may draw on below the ceiling it has.
    fn renew(&self, node: &Node, ahead: u64, then: Then) {
        let Some(mut lease) = node.lease.get().filter(|lease| !lease.is_fenced) else {
            return;
        };
        let Some(worker_id) = self.row_of(node) else {
            return;
        };
        let generator = node.generator.borrow().clone();
        let last = generator.last_tick(&self.layout);
        let ceiling = lease.span.ceiling.max(last.max(self.tick(node)) + ahead);
        self.registry
            .borrow_mut()
            .get_mut(&worker_id)
            .unwrap()
            .ceiling = ceiling;
        if then == Then::Crashes {
            return self.crash(node);
        }
        lease.span.ceiling = ceiling;
        node.lease.set(Some(lease));
        generator.extend(&self.layout, ceiling, ceiling);
    }

    /// The worker id of the node's lease, if the registry has it so.
    fn row_of(&self, node: &Node) -> Option<u64> {
        let lease = node.lease.get()?;
        let row = *self.registry.borrow().get(&lease.span.worker_id)?;
        (row.lease == lease.number).then_some(lease.span.worker_id)
    }

    fn fence(&self, node: &Node) {
        let lease = node.lease.get();
        node.lease.set(lease.map(|lease| Lease {
            is_fenced: true,
            ..lease
        }));
        node.generator.borrow().fence();
    }

    fn crash(&self, node: &Node) {
        node.generator.take();
        node.lease.set(None);
    }

    fn tick(&self, node: &Node) -> u64 {
        node.now.get().as_us() / TICK_US
    }

    fn take(&self, number: usize, count: u64, random: u64, meanwhile: &[(usize, Op)]) {
        let node = &self.nodes[number];
        let generator = node.generator.borrow().clone();
        let before = node.lease.get();
        let caller = Caller {
            world: self,
            node,
            random,
            meanwhile: Cell::new(meanwhile),
            read: Cell::default(),
        };
        let taken = generator.take(&self.layout, count, &caller);
        if !Rc::ptr_eq(&generator, &node.generator.borrow()) {
            // The caller died with its node.
            return;
        }
        let ids = match taken {
            Ok(taken) => taken.ids,
            Err(Stop::ClockBehind { us }) => {
                let rules = node.rules.get();
                let is_right = us > rules.tolerance_us && rules.policy != ClockPolicy::Wait;
                assert!(
                    is_right || !meanwhile.is_empty(),
                    "{us} us behind: {rules:?}"
                );
                return;
            }
            // As somebody does who wants ids; but not always at once.
            Err(Stop::Ceiling) if random.is_multiple_of(2) => {
                return self.renew(node, 5, Then::Uses);
            }
            Err(_) => return,
        };
        assert!(
            (1..=count).contains(&(ids.len() as u64)),
            "{ids:?} of {count}"
        );
        let lease = node.lease.get().expect("ids without a lease");
        let was_fenced =
            before.is_some_and(|before| before.number == lease.number && before.is_fenced);
        assert!(!was_fenced, "ids after a fence");
        let first = ids.first();
        for id in ids {
            self.issue(id, &lease);
        }
        if meanwhile.is_empty() {
            self.check_lead(node, &lease, first as u64, caller.read.get());
        }
    }

    fn issue(&self, id: i64, lease: &Lease) {
        assert!(id > 0);
        let (tick, worker_id, _) = self.layout.unpack(id as u64);
        assert_eq!(worker_id, lease.span.worker_id, "an id of another lease");
        let ticks = lease.from..lease.span.ceiling;
        assert!(ticks.contains(&tick), "tick {tick} of {lease:?}");
        let persisted = self.registry.borrow()[&worker_id].ceiling;
        assert!(tick < persisted, "tick {tick} is above what was persisted");
        let last = self.last.borrow_mut().insert(lease.number, id);
        assert!(last < Some(id), "{id} after {last:?} in one lease");
        let other = self.issued.borrow_mut().insert(id, lease.number);
        assert_eq!(other, None, "{id} was issued twice, now by {lease:?}");
    }

    fn check_lead(&self, node: &Node, lease: &Lease, first: u64, now: SinceEpoch) {
        let (tick, ..) = self.layout.unpack(first);
        let lead = (tick * TICK_US).saturating_sub(now.as_us());
        let rules = node.rules.get();
        let borrowed = match rules.policy {
            ClockPolicy::Borrow => rules.max_lead_us,
            _ => 0,
        };
        assert!(
            lead <= borrowed.max(lease.head_start_us),
            "{lead} us ahead of the clock: {rules:?} {lease:?}"
        );
    }
}

/// A caller of a node, and what happens while it sleeps.
struct Caller<'a> {
    world: &'a World,
    node: &'a Node,
    random: u64,
    meanwhile: Cell<&'a [(usize, Op)]>,
    /// The clock as it last read it.
    read: Cell<SinceEpoch>,
}

impl Environment for Caller<'_> {
    fn now(&self) -> SinceEpoch {
        let now = self.node.now.get();
        self.read.set(now);
        for op in self.meanwhile.take() {
            self.world.run(op);
        }
        now
    }

    fn clock_rules(&self) -> ClockRules {
        self.node.rules.get()
    }

    fn random(&self) -> u64 {
        self.random
    }
}
