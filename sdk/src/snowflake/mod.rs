//! Snowflake ids made in this process, with a worker id leased from the server.

mod cache;
mod config;
mod keeper;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use leaf_core::snowflake::generator::{ClockRules, Environment, Stop, Taken};
use leaf_core::snowflake::{Generator, Scheme};
use once_cell::sync::OnceCell;
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use crate::calls::statement::{from_unix_us, to_unix_us};
use crate::error::ClockError;
use crate::leaf::{Leaf, forbid_blocking_a_runtime};
use crate::{Error, SnowflakeId};
use cache::Cache;
pub use config::SnowflakeConfig;

/// How often a waiter asks for a lease again.
const SLICE: Duration = Duration::from_millis(100);

/// Snowflake ids at memory speed: no call to the server, no two alike within the
/// registry, whatever the clock does.
///
/// The worker id is leased from `leaf.worker` and renewed in the background.
/// Where it cannot be renewed, ids end at the ceiling that the registry knows.
/// With a [cache](SnowflakeConfig::cache) the lease survives a restart of the
/// service. Cheap to clone; may be used by any number of threads at once.
///
/// ```no_run
/// # fn main() -> Result<(), leaf_sdk::Error> {
/// use leaf_sdk::{Config, Leaf, SnowflakeConfig};
///
/// let leaf = Leaf::new(Config::new("host=db user=shop")?)?;
/// let ids = leaf.snowflake(SnowflakeConfig::new("checkout-7"))?;
/// let id = ids.next()?;
/// # let _ = id; Ok(()) }
/// ```
#[derive(Clone)]
pub struct SnowflakeGenerator {
    leaf: Leaf,
    inner: Arc<Inner>,
}

/// What the background tasks share with the callers.
struct Inner {
    config: SnowflakeConfig,
    cache: Option<Cache>,
    generator: Generator,
    /// Of the first lease; a registry never changes it.
    scheme: OnceCell<Scheme>,
    state: Mutex<State>,
    changed: Condvar,
    notify: Notify,
    /// Whether a renewal is under way: one at a time.
    is_renewing: AtomicBool,
    /// Whether the ceiling is being raised.
    is_raising: AtomicBool,
}

#[derive(Default)]
struct State {
    lease: Option<Lease>,
    /// How many tries have failed for good, and how the last one did.
    failures: u64,
    failure: Option<Error>,
    last_error: Option<String>,
    is_closed: bool,
}

/// A lease, as the registry and the cache know it. Instants in microseconds
/// since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Lease {
    worker: i32,
    nonce: String,
    token: i64,
    scheme: Scheme,
    /// Up to when the registry allows ids.
    registry_ceiling_us: i64,
    /// Up to when this process does: what the cache knows.
    ceiling_us: i64,
}

impl Leaf {
    /// A generator of snowflake ids. It leases when ids are first asked for.
    ///
    /// # Errors
    /// [`Error::Cache`] if another process uses the cache file.
    pub fn snowflake(&self, config: SnowflakeConfig) -> Result<SnowflakeGenerator, Error> {
        let cache = config.cache.as_deref().map(Cache::open).transpose()?;
        let inner = Inner {
            config,
            cache,
            generator: Generator::new(),
            scheme: OnceCell::new(),
            state: Mutex::default(),
            changed: Condvar::new(),
            notify: Notify::new(),
            is_renewing: AtomicBool::new(false),
            is_raising: AtomicBool::new(false),
        };
        inner.start_from_cache();
        Ok(SnowflakeGenerator {
            leaf: self.clone(),
            inner: Arc::new(inner),
        })
    }
}

impl SnowflakeGenerator {
    /// The next id, if one is at hand.
    #[inline]
    pub fn try_next(&self) -> Option<SnowflakeId> {
        self.take(1).ok().map(|taken| SnowflakeId::new(taken.first))
    }

    /// The next id. Waits for the next tick, for the clock as configured, and for
    /// a lease, up to the timeout of the [`Leaf`].
    ///
    /// # Errors
    /// [`Error::Clock`] if the clock has gone back too far,
    /// [`Error::LeaseLost`] if the lease could not be renewed,
    /// [`Error::Timeout`] if there is none yet.
    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&self) -> Result<SnowflakeId, Error> {
        match self.try_next() {
            Some(id) => Ok(id),
            None => self.next_timeout(self.leaf.shared().config.timeout),
        }
    }

    /// As [`next`](Self::next), with a timeout of its own.
    pub fn next_timeout(&self, timeout: Duration) -> Result<SnowflakeId, Error> {
        let mut wait = Wait::new(self, timeout);
        loop {
            match self.take(1) {
                Ok(taken) => return Ok(SnowflakeId::new(taken.first)),
                Err(stop) => {
                    forbid_blocking_a_runtime()?;
                    match wait.next(stop)? {
                        Pause::Clock(pause) => std::thread::sleep(pause),
                        Pause::Lease(until) => self.inner.wait(until),
                    }
                }
            }
        }
    }

    /// `count` ids, ascending.
    pub fn next_n(&self, count: usize) -> Result<Vec<SnowflakeId>, Error> {
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            match self.take((count - ids.len()) as u64) {
                Ok(taken) => extend(&mut ids, taken),
                Err(_) => ids.push(self.next()?),
            }
        }
        Ok(ids)
    }

    /// As [`next`](Self::next), for a task.
    #[cfg(feature = "async")]
    pub async fn next_async(&self) -> Result<SnowflakeId, Error> {
        let mut wait = Wait::new(self, self.leaf.shared().config.timeout);
        loop {
            match self.take(1) {
                Ok(taken) => return Ok(SnowflakeId::new(taken.first)),
                Err(stop) => match wait.next(stop)? {
                    Pause::Clock(pause) => tokio::time::sleep(pause).await,
                    Pause::Lease(until) => self.inner.wait_async(until).await,
                },
            }
        }
    }

    /// As [`next_n`](Self::next_n), for a task.
    #[cfg(feature = "async")]
    pub async fn next_n_async(&self, count: usize) -> Result<Vec<SnowflakeId>, Error> {
        let mut ids = Vec::with_capacity(count);
        while ids.len() < count {
            match self.take((count - ids.len()) as u64) {
                Ok(taken) => extend(&mut ids, taken),
                Err(_) => ids.push(self.next_async().await?),
            }
        }
        Ok(ids)
    }

    /// The worker id in the ids, once there is a lease.
    pub fn worker_id(&self) -> Option<i32> {
        self.inner
            .state
            .lock()
            .lease
            .as_ref()
            .map(|lease| lease.worker)
    }

    /// When an id was made, if it is one of this registry; `None` without a
    /// lease.
    pub fn created_at(&self, id: SnowflakeId) -> Option<SystemTime> {
        let parts = self.inner.scheme.get()?.decode(id.get())?;
        Some(from_unix_us(parts.created_us))
    }

    /// Ends the generator and gives the worker id back, for others to use from
    /// the last id's time on. Calls that wait get [`Error::Closed`], and so do
    /// all later ones. What cannot be given back now expires by itself.
    ///
    /// # Errors
    /// What kept the lease from being released; [`Error::WouldBlockRuntime`]
    /// inside an async runtime.
    pub fn close(&self) -> Result<(), Error> {
        forbid_blocking_a_runtime()?;
        let after = self.leaf.shared().config.timeout;
        let (done, is_done) = std::sync::mpsc::channel();
        let (shared, inner) = (self.leaf.shared().clone(), self.inner.clone());
        self.leaf.spawn(async move {
            let _ = done.send(keeper::release(&shared, &inner).await);
        });
        let released = is_done.recv_timeout(after);
        released.unwrap_or(Err(Error::Timeout { after, last: None }))
    }

    #[inline]
    fn take(&self, count: u64) -> Result<Taken, Stop> {
        let Some(scheme) = self.inner.scheme.get() else {
            self.renew();
            return Err(Stop::Ceiling);
        };
        let clock = Clock(scheme, &self.inner.config.rules);
        let taken = self.inner.generator.take(&scheme.layout, count, &clock);
        if taken.is_ok_and(|taken| taken.due) || taken == Err(Stop::Ceiling) {
            self.keep_ahead();
        }
        taken
    }

    /// Has the ceiling raised as far as the registry's allows, and that one if
    /// it comes near.
    #[cold]
    fn keep_ahead(&self) {
        if !self.inner.is_raising.swap(true, Ordering::AcqRel) {
            let generator = self.clone();
            self.leaf.spawn(async move {
                let is_near = generator.inner.raise_ceiling();
                generator.inner.is_raising.store(false, Ordering::Release);
                if is_near {
                    generator.renew();
                }
            });
        }
    }

    fn renew(&self) {
        if !self.inner.is_renewing.swap(true, Ordering::AcqRel) {
            let (shared, inner) = (self.leaf.shared().clone(), self.inner.clone());
            self.leaf.spawn(keeper::renew(shared, inner));
        }
    }
}

fn extend(ids: &mut Vec<SnowflakeId>, taken: Taken) {
    let numbers = (taken.first..).take(taken.len as usize);
    ids.extend(numbers.map(SnowflakeId::new));
}

/// How long to sleep before the next try.
enum Pause {
    Clock(Duration),
    Lease(Instant),
}

/// A call that waits.
struct Wait<'a> {
    generator: &'a SnowflakeGenerator,
    since: Instant,
    limit: Duration,
    failures: u64,
}

impl<'a> Wait<'a> {
    fn new(generator: &'a SnowflakeGenerator, limit: Duration) -> Self {
        Wait {
            generator,
            since: Instant::now(),
            limit,
            failures: generator.inner.state.lock().failures,
        }
    }

    /// How to wait for what has stopped a draw, or the error that ends the wait.
    fn next(&mut self, stop: Stop) -> Result<Pause, Error> {
        let state = self.generator.inner.state.lock();
        if state.is_closed {
            return Err(Error::Closed);
        }
        let is_over = self.since.elapsed() >= self.limit;
        let behind = |us| Error::Clock(ClockError::Behind(Duration::from_micros(us)));
        match stop {
            Stop::ClockBehind { us } => Err(behind(us)),
            Stop::TimeUsedUp => Err(Error::TimeUsedUp),
            Stop::Wait { us } if is_over => Err(behind(us)),
            Stop::Wait { us } => Ok(Pause::Clock(Duration::from_micros(us).min(SLICE))),
            Stop::Ceiling if state.failures != self.failures => {
                Err(state.failure.clone().unwrap_or(Error::Closed))
            }
            Stop::Ceiling if is_over => Err(match &state.lease {
                Some(_) => Error::LeaseLost(state.last_error.clone().unwrap_or_default()),
                None => Error::Timeout {
                    after: self.limit,
                    last: state.last_error.clone(),
                },
            }),
            Stop::Ceiling => {
                let end = self.since + self.limit;
                Ok(Pause::Lease(end.min(Instant::now() + SLICE)))
            }
        }
    }
}

impl Inner {
    fn wait(&self, until: Instant) {
        let mut state = self.state.lock();
        if !self.has_room() {
            self.changed.wait_until(&mut state, until);
        }
    }

    #[cfg(feature = "async")]
    async fn wait_async(&self, until: Instant) {
        let mut notified = std::pin::pin!(self.notify.notified());
        notified.as_mut().enable();
        if !self.has_room() {
            let _ = tokio::time::timeout_at(until.into(), notified).await;
        }
    }

    fn has_room(&self) -> bool {
        self.scheme.get().is_some_and(|scheme| {
            let now = scheme.since_epoch(unix_us());
            self.generator.has_room(&scheme.layout, now)
        })
    }

    fn wake(&self) {
        self.changed.notify_all();
        self.notify.notify_waiters();
    }
}

/// This machine's clock, in microseconds since 1970.
fn unix_us() -> i64 {
    to_unix_us(SystemTime::now())
}

/// What the generator gets from outside.
struct Clock<'a>(&'a Scheme, &'a ClockRules);

impl Environment for Clock<'_> {
    #[inline]
    fn now(&self) -> u64 {
        self.0.since_epoch(unix_us())
    }

    fn clock_rules(&self) -> ClockRules {
        *self.1
    }

    fn random(&self) -> u64 {
        fastrand::u64(..)
    }
}
