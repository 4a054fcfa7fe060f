//! The plain edition against the library: blocks that services reserve, and what they draw.

use std::hint::black_box;
use std::time::Instant;

use leaf_sdk::{Config, IdSource, Leaf};
use leaf_tests::{Draw, Server};

use super::Line;
use crate::bench::{self, Bench};
use crate::compare::in_turn;
use crate::pgbench::tps;
use crate::report::{Bound, Report, Unit};

const SESSIONS: u32 = 8;

/// `leaf_segment_reserve` of 1,000 ids in one session, and in sessions with a tag each; and the
/// client library, whose blocks are reserved while it draws.
pub fn against_library(bench: &mut Bench, report: &mut Report) {
    let plain = bench::options().plain().start();
    for server in [&bench.server, &plain] {
        server.connect().run(&format!(
            "SELECT leaf_tag_create('reserved' || n) FROM generate_series(0, {SESSIONS} - 1) AS n"
        ));
    }
    let runs = bench.runs;
    let call = "CALL leaf_segment_reserve('reserved' || :client_id, 1000)";
    let select = "SELECT leaf_segment_reserve('reserved' || :client_id, 1000)";
    for (sessions, work, bound) in [
        (
            1,
            "plain edition, blocks of 1,000 ids, 1 session",
            Bound::AtLeast(0.7),
        ),
        (
            SESSIONS,
            "plain edition, blocks of 1,000 ids, 8 sessions with a tag each",
            Bound::AtLeast(0.9),
        ),
    ] {
        let comparison = in_turn(
            runs.repetitions,
            || tps(&plain, runs, sessions, call),
            || tps(&bench.server, runs, sessions, select),
        );
        line(work, bound).report(report, Unit::PerSecond, &comparison);
    }
    let comparison = in_turn(
        runs.repetitions,
        || draws(bench, &plain),
        || draws(bench, &bench.server),
    );
    let work = "plain edition, client library, 1 thread";
    line(work, Bound::AtLeast(0.95)).report(report, Unit::PerSecond, &comparison);
}

fn line(work: &'static str, bound: Bound) -> Line {
    Line {
        work,
        against: "the library",
        bound,
    }
}

/// How many ids per second a service draws: from its buffers, which are filled meanwhile.
fn draws(bench: &Bench, server: &Server) -> f64 {
    let count = bench.runs.size(400_000_000, 4_000_000);
    let config = Config::new(&server.connection_string()).expect("a connection string");
    let leaf = Leaf::new(config).expect("a handle");
    let source = leaf.segment("reserved0");
    source.next().expect("an id");
    let start = Instant::now();
    for _ in 0..count {
        black_box(source.next().expect("an id"));
    }
    let rate = count as f64 / start.elapsed().as_secs_f64();
    leaf.close().expect("the server answers");
    rate
}
