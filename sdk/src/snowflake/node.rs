//! The lease in use, and the ids made with it.

use std::ops::RangeInclusive;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leaf_core::snowflake::generator::{Stop, Taken};
use leaf_core::snowflake::{Generator, Scheme};
use once_cell::sync::OnceCell;

use super::cache::{Cache, Place};
use super::clock::Clock;
use super::config::SnowflakeConfig;
use super::lease::Holding;
use crate::Error;
use crate::error::ClockError;
use crate::gate::{Gate, Wait};
use crate::meter::Meter;
use crate::time;

/// How far ahead a registry lets a node set its ceiling.
const LEASES: RangeInclusive<Duration> =
    Duration::from_millis(100)..=Duration::from_secs(24 * 60 * 60);

/// This process as a node of the registry; shared by callers and background tasks.
pub(super) struct Node {
    pub(super) config: SnowflakeConfig,
    pub(super) cache: Option<Cache>,
    pub(super) generator: Generator,
    /// The scheme of the first lease; a registry never changes it.
    pub(super) scheme: OnceCell<Scheme>,
    /// The lease, if there is one, and what precedes it.
    pub(super) gate: Gate<Holding>,
    /// Whether a renewal is under way: one at a time.
    pub(super) is_renewing: AtomicBool,
    /// Whether the registry has to be asked once more, although a renewal may be under way.
    pub(super) must_ask: AtomicBool,
    /// Whether the ceiling is being raised.
    pub(super) is_raising: AtomicBool,
    /// How often the lease was forgotten.
    pub(super) forgotten: AtomicU64,
    /// Held while the lease is being released.
    pub(super) releasing: tokio::sync::Mutex<()>,
    /// When a draw last found the ceiling due to be raised, in milliseconds since `began`.
    found_due: AtomicU64,
    began: Instant,
}

impl Node {
    /// A node without a lease.
    ///
    /// # Errors
    /// [`Error::Cache`] if the cache file cannot be locked. [`Error::Config`] if the registry would
    /// refuse the name or the lease.
    pub(super) fn new(config: SnowflakeConfig, place: Place) -> Result<Node, Error> {
        if !(1..=256).contains(&config.node.chars().count()) {
            let message = "the name of a node has 1 to 256 characters";
            return Err(Error::Config(message.to_owned()));
        }
        if !LEASES.contains(&config.lease) {
            let message = "a lease is from 100 ms to a day";
            return Err(Error::Config(message.to_owned()));
        }
        let cache = config.cache.as_deref();
        let cache = cache.map(|path| Cache::open(path, place)).transpose()?;
        let meter = Meter::of("snowflake", &config.node);
        Ok(Node {
            config,
            cache,
            generator: Generator::new(),
            scheme: OnceCell::new(),
            gate: Gate::new(meter),
            is_renewing: AtomicBool::new(false),
            must_ask: AtomicBool::new(false),
            is_raising: AtomicBool::new(false),
            forgotten: AtomicU64::new(0),
            releasing: tokio::sync::Mutex::default(),
            found_due: AtomicU64::new(0),
            began: Instant::now(),
        })
    }

    /// Takes ids of one tick, up to `count`.
    #[inline]
    pub(super) fn take(&self, count: u64) -> Result<Taken, Stop> {
        let scheme = self.scheme.get().ok_or(Stop::Ceiling)?;
        let clock = Clock(scheme, &self.config.rules);
        self.generator.take(&scheme.layout, count, &clock)
    }

    /// Whether a draw that finds the ceiling due to be raised should ask for it: not each of
    /// them, but one every few milliseconds.
    pub(super) fn should_ask(&self) -> bool {
        let now = self.began.elapsed().as_millis() as u64;
        let before = self.found_due.load(Ordering::Relaxed);
        let should_ask = now >= before + 10 || before == 0;
        if should_ask {
            self.found_due.store(now, Ordering::Relaxed);
        }
        should_ask
    }

    /// How long to sleep until the clock has advanced; `None` if there is no lease, or
    /// its ceiling is reached: then that has to be raised.
    pub(super) fn pause(&self, wait: &Wait<'_>, stop: Stop) -> Result<Option<Duration>, Error> {
        if self.gate.lock().is_closed() {
            return Err(Error::Closed);
        }
        let behind = |us| Error::Clock(ClockError::Behind(Duration::from_micros(us)));
        match stop {
            Stop::ClockBehind { us } => Err(behind(us)),
            Stop::TimeUsedUp => Err(Error::TimeUsedUp),
            Stop::Wait { us } if wait.is_over() => Err(behind(us)),
            Stop::Wait { us } => Ok(Some(wait.pause(Duration::from_micros(us)))),
            Stop::Ceiling => Ok(None),
        }
    }

    /// Whether the next id lies below the ceiling.
    pub(super) fn has_room(&self) -> bool {
        self.scheme.get().is_some_and(|scheme| {
            let now = scheme.since_epoch(time::now());
            self.generator.has_room(&scheme.layout, now)
        })
    }
}
