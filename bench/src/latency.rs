//! How long single calls take.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use leaf_tests::postgres::Client;

use crate::compare::Spread;

/// The durations of single calls in one workload, in milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    pub calls_per_second: f64,
    pub p50: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
    /// What each of [`SHARES`] of the calls does not exceed.
    pub curve: [f64; SHARES.len()],
}

/// The shares of calls of which a plot is drawn.
pub const SHARES: [f64; 12] = [
    0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.998, 0.999, 0.9995, 0.9998, 0.9999,
];

/// Runs one statement repeatedly in several sessions at once.
pub fn of_calls(clients: Vec<Client>, call: &str, duration: Duration) -> Latency {
    let ready = Barrier::new(clients.len());
    let start = Instant::now();
    let all = thread::scope(|scope| {
        let start = |client| scope.spawn(|| in_session(client, call, &ready, duration));
        let threads: Vec<_> = clients.into_iter().map(start).collect();
        let ended = threads.into_iter().map(|thread| thread.join());
        let latencies = ended.map(|ended| ended.expect("a session that failed said why"));
        latencies.flatten().collect()
    });
    summary_of(all, start.elapsed())
}

fn in_session(
    mut client: Client,
    call: &str,
    ready: &Barrier,
    duration: Duration,
) -> Vec<Duration> {
    let statement = client.prepare(call).expect("the call is valid SQL");
    let mut latencies = Vec::with_capacity(1 << 16);
    ready.wait();
    let end = Instant::now() + duration;
    loop {
        let start = Instant::now();
        if start > end {
            return latencies;
        }
        let row = client.query_one(&statement, &[]).expect("a row");
        std::hint::black_box(row.len());
        latencies.push(start.elapsed());
    }
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
        curve: SHARES.map(|share| percentile(&all, share)),
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
        curve: std::array::from_fn(|i| Spread::of(runs.iter().map(|run| run.curve[i])).median),
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
