//! What shards see of the centre.

use std::time::Instant;

use leaf_tests::Draw;
use leaf_tests::postgres::Client;

use super::Nodes;
use crate::compare::in_turn;
use crate::latency::{Latency, of_calls, summary};
use crate::report::{Bound, Report, Unit};

/// Shards, and sessions of each, with their names.
const CALLERS: [(usize, usize, &str); 5] = [
    (1, 1, "1 session of 1 shard"),
    (2, 1, "1 session of each of 2 shards"),
    (4, 1, "1 session of each of 4 shards"),
    (8, 1, "1 session of each of 8 shards"),
    (1, 8, "8 sessions of 1 shard"),
];

/// Blocks of a fed tag: each call is passed on to the centre, and answered when what that has
/// granted is committed at the shard.
pub fn latency(nodes: &mut Nodes, report: &mut Report) {
    let runs = nodes.runs;
    let mut measure = |callers: &str, mut clients: Box<dyn FnMut() -> Vec<Client> + '_>| {
        let reserve = "SELECT leaf_segment_reserve('fed', 1000)::text";
        let run = |_| of_calls(clients(), reserve, runs.duration(2));
        let measured: Vec<Latency> = (0..runs.repetitions).map(run).collect();
        let name = format!("`leaf_segment_reserve` of a fed tag, {callers}");
        report.latency(&name, &summary(&measured));
    };
    for (shards, sessions, callers) in CALLERS {
        let clients = || {
            let shards = nodes.shards(shards).iter();
            let clients = shards.flat_map(|shard| (0..sessions).map(|_| shard.connect()));
            clients.collect()
        };
        measure(callers, Box::new(clients));
    }
    let clients = || nodes.databases(3);
    measure(
        "1 session of each of 3 databases of 1 shard",
        Box::new(clients),
    );
}

/// Ids of a fed tag against those of a local one, on one shard.
pub fn fed_against_local(nodes: &mut Nodes, report: &mut Report) {
    let runs = nodes.runs;
    let rows = runs.size(5_000_000, 500_000);
    let mut client = nodes.shards(1)[0].connect();
    // Until the segments have their final size.
    for _ in 0..4 {
        ids_per_second(&mut client, "fed", rows);
        ids_per_second(&mut client, "local", rows);
    }
    let mut other = nodes.shards(1)[0].connect();
    let comparison = in_turn(
        runs.repetitions,
        || ids_per_second(&mut client, "fed", rows),
        || ids_per_second(&mut other, "local", rows),
    );
    report.compared(
        "ids of a fed tag for 5 million rows, 1 session",
        "a local tag of the same shard",
        Unit::PerSecond,
        &comparison,
        Bound::AtLeast(0.98),
    );
}

fn ids_per_second(client: &mut Client, tag: &str, rows: u64) -> f64 {
    let query = format!("SELECT count(leaf_segment_next('{tag}')) FROM generate_series(1, {rows})");
    let start = Instant::now();
    assert_eq!(client.number(&query), rows as i64);
    rows as f64 / start.elapsed().as_secs_f64()
}
