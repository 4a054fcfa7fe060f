//! What the shards ask of the centre.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use fastrand::Rng;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{sleep, sleep_until};

use super::SHARDS;
use crate::nodes::connection::{Connection, Feed};
use crate::nodes::{TAGS, tag_name};

/// How many connections carry the steady demand. In a real system, each shard has one of its
/// own while it has asked within `leaf.loader_idle_timeout`.
const CONNECTIONS: usize = 64;

/// How many shards that start are connected at once, as with `max_connections` of that size at
/// the centre. With many more, feeds wait for each other for longer than a shard waits.
const CONNECTED_AT_ONCE: usize = 100;

/// Within which time all shards are started.
const STORM: Duration = Duration::from_secs(3);

/// After a failure, how long a shard waits before it asks again.
const PAUSE: Duration = Duration::from_millis(100);

/// What the shards have got.
#[derive(Default)]
pub struct Fed {
    /// For each feed, the time from the request to the answer.
    pub feeds: Vec<Duration>,
    /// For each shard that was started, the time until it had everything.
    pub shards: Vec<Duration>,
    /// For each of them, the time that its feeds took.
    pub calls: Vec<Duration>,
    /// How many requests have failed.
    pub failures: usize,
}

/// A request of a shard.
struct Request {
    /// Counted from the start.
    due: Duration,
    feed: Feed,
}

/// As many numbers as a segment has: for tags whose rates differ by orders of magnitude.
fn count(random: &mut Rng) -> i64 {
    10f64.powf(3.0 + 4.0 * random.f64()) as i64
}

/// The requests of all shards in the given time, if each fetches a segment of each tag once in
/// `segment`, at any moment of it.
fn requests(segment: Duration, duration: Duration) -> Vec<Request> {
    let mut random = Rng::with_seed(7);
    let pairs = (0..SHARDS).flat_map(|_| 0..TAGS);
    let mut requests: Vec<_> = pairs
        .map(|tag| Request {
            due: segment.mul_f64(random.f64()),
            feed: (tag_name(tag), count(&mut random)),
        })
        .filter(|request| request.due < duration)
        .collect();
    requests.sort_by_key(|request| request.due);
    requests
}

/// All shards fetch a segment of each of their tags once in `segment`.
pub async fn steady(upstream: &str, segment: Duration, duration: Duration) -> Fed {
    let requests = Arc::new(requests(segment, duration));
    let next = Arc::new(AtomicUsize::new(0));
    let mut connections = Vec::with_capacity(CONNECTIONS);
    for _ in 0..CONNECTIONS {
        connections.push(Connection::open(upstream).await.expect("a connection"));
    }
    let start = Instant::now();
    let mut callers = JoinSet::new();
    for connection in connections {
        let (requests, next) = (Arc::clone(&requests), Arc::clone(&next));
        callers.spawn(async move {
            let mut fed = Fed::default();
            while let Some(request) = requests.get(next.fetch_add(1, Ordering::Relaxed)) {
                let due = start + request.due;
                sleep_until(due.into()).await;
                fed.failures += feed(&connection, vec![request.feed.clone()]).await;
                fed.feeds.push(due.elapsed());
            }
            fed
        });
    }
    callers.join_all().await.into_iter().collect()
}

/// All shards are started within a few seconds: each connects, leases a worker id and asks for
/// ids of all its tags.
pub async fn storm(upstream: &str, shards: usize) -> Fed {
    let start = |connection: Connection, shard: usize| async move {
        let mut fed = Fed::default();
        while connection
            .register(&format!("shard {shard}"))
            .await
            .is_err()
        {
            fed.failures += 1;
            sleep(PAUSE).await;
        }
        fed.merge(all_tags(&connection, Rng::with_seed(shard as u64)).await);
        fed
    };
    each_connects(upstream, shards, start).await
}

/// As many connections as in a storm, which ask for nothing.
pub async fn connects(upstream: &str, shards: usize) -> Fed {
    each_connects(upstream, shards, |_, _| async { Fed::default() }).await
}

/// All shards connect within a few seconds, and do something.
async fn each_connects<F>(
    upstream: &str,
    shards: usize,
    act: impl Fn(Connection, usize) -> F + Clone + Send + 'static,
) -> Fed
where
    F: Future<Output = Fed> + Send,
{
    let room = Arc::new(Semaphore::new(CONNECTED_AT_ONCE));
    let mut random = Rng::with_seed(11);
    let mut started = JoinSet::new();
    for shard in 0..shards {
        let (upstream, room) = (upstream.to_owned(), Arc::clone(&room));
        let (delay, act) = (STORM.mul_f64(random.f64()), act.clone());
        started.spawn(async move {
            sleep(delay).await;
            let start = Instant::now();
            let _place = room.acquire().await.expect("it is never closed");
            let mut failures = 0;
            let connection = loop {
                match Connection::open(&upstream).await {
                    Ok(connection) => break connection,
                    Err(_) => failures += 1,
                }
                sleep(PAUSE).await;
            };
            let mut fed = act(connection, shard).await;
            fed.failures += failures;
            fed.shards.push(start.elapsed());
            fed
        });
    }
    started.join_all().await.into_iter().collect()
}

/// Asks for a segment of each tag.
async fn all_tags(connection: &Connection, mut random: Rng) -> Fed {
    let start = Instant::now();
    let feeds = (0..TAGS).map(|tag| (tag_name(tag), count(&mut random)));
    let failures = feed(connection, feeds.collect()).await;
    Fed {
        feeds: vec![start.elapsed(); TAGS],
        calls: vec![start.elapsed()],
        failures,
        ..Fed::default()
    }
}

/// Asks until the centre has granted all. Returns how many it has not at first.
async fn feed(connection: &Connection, mut feeds: Vec<Feed>) -> usize {
    let mut failures = 0;
    loop {
        if let Ok(failed) = connection.feed(&feeds).await {
            feeds = failed;
        }
        if feeds.is_empty() {
            return failures;
        }
        failures += feeds.len();
        sleep(PAUSE).await;
    }
}

impl Fed {
    fn merge(&mut self, other: Fed) {
        self.feeds.extend(other.feeds);
        self.shards.extend(other.shards);
        self.calls.extend(other.calls);
        self.failures += other.failures;
    }
}

impl FromIterator<Fed> for Fed {
    fn from_iter<T: IntoIterator<Item = Fed>>(parts: T) -> Self {
        let mut all = Fed::default();
        parts.into_iter().for_each(|part| all.merge(part));
        all
    }
}
