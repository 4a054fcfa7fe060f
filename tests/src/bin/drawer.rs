//! A service as the tests need it: draws ids of the tag `orders` through the
//! client library in four threads, two of them in an async runtime, until its
//! standard input ends, and then prints what it got, a line per thread.
//!
//! What a caller may meet in an outage is borne; anything else fails.

use leaf_sdk::{Config, Error, Leaf, SegmentId, SegmentSource};
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Draws about a thousand ids a second, so that buffers last a while.
const PACE: Duration = Duration::from_millis(1);

static DONE: AtomicBool = AtomicBool::new(false);

fn bear(drawn: Result<SegmentId, Error>, ids: &mut Vec<i64>) {
    match drawn {
        Ok(id) => ids.push(id.get()),
        Err(error) => assert!(error.is_retryable(), "a caller failed: {error:?}"),
    }
}

fn blocking(orders: &SegmentSource) -> Vec<i64> {
    let mut ids = Vec::new();
    while !DONE.load(Ordering::Relaxed) {
        bear(orders.next(), &mut ids);
        thread::sleep(PACE);
    }
    ids
}

fn asynchronous(orders: &SegmentSource) -> Vec<i64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut ids = Vec::new();
        while !DONE.load(Ordering::Relaxed) {
            bear(orders.next_async().await, &mut ids);
            tokio::time::sleep(PACE).await;
        }
        ids
    })
}

fn main() {
    let connection = std::env::args().nth(1).expect("a connection string");
    let config = Config::new(&connection)
        .expect("a connection string")
        .steps(500, 5_000)
        .timeout(Duration::from_millis(500))
        .query_timeout(Duration::from_secs(1))
        .retry_between(Duration::from_millis(10), Duration::from_millis(200));
    let leaf = Leaf::new(config).expect("a handle");
    let orders = leaf.segment("orders");
    let drawn: Vec<Vec<i64>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let orders = orders.clone();
                scope.spawn(move || match n % 2 {
                    0 => blocking(&orders),
                    _ => asynchronous(&orders),
                })
            })
            .collect();
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        DONE.store(true, Ordering::Relaxed);
        threads
            .into_iter()
            .map(|thread| thread.join().expect("no panic"))
            .collect()
    });
    for ids in drawn {
        let ids: Vec<String> = ids.iter().map(i64::to_string).collect();
        println!("{}", ids.join(" "));
    }
}
