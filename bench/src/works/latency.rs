//! How long single calls take, measured by the caller.
//!
//! The client is this program, not `pgbench`, whose own percentiles of very
//! short queries are unreliable.

use super::Line;
use crate::bench::{Bench, TAG};
use crate::compare::Comparison;
use crate::latency::{Latency, of_calls, summary};
use crate::plots;
use crate::report::{Bound, Plot, Report, Unit};

const SESSIONS: usize = 8;

/// A draw, an empty query, and `nextval`.
pub fn against_select_1(bench: &mut Bench, report: &mut Report) {
    let leaf = format!("SELECT leaf_segment_next('{TAG}')");
    let calls = [leaf.as_str(), "SELECT 1::bigint", "SELECT nextval('s')"];
    let names = ["`leaf_segment_next`", "`SELECT 1`", "`nextval`"];
    for call in calls {
        run(bench, call);
    }
    let waits = bench.waits();

    let mut latencies = [const { Vec::new() }; 3];
    for _ in 0..bench.runs.repetitions {
        for (call, latencies) in calls.iter().zip(&mut latencies) {
            latencies.push(run(bench, call));
        }
    }

    let pairs: Vec<_> = latencies[0]
        .iter()
        .zip(&latencies[1])
        .map(|(leaf, other)| (leaf.p999, other.p999))
        .collect();
    let line = Line {
        work: "p99.9 of one id per statement, 8 sessions",
        against: "`SELECT 1`",
        bound: Bound::AtMost(1.2),
    };
    line.report(report, Unit::Milliseconds, &Comparison::of(&pairs));
    let named = [0, 1, 2].map(|i| (names[i], summary(&latencies[i])));
    for (name, latency) in &named {
        report.latency(name, latency);
    }
    report.plot(Plot {
        file: "latency.svg",
        title: "How long one call takes, 8 sessions",
        drawing: plots::latencies(&named),
    });
    let waits = bench.waits() - waits;
    report.fact(&format!("waits: {}", line.work), waits.to_string());
}

/// Runs one statement repeatedly in 8 sessions.
pub fn run(bench: &Bench, call: &str) -> Latency {
    let clients = (0..SESSIONS).map(|_| bench.server.connect()).collect();
    of_calls(clients, call, bench.runs.duration(3))
}
