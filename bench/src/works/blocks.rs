//! Blocks of ids while somebody holds an old snapshot, so that no version of a row is removed.

use std::time::{Duration, Instant};

use leaf_tests::Draw;
use leaf_tests::postgres::Client;

use super::Line;
use crate::bench::{Bench, options};
use crate::compare::in_turn;
use crate::report::{Bound, Report, Unit};

/// Blocks after a minute with a snapshot, against blocks of a server without one.
pub fn under_an_old_snapshot(bench: &mut Bench, report: &mut Report) {
    let servers = [options().start(), options().start()];
    let mut holder = servers[0].connect();
    let [mut old, mut new] = servers.each_ref().map(|server| {
        let mut client = server.connect();
        client.run("SELECT leaf_tag_create('blocks')");
        client
    });
    holder.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM leaf.alloc");
    let minute = Duration::from_secs(bench.runs.size(60, 1));
    let (start, mut granted) = (Instant::now(), 0);
    while start.elapsed() < minute {
        old.reserve("blocks", 100).expect("a block");
        granted += 1;
    }
    let blocks = bench.runs.size(2_000, 100);
    let comparison = in_turn(
        bench.runs.repetitions,
        || per_second(&mut old, blocks),
        || per_second(&mut new, blocks),
    );
    let line = Line {
        work: "blocks of 100 ids, after a minute of them under an old snapshot",
        against: "without one",
        bound: Bound::AtLeast(0.7),
    };
    line.report(report, Unit::PerSecond, &comparison);
    report.fact("blocks granted in that minute", granted.to_string());
}

fn per_second(client: &mut Client, blocks: u64) -> f64 {
    let start = Instant::now();
    for _ in 0..blocks {
        client.reserve("blocks", 100).expect("a block");
    }
    blocks as f64 / start.elapsed().as_secs_f64()
}
