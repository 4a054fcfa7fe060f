//! Nodes and registries that lose requests and answers, start again, fail over, and are
//! replaced: a node never goes on with a lease that its registry does not have, a lost answer
//! costs no lease and no second worker id, and of two that have the same lease, such as a node and
//! its copy, one loses it.
#![cfg(not(loom))]

use std::collections::{BTreeMap, BTreeSet};

use leaf_core::snowflake::lease::{
    HeldLease, Identity, Nonce, Renewed, Verdict, first_token, registration, renewal,
};
use leaf_core::snowflake::{Layout, Scheme, Terms};
use leaf_core::time::WallTime;
use proptest::prelude::*;

const NODES: usize = 3;

/// How much further than the last one a ceiling is, in microseconds.
const AHEAD: i64 = 1_000_000;

fn instant(us: i64) -> WallTime {
    Scheme::of(Layout::LEAF).epoch.plus_us(us)
}

#[derive(Clone, Debug)]
struct Row {
    nonce: Nonce,
    token: i64,
    ceiling: i64,
}

/// A registry, with the worker ids that it has leased.
#[derive(Clone, Debug)]
struct Registry {
    identity: Identity,
    rows: BTreeMap<i32, Row>,
}

impl Registry {
    fn new(number: u8) -> Self {
        let (incarnation, history) = ([number; 16], "0".to_owned());
        Registry {
            identity: Identity {
                incarnation,
                history,
            },
            rows: BTreeMap::new(),
        }
    }

    fn register(&mut self, nonce: Nonce) -> Option<HeldLease> {
        let before = self.rows.iter().find(|(_, row)| row.nonce == nonce);
        let worker_id = match registration(before.map(|(_, row)| row.token), true) {
            Verdict::Refuse => return None,
            Verdict::Repeat => *before?.0,
            Verdict::Do => {
                let worker_id = self.rows.len() as i32;
                let row = Row {
                    nonce,
                    token: first_token(instant(1)),
                    ceiling: AHEAD,
                };
                self.rows.insert(worker_id, row);
                worker_id
            }
        };
        let row = &self.rows[&worker_id];
        let terms = Terms {
            scheme: Scheme::of(Layout::LEAF),
            worker_id,
            start: instant(0),
            ceiling: instant(row.ceiling),
        };
        Some(HeldLease::granted(
            terms,
            nonce,
            row.token,
            self.identity.clone(),
        ))
    }

    /// The token and ceiling of a renewal; `None` if the lease is lost.
    fn renew(&mut self, held: &HeldLease, next_token: i64) -> Option<(i64, WallTime)> {
        let row = self.rows.get_mut(&held.terms.worker_id)?;
        match renewal((row.nonce, row.token), held.nonce, held.token, next_token) {
            Verdict::Refuse => return None,
            Verdict::Repeat => {}
            Verdict::Do => {
                row.token = next_token;
                row.ceiling += AHEAD;
            }
        }
        Some((row.token, instant(row.ceiling)))
    }
}

/// What a node keeps over its restarts.
#[derive(Clone, Debug, Default)]
struct Node {
    registering: Option<Nonce>,
    held: Option<HeldLease>,
}

/// What becomes of a request.
#[derive(Clone, Copy, Debug)]
enum Fate {
    RequestLost,
    AnswerLost,
    Answered,
}

#[derive(Clone, Debug)]
enum Op {
    Ask(usize, Fate),
    /// One node becomes a copy of another, with all that that one has stored.
    Copy(usize, usize),
    FailOver,
    /// Another registry takes the place of this one: a new one, or one with the rows of this one
    /// as they were when `Save` was last done.
    Replace {
        restored: bool,
    },
    Save,
}

#[derive(Debug)]
struct World {
    registry: Registry,
    nodes: [Node; NODES],
    /// Nonces, tokens and registries that were made.
    made: u8,
    registrations: BTreeSet<Nonce>,
    saved: BTreeMap<i32, Row>,
    /// Registrations whose lease more than one node has had.
    copied: BTreeSet<Nonce>,
}

impl World {
    fn random(&mut self) -> u8 {
        self.made += 1;
        self.made
    }

    fn ask(&mut self, number: usize, fate: Fate) {
        let mut node = self.nodes[number].clone();
        let new = self.random();
        match &mut node.held {
            Some(held) => {
                let next_token = held.propose(|| 1 + i64::from(new));
                // It is stored before it is sent.
                self.nodes[number].held = Some(held.clone());
                let answer = match fate {
                    Fate::RequestLost => return,
                    _ => self.registry.renew(held, next_token),
                };
                let identity = self.registry.identity.clone();
                match (fate, answer) {
                    (Fate::Answered, Some((token, ceiling)))
                        if held.renewed(token, ceiling, identity) != Ok(Renewed::OtherRegistry) => {
                    }
                    (Fate::Answered, _) => {
                        let was_elsewhere =
                            held.registry.incarnation != self.registry.identity.incarnation;
                        let may_be_lost = was_elsewhere || self.copied.contains(&held.nonce);
                        assert!(may_be_lost, "a lease of one node is lost");
                        node.held = None;
                    }
                    _ => return,
                }
            }
            None => {
                let nonce = *node.registering.get_or_insert([new; 16]);
                self.nodes[number].registering = Some(nonce);
                let answer = match fate {
                    Fate::RequestLost => return,
                    _ => self.registry.register(nonce),
                };
                self.registrations.insert(nonce);
                if matches!(fate, Fate::AnswerLost) {
                    return;
                }
                node.registering = None;
                node.held = answer;
            }
        }
        if let Some(held) = &node.held {
            let (registry, row) = (&self.registry, &self.registry.rows[&held.terms.worker_id]);
            assert_eq!(held.registry, registry.identity, "another one has answered");
            assert_eq!((held.nonce, held.token), (row.nonce, row.token));
        }
        self.nodes[number] = node;
    }

    fn check(&self) {
        // A second worker id would have a second row.
        assert!(self.registry.rows.len() <= self.registrations.len());
        for node in &self.nodes {
            let Some(held) = &node.held else { continue };
            if held.registry.incarnation != self.registry.identity.incarnation {
                // Not asked since: what it may still use, this registry never granted.
                continue;
            }
            let row = &self.registry.rows[&held.terms.worker_id];
            assert!(
                held.terms.ceiling <= instant(row.ceiling),
                "above what is registered"
            );
        }
    }
}

fn op() -> impl Strategy<Value = Op> {
    let fate = prop_oneof![
        3 => Just(Fate::Answered),
        1 => Just(Fate::RequestLost),
        1 => Just(Fate::AnswerLost),
    ];
    prop_oneof![
        12 => (0..NODES, fate).prop_map(|(node, fate)| Op::Ask(node, fate)),
        1 => (0..NODES, 0..NODES).prop_map(|(from, to)| Op::Copy(from, to)),
        1 => Just(Op::FailOver),
        1 => any::<bool>().prop_map(|restored| Op::Replace { restored }),
        1 => Just(Op::Save),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn a_lease_is_its_holders_whatever_is_lost(ops in prop::collection::vec(op(), 1..60)) {
        let mut world = World {
            registry: Registry::new(0),
            nodes: Default::default(),
            made: 0,
            registrations: BTreeSet::new(),
            saved: BTreeMap::new(),
            copied: BTreeSet::new(),
        };
        for op in ops {
            match op {
                Op::Ask(node, fate) => world.ask(node, fate),
                Op::Copy(from, to) => {
                    world.nodes[to] = world.nodes[from].clone();
                    let Node { registering, held } = &world.nodes[from];
                    world.copied.extend(registering);
                    world.copied.extend(held.as_ref().map(|held| held.nonce));
                }
                Op::Save => world.saved = world.registry.rows.clone(),
                Op::FailOver => {
                    let history = world.random().to_string();
                    world.registry.identity.history = history;
                }
                Op::Replace { restored } => {
                    world.registry = Registry::new(world.random());
                    world.registrations.clear();
                    if restored {
                        world.registry.rows = world.saved.clone();
                        let nonces = world.saved.values().map(|row| row.nonce);
                        world.registrations.extend(nonces);
                    }
                }
            }
            world.check();
        }
        // Once all have asked and been answered, each lease has one holder.
        for _ in 0..2 {
            for node in 0..NODES {
                world.ask(node, Fate::Answered);
                world.check();
            }
        }
        let held: Vec<_> = world.nodes.iter().flat_map(|node| &node.held).collect();
        let worker_ids: BTreeSet<_> = held.iter().map(|held| held.terms.worker_id).collect();
        prop_assert_eq!(worker_ids.len(), held.len(), "two have one worker id");
    }
}

#[test]
fn lost_answer_of_a_registration_costs_no_second_worker_id() {
    let mut registry = Registry::new(0);
    let first = registry.register([7; 16]).expect("a lease");
    assert_eq!(registry.register([7; 16]), Some(first.clone()));
    assert_eq!(registry.rows.len(), 1);
    // Once it was renewed, its node knows of it: somebody else repeats the registration.
    registry.renew(&first, 5).expect("a renewal");
    assert_eq!(registry.register([7; 16]), None);
    assert_eq!(registration(Some(first.token), false), Verdict::Refuse);
}

#[test]
fn registration_that_arrives_after_its_lease_has_ended_revives_no_holder() {
    let (first, late) = (first_token(instant(1)), first_token(instant(2)));
    assert_eq!(renewal(([7; 16], late), [7; 16], first, 5), Verdict::Refuse);
    assert_eq!(registration(Some(late), true), Verdict::Repeat);
}

#[test]
fn lost_answer_of_a_renewal_costs_no_lease_and_a_copy_has_none() {
    let mut registry = Registry::new(0);
    let mut held = registry.register([7; 16]).expect("a lease");
    let mut copy = held.clone();
    let next = held.propose(|| 5);
    let answer = registry.renew(&held, next).expect("a renewal");
    let next = held.propose(|| 6);
    assert_eq!((next, registry.renew(&held, next)), (5, Some(answer)));
    assert_eq!(registry.renew(&copy, copy.clone().propose(|| 8)), None);
    let identity = registry.identity.clone();
    assert_eq!(
        held.renewed(5, answer.1, identity.clone()),
        Ok(Renewed::Confirmed)
    );
    assert_eq!(held.propose(|| 9), 9);
    // An impossible answer changes nothing.
    let before = copy.clone();
    assert!(copy.renewed(9, instant(-1), identity).is_err());
    assert_eq!(copy, before);
}

#[test]
fn doubt_and_failover_end_with_an_answer_and_another_registry_ends_the_lease() {
    let mut registry = Registry::new(0);
    let mut held = registry.register([7; 16]).expect("a lease");
    held.is_doubtful = true;
    let mut identity = registry.identity.clone();
    identity.history = "1".into();
    let renew = |held: &mut HeldLease, identity: &Identity| {
        held.renewed(5, instant(2 * AHEAD), identity.clone())
    };
    assert_eq!(renew(&mut held, &identity), Ok(Renewed::FailedOver));
    assert!(!held.is_doubtful);
    assert_eq!(renew(&mut held, &identity), Ok(Renewed::Confirmed));
    identity.incarnation = [9; 16];
    let before = held.clone();
    assert_eq!(renew(&mut held, &identity), Ok(Renewed::OtherRegistry));
    assert_eq!(held, before);
}
