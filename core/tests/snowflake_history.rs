//! Nodes that lease worker ids from one registry through any history of draws,
//! renewals, crashes and takeovers: no id twice.
//!
//! Clocks step and stand, the registry's own among them; leases expire while
//! their holders live and draw on; nodes die between any two steps.
#![cfg(not(loom))]

mod nodes;
mod rig;

use std::time::Duration;

use nodes::{NODES, Op, TICK_US, Then, World};
use proptest::prelude::*;
use rig::{layouts, rules};

/// With which a node comes into the world.
const FIRST_LEASE: Op = Op::Register {
    worker_id: None,
    ahead: 20,
    lasts: Duration::from_micros(10),
    random: 0,
    then: Then::Uses,
};

/// What happens at one node: mostly draws, and a clock that goes on.
fn op() -> impl Strategy<Value = (usize, Op)> {
    let meanwhile = prop::collection::vec(simple_op(), 0..4);
    let slow_take = (0..NODES, take(meanwhile));
    prop_oneof![9 => simple_op(), 1 => slow_take]
}

fn take(meanwhile: impl Strategy<Value = Vec<(usize, Op)>>) -> impl Strategy<Value = Op> {
    let count = prop_oneof![3 => Just(1), 1 => 1..10u64];
    (count, 0..4u64, meanwhile).prop_map(|(count, random, meanwhile)| Op::Take {
        count,
        random,
        meanwhile,
    })
}

fn simple_op() -> impl Strategy<Value = (usize, Op)> {
    let then = || prop_oneof![19 => Just(Then::Uses), 1 => Just(Then::Crashes)];
    let step = prop_oneof![
        6 => 0..2 * TICK_US as i64,
        2 => -60..60i64,
        1 => -2_000..2_000i64,
    ];
    let worker_id = prop_oneof![3 => Just(None), 1 => (0..4u64).prop_map(Some)];
    let register = (worker_id, 0..20u64, 0..100u64, any::<u64>(), then()).prop_map(
        |(worker_id, ahead, lasts_us, random, then)| Op::Register {
            worker_id,
            ahead,
            lasts: Duration::from_micros(lasts_us),
            random,
            then,
        },
    );
    let renew = (0..20u64, then()).prop_map(|(ahead, then)| Op::Renew { ahead, then });
    let op = prop_oneof![
        30 => take(Just(vec![])),
        15 => step.prop_map(Op::Clock),
        4 => (-100..200i64).prop_map(Op::RegistryClock),
        2 => rules().prop_map(Op::Rules),
        6 => register,
        6 => renew,
        1 => prop_oneof![Just(Op::Fence), Just(Op::Release)],
        1 => prop_oneof![3 => Just(Op::Crash), 1 => Just(Op::Promote)],
    ];
    (0..NODES, op)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1_000, failure_persistence: None, ..Default::default() })]

    #[test]
    fn no_id_twice_whatever_clocks_nodes_and_leases_do(
        layout in layouts(12, 0..3, 1..3, TICK_US),
        clocks in [0..2_000u64, 0..2_000u64, 0..2_000u64],
        ops in prop::collection::vec(op(), 1..200),
    ) {
        let world = World::new(layout, clocks);
        for node in 0..NODES {
            world.run(&(node, FIRST_LEASE));
        }
        ops.iter().for_each(|op| world.run(op));
    }
}
