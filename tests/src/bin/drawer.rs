//! A service as the tests need it: draws ids through the client library in four
//! threads, two of them in an async runtime, until its standard input ends, and
//! then prints what it got, a line per thread.
//!
//! `drawer CONNECTION` draws of the tag `orders`; `drawer CONNECTION FILE` draws
//! snowflake ids and caches its lease in the file. `from the environment` stands for the
//! connection that libpq's variables name. What a caller may meet in an
//! outage, or when the clock steps, is borne; anything else fails.

use leaf_sdk::{Config, Error, IdSource, Leaf, SegmentSource, SnowflakeConfig, SnowflakeGenerator};
use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// Draws about a thousand ids a second, so that buffers last a while.
const PACE: Duration = Duration::from_millis(1);

static DONE: AtomicBool = AtomicBool::new(false);

#[derive(Clone)]
enum Ids {
    Orders(SegmentSource),
    Events(SnowflakeGenerator),
}

impl Ids {
    fn next(&self) -> Result<i64, Error> {
        match self {
            Ids::Orders(orders) => orders.next().map(i64::from),
            Ids::Events(events) => events.next().map(i64::from),
        }
    }

    async fn next_async(&self) -> Result<i64, Error> {
        match self {
            Ids::Orders(orders) => orders.next_async().await.map(i64::from),
            Ids::Events(events) => events.next_async().await.map(i64::from),
        }
    }
}

fn bear(drawn: Result<i64, Error>, ids: &mut Vec<i64>) {
    match drawn {
        Ok(id) => ids.push(id),
        Err(error) => {
            assert!(error.is_retryable(), "a caller failed: {error:?}");
        }
    }
}

fn blocking(source: &Ids) -> Vec<i64> {
    let mut ids = Vec::new();
    while !DONE.load(Ordering::Relaxed) {
        bear(source.next(), &mut ids);
        thread::sleep(PACE);
    }
    ids
}

fn asynchronous(source: &Ids) -> Vec<i64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let mut ids = Vec::new();
        while !DONE.load(Ordering::Relaxed) {
            bear(source.next_async().await, &mut ids);
            tokio::time::sleep(PACE).await;
        }
        ids
    })
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let connection = arguments.next().expect("a connection string");
    let config = match connection.as_str() {
        "from the environment" => Config::from_env(),
        connection => Config::new(connection),
    };
    let config = config
        .expect("a connection string")
        .steps(500, 5_000)
        .timeout(Duration::from_millis(500))
        .query_timeout(Duration::from_secs(5))
        .retry_between(Duration::from_millis(10), Duration::from_millis(200));
    let leaf = Leaf::new(config).expect("a handle");
    let source = match arguments.next() {
        None => Ids::Orders(leaf.segment("orders")),
        Some(file) => {
            let config = SnowflakeConfig::new("drawer").cache(file);
            Ids::Events(leaf.snowflake(config).expect("a generator"))
        }
    };
    let drawn: Vec<Vec<i64>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|n| {
                let source = source.clone();
                scope.spawn(move || match n % 2 {
                    0 => blocking(&source),
                    _ => asynchronous(&source),
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
