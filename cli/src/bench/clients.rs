//! Who calls, until the time is over: tasks with connections, or threads with buffers.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leaf_sdk::{Config, Leaf};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::arguments::BenchArgs;
use super::tally::Tally;
use super::work::{Buffered, Session, Work};
use crate::failure::Failure;

/// A buffered call is so short that looking at the clock takes as long: one of so many is
/// timed.
pub const TIMED_ONE_OF: u64 = 64;

/// The clients of a run.
pub struct Clients {
    shared: Arc<Shared>,
    tasks: JoinSet<Result<Tally, Failure>>,
    /// With what the clients draw from, so that closing releases a worker id.
    library: Option<(Leaf, Option<Buffered>)>,
    /// The calls, and when, at the last line of progress.
    before: Mutex<(u64, Duration)>,
}

/// Times of calls, in milliseconds.
#[derive(Default)]
struct Timed {
    count: f64,
    sum: f64,
    squares: f64,
}

impl Timed {
    fn add(&mut self, duration: Duration) {
        let ms = duration.as_secs_f64() * 1e3;
        self.count += 1.0;
        self.sum += ms;
        self.squares += ms * ms;
    }

    fn average(&self) -> f64 {
        self.sum / self.count.max(1.0)
    }

    fn stddev(&self) -> f64 {
        let average = self.average();
        (self.squares / self.count.max(1.0) - average * average)
            .max(0.0)
            .sqrt()
    }
}

/// What clients and the run share.
#[derive(Default)]
struct Shared {
    is_over: AtomicBool,
    calls: AtomicU64,
    /// The calls that were timed since the last line of progress.
    timed: Mutex<Timed>,
    ended: Notify,
}

impl Clients {
    pub async fn start(work: &Work, args: &BenchArgs, config: &Config) -> Result<Clients, Failure> {
        let shared = Arc::new(Shared::default());
        let mut tasks = JoinSet::new();
        let mut library = None;
        if let Work::Statement { sql, name, count } = work {
            let mut sessions = Vec::new();
            for _ in 0..args.clients {
                sessions.push(Session::open(config, sql, name.as_ref(), *count).await?);
            }
            for session in sessions {
                let (shared, clients) = (shared.clone(), args.clients);
                tasks.spawn(async move {
                    let tally = session_calls(&session, &shared, clients).await;
                    session.close().await;
                    tally
                });
            }
        } else {
            let leaf = Leaf::new(config.clone())?;
            let buffered = Buffered::open(&leaf, work).await?;
            if let Some(buffered) = &buffered {
                for _ in 0..args.clients {
                    let (shared, clients) = (shared.clone(), args.clients);
                    let buffered = buffered.clone();
                    let (done, is_done) = tokio::sync::oneshot::channel();
                    thread::spawn(move || {
                        let _ = done.send(buffered_calls(&buffered, &shared, clients));
                    });
                    tasks.spawn(async move {
                        is_done.await.unwrap_or_else(|_| {
                            Err(Failure::failed("a client has ended unexpectedly"))
                        })
                    });
                }
            }
            library = Some((leaf, buffered));
        }
        Ok(Clients {
            shared,
            tasks,
            library,
            before: Mutex::default(),
        })
    }

    /// Returns when a client has ended before its time, which is an error.
    pub async fn ended(&self) {
        self.shared.ended.notified().await;
    }

    /// A line as pgbench's.
    pub fn progress(&self, at: Duration) -> String {
        let calls = self.shared.calls.load(Ordering::Relaxed);
        let timed = std::mem::take(&mut *self.shared.timed.lock());
        let mut before = self.before.lock();
        let tps = (calls - before.0) as f64 / (at - before.1).as_secs_f64();
        *before = (calls, at);
        // A call that fails ends the run.
        format!(
            "progress: {:.1} s, {tps:.1} tps, lat {:.3} ms stddev {:.3}, 0 failed",
            at.as_secs_f64(),
            timed.average(),
            timed.stddev()
        )
    }

    /// Stops all clients.
    pub async fn stop(mut self) -> Result<Tally, Failure> {
        self.shared.is_over.store(true, Ordering::Relaxed);
        let mut tallies = Vec::new();
        while let Some(tally) = self.tasks.join_next().await {
            tallies.push(tally.map_err(Failure::failed)??);
        }
        if let Some((leaf, _)) = &self.library {
            leaf.close_async().await?;
        }
        Ok(Tally::all(tallies))
    }
}

impl Shared {
    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

async fn session_calls(session: &Session, shared: &Shared, clients: u16) -> Result<Tally, Failure> {
    let mut tally = Tally::of_one(clients);
    let mut ids = Vec::new();
    while !shared.is_over() {
        ids.clear();
        let begun = Instant::now();
        if let Err(failure) = session.call(&mut ids).await {
            shared.ended.notify_one();
            return Err(failure);
        }
        let lasted = begun.elapsed();
        tally.lasted(lasted);
        tally.drawn(&ids);
        shared.timed.lock().add(lasted);
        shared.calls.fetch_add(1, Ordering::Relaxed);
    }
    Ok(tally)
}

fn buffered_calls(buffered: &Buffered, shared: &Shared, clients: u16) -> Result<Tally, Failure> {
    let mut tally = Tally::of_one(clients);
    let mut ids = Vec::new();
    while !shared.is_over() {
        for call in 0..TIMED_ONE_OF {
            ids.clear();
            let begun = (call == 0).then(Instant::now);
            if let Err(error) = buffered.call(&mut ids) {
                shared.ended.notify_one();
                return Err(error.into());
            }
            if let Some(begun) = begun {
                let lasted = begun.elapsed();
                tally.lasted(lasted);
                shared.timed.lock().add(lasted);
            }
            tally.drawn(&ids);
        }
        shared.calls.fetch_add(TIMED_ONE_OF, Ordering::Relaxed);
    }
    Ok(tally)
}
