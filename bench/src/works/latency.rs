//! How long single calls take, measured by the caller.
//!
//! The client is this program, not `pgbench`, whose own percentiles of very
//! short queries are unreliable.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::Line;
use crate::bench::{Bench, TAG};
use crate::compare::{Comparison, Spread};
use crate::report::{Bound, Latency, Report, Unit};

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
    for _ in 0..bench.repetitions {
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
    for (name, latencies) in names.iter().zip(&latencies) {
        report.latency(name, &summary(latencies));
    }
    let waits = bench.waits() - waits;
    report.fact(&format!("waits: {}", line.work), waits.to_string());
}

/// Runs one statement repeatedly in 8 sessions.
pub fn run(bench: &Bench, call: &str) -> Latency {
    let duration = bench.duration(3);
    let all = Mutex::new(Vec::new());
    let took = bench.in_sessions(SESSIONS, |client| {
        let statement = client.prepare(call).expect("the call is valid SQL");
        let mut latencies = Vec::with_capacity(1 << 16);
        let end = Instant::now() + duration;
        loop {
            let start = Instant::now();
            if start > end {
                break;
            }
            let row = client.query_one(&statement, &[]).expect("a row");
            std::hint::black_box(row.get::<_, i64>(0));
            latencies.push(start.elapsed());
        }
        all.lock().expect("no session failed").extend(latencies);
    });
    summary_of(all.into_inner().expect("no session failed"), took)
}

/// Summarises the calls that were made in the time `took`.
pub fn summary_of(mut all: Vec<Duration>, took: Duration) -> Latency {
    all.sort_unstable();
    Latency {
        calls_per_second: all.len() as f64 / took.as_secs_f64(),
        p50: percentile(&all, 0.5),
        p99: percentile(&all, 0.99),
        p999: percentile(&all, 0.999),
        max: percentile(&all, 1.0),
    }
}

/// The medians of several runs, and the highest of their maxima.
pub fn summary(runs: &[Latency]) -> Latency {
    let median = |figure: fn(&Latency) -> f64| Spread::of(runs.iter().map(figure)).median;
    Latency {
        calls_per_second: median(|run| run.calls_per_second),
        p50: median(|run| run.p50),
        p99: median(|run| run.p99),
        p999: median(|run| run.p999),
        max: Spread::of(runs.iter().map(|run| run.max)).max,
    }
}

/// A percentile in milliseconds; the durations must be sorted.
fn percentile(sorted: &[Duration], share: f64) -> f64 {
    let index = (sorted.len() as f64 * share).ceil() as usize;
    sorted[index.clamp(1, sorted.len()) - 1].as_secs_f64() * 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_smallest_figure_that_covers_its_share() {
        let sorted: Vec<_> = (1..=1000).map(Duration::from_millis).collect();
        assert_eq!(percentile(&sorted, 0.5), 500.0);
        assert_eq!(percentile(&sorted, 0.999), 999.0);
        assert_eq!(percentile(&sorted, 1.0), 1000.0);
        assert_eq!(percentile(&sorted[..1], 0.5), 1.0);
    }
}
