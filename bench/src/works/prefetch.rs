//! How much callers gain if the next segment is fetched ahead of its use.
//!
//! The tag's segments are kept at 1,000 ids, so that callers reach the end of
//! a segment a hundred times per second.

use leaf_tests::Draw;

use super::latency::run;
use crate::bench::Bench;
use crate::latency::summary;
use crate::report::Report;

const TAG: &str = "small_segments";
const STEP: &str = "1000";

/// Percentages of a segment after which the next one is fetched, and their names.
const THRESHOLDS: [(&str, &str); 2] = [
    (
        "10",
        "`leaf_segment_next`, segments of 1,000, with prefetch",
    ),
    (
        "100",
        "`leaf_segment_next`, segments of 1,000, without prefetch",
    ),
];

/// Compares the default of `leaf.prefetch_threshold` with 100, which fetches a segment
/// only when no ids are left.
pub fn with_and_without(bench: &mut Bench, report: &mut Report) {
    let server = &bench.server;
    let mut client = server.connect();
    client.run(&format!("SELECT leaf_tag_create('{TAG}', step => {STEP})"));
    server.reload("leaf.max_step", STEP);
    let call = format!("SELECT leaf_segment_next('{TAG}')");
    run(bench, &call);

    let mut latencies = [const { Vec::new() }; 2];
    let mut waits = [0, 0];
    for _ in 0..bench.runs.repetitions {
        for (i, (threshold, _)) in THRESHOLDS.iter().enumerate() {
            server.reload("leaf.prefetch_threshold", threshold);
            let before = client.stat(TAG, "waits");
            latencies[i].push(run(bench, &call));
            waits[i] += client.stat(TAG, "waits") - before;
        }
    }
    for (i, (_, name)) in THRESHOLDS.iter().enumerate() {
        report.latency(name, &summary(&latencies[i]));
        report.fact(&format!("waits: {name}"), waits[i].to_string());
    }
    let longest = client.stat(TAG, "longest_wait_ms");
    report.fact(
        "longest wait for a segment of 1,000",
        format!("{longest} ms"),
    );
    client.run("ALTER SYSTEM RESET leaf.prefetch_threshold");
    client.run("ALTER SYSTEM RESET leaf.max_step");
    client.run("SELECT pg_reload_conf()");
}
