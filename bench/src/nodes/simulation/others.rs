//! Sessions of the centre's own database that draw while shards are fed.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leaf_tests::Draw;
use leaf_tests::postgres::Client;

use crate::latency::{Latency, summary_of};
use crate::nodes::Nodes;

/// Sessions that draw one id each time, and sessions that reserve a block; with the time from
/// one call to the next.
const DRAWING: (usize, Duration) = (4, Duration::from_millis(5));
const RESERVING: (usize, Duration) = (2, Duration::from_millis(10));

/// How often it is counted who waits.
const LOOK_AGAIN: Duration = Duration::from_millis(100);

/// What the others have seen.
pub struct Observed {
    pub draws: Latency,
    pub blocks: Latency,
    pub waiting: Waiting,
}

/// How many feeds have waited for the loader.
pub struct Waiting {
    pub mean: f64,
    pub max: i64,
}

/// Does something while others draw.
pub fn while_others_draw<R>(nodes: &Nodes, act: impl FnOnce() -> R) -> (R, Observed) {
    let done = AtomicBool::new(false);
    let connect = || nodes.centre.0.connect();
    let start = Instant::now();
    thread::scope(|scope| {
        let session = |call: &'static str, pause| {
            let (client, done) = (connect(), &done);
            scope.spawn(move || repeat(client, call, pause, done))
        };
        let sessions =
            |(count, pause), call| -> Vec<_> { (0..count).map(|_| session(call, pause)).collect() };
        let drawing = sessions(DRAWING, "SELECT leaf_segment_next('others')");
        let reserving = sessions(
            RESERVING,
            "SELECT leaf_segment_reserve('others', 100)::text",
        );
        let (client, is_done) = (connect(), &done);
        let counting = scope.spawn(move || count_waiting(client, is_done));

        let result = act();
        done.store(true, Ordering::Relaxed);
        let took = start.elapsed();
        let latency = |sessions: Vec<thread::ScopedJoinHandle<'_, Vec<Duration>>>| {
            let ended = sessions.into_iter().map(|session| session.join());
            let all = ended.flat_map(|ended| ended.expect("a session that failed said why"));
            summary_of(all.collect(), took)
        };
        let observed = Observed {
            draws: latency(drawing),
            blocks: latency(reserving),
            waiting: counting.join().expect("a session that failed said why"),
        };
        (result, observed)
    })
}

fn repeat(mut client: Client, call: &str, pause: Duration, done: &AtomicBool) -> Vec<Duration> {
    let statement = client.prepare(call).expect("the call is valid SQL");
    let mut latencies = Vec::new();
    while !done.load(Ordering::Relaxed) {
        let start = Instant::now();
        client.query_one(&statement, &[]).expect("a row");
        latencies.push(start.elapsed());
        thread::sleep(pause.saturating_sub(start.elapsed()));
    }
    latencies
}

fn count_waiting(mut client: Client, done: &AtomicBool) -> Waiting {
    let waiting = "SELECT count(*) FROM pg_stat_activity
                    WHERE state = 'active' AND wait_event_type = 'Extension'
                      AND query LIKE '%leaf_segment_feed%' AND pid <> pg_backend_pid()";
    let mut counts = Vec::new();
    while !done.load(Ordering::Relaxed) {
        counts.push(client.number(waiting));
        thread::sleep(LOOK_AGAIN);
    }
    Waiting {
        mean: counts.iter().sum::<i64>() as f64 / counts.len().max(1) as f64,
        max: counts.into_iter().max().unwrap_or_default(),
    }
}
