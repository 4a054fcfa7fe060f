//! The generator, from which callers draw snowflake ids.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, SystemTime};

use leaf_core::snowflake::generator::{Stop, TickIds};

use super::cache::Place;
use super::config::SnowflakeConfig;
use super::keeper;
use super::lease::Holding;
use super::node::Node;
use super::stats::SnowflakeStats;
use crate::background::{Awaited, Background};
use crate::calls::Decoded;
use crate::draw::{Draw, id_source};
use crate::events::TARGET;
use crate::gate::{Gate, Wait};
use crate::link::Link;
use crate::process::Process;
use crate::time::system_time;
use crate::{Error, SnowflakeId};

/// Snowflake ids at memory speed: made without a call to the server, and unique
/// within the registry whatever the clock does.
///
/// The worker id is leased from `leaf.worker`, and the lease is renewed in the
/// background. If it cannot be renewed, ids are issued up to the ceiling in the
/// registry, and no further. With a [cache](SnowflakeConfig::cache), the lease
/// survives a restart of the service. Cheap to clone; may be used by any number of threads at
/// once. The methods that draw are those of [`IdSource`](crate::IdSource); they wait for the
/// next tick, for a lease, and for the clock as configured.
///
/// ```no_run
/// # fn main() -> Result<(), leaf_sdk::Error> {
/// use leaf_sdk::{Config, IdSource, Leaf, SnowflakeConfig};
///
/// let leaf = Leaf::new(Config::new("host=db user=shop")?)?;
/// let ids = leaf.snowflake(SnowflakeConfig::new("checkout-7"))?;
/// let id = ids.next()?;
/// # let _ = id; Ok(()) }
/// ```
#[derive(Clone)]
pub struct SnowflakeGenerator {
    process: Process,
    node: Arc<Node>,
    background: Arc<Background>,
    _in_use: Arc<InUse>,
}

/// Shared by the clones of a generator: when the last one is dropped, nobody draws any more.
struct InUse {
    node: Arc<Node>,
    background: Arc<Background>,
}

impl Drop for InUse {
    /// Releases the worker id, unless the cache keeps it for the next start.
    fn drop(&mut self) {
        if self.background.process.is_current() && self.node.cache.is_none() {
            let release = keeper::release(self.background.link.clone(), self.node.clone());
            self.background.spawn(async move {
                if let Err(error) = release.await {
                    tracing::debug!(target: TARGET, %error, "a worker id was not released");
                }
            });
        }
    }
}

impl fmt::Debug for SnowflakeGenerator {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut generator = f.debug_struct("SnowflakeGenerator");
        generator
            .field("config", &self.node.config)
            .finish_non_exhaustive()
    }
}

impl SnowflakeGenerator {
    /// Asks the registry for the lease in the cache, if there is one.
    pub(crate) fn new(config: SnowflakeConfig, background: Arc<Background>) -> Result<Self, Error> {
        let place = Place::of(&background.link.config);
        let node = Arc::new(Node::new(config, place)?);
        let has_cached = node.load_cache();
        let generator = SnowflakeGenerator {
            process: background.process.clone(),
            node: node.clone(),
            background: background.clone(),
            _in_use: Arc::new(InUse { node, background }),
        };
        if has_cached {
            generator.keep_ahead();
        }
        Ok(generator)
    }

    /// The worker id in the ids, once there is a lease.
    pub fn worker_id(&self) -> Option<i32> {
        // In a child of the process, a thread of the parent may hold the lock.
        self.process.check().ok()?;
        let state = self.node.gate.lock();
        state
            .guarded
            .lease
            .as_ref()
            .map(|lease| lease.held.terms.worker_id)
    }

    /// The fields of an id of this registry; `None` before the first lease, and for a number
    /// that is no id of its layout.
    pub fn decode(&self, id: SnowflakeId) -> Option<Decoded> {
        let fields = self.node.scheme.get()?.decode(id.get())?;
        Some(Decoded {
            created_at: system_time(fields.created_at),
            worker_id: fields.worker_id as i32,
            sequence: fields.sequence as i32,
        })
    }

    /// When an id was made, if it is one of this registry; `None` before the
    /// first lease.
    pub fn created_at(&self, id: SnowflakeId) -> Option<SystemTime> {
        self.decode(id).map(|fields| fields.created_at)
    }

    /// Statistics of the generator.
    pub fn stats(&self) -> SnowflakeStats {
        if let Err(error) = self.process.check() {
            return SnowflakeStats::unavailable(&error);
        }
        let lease = self.node.gate.lock().guarded.lease.clone();
        let tally = self.node.gate.tally();
        SnowflakeStats {
            worker_id: lease.as_ref().map(|lease| lease.held.terms.worker_id),
            ceiling: lease.map(|lease| system_time(lease.held.terms.ceiling)),
            renewals: tally.successes,
            rollbacks: self.node.generator.rollbacks(),
            waits: tally.waits,
            longest_wait: tally.longest_wait,
            last_error: tally.last_error,
        }
    }

    /// Closes the generator and releases its worker id, which others can use from the
    /// time of the last id on. Calls that are waiting, and all later ones, fail with
    /// [`Error::Closed`]. A lease that cannot be released expires; if it is cached, the
    /// next start continues with it.
    ///
    /// # Errors
    /// The reason why the lease could not be released; [`Error::WouldBlockRuntime`]
    /// inside an async runtime.
    pub fn close(&self) -> Result<(), Error> {
        self.background.finish(self.release())
    }

    /// Like [`close`](Self::close), asynchronous.
    #[cfg(feature = "async")]
    pub async fn close_async(&self) -> Result<(), Error> {
        self.background.finish_async(self.release()).await
    }

    fn release(&self) -> impl Awaited + use<> {
        keeper::release(self.background.link.clone(), self.node.clone())
    }

    pub(crate) fn downgrade(&self) -> WeakGenerator {
        WeakGenerator(Arc::downgrade(&self.node))
    }

    #[inline]
    fn take_up_to(&self, count: u64) -> Result<TickIds, Stop> {
        let taken = self.node.take(count)?;
        if taken.due && self.node.should_ask() {
            self.keep_ahead();
        }
        Ok(taken.ids)
    }

    /// Starts raising the ceiling, unless that is under way.
    #[cold]
    fn keep_ahead(&self) {
        if !self.node.is_raising.swap(true, Ordering::AcqRel) {
            let (link, node) = (self.background.link.clone(), self.node.clone());
            self.background.spawn(keeper::keep_ahead(link, node));
        }
    }
}

/// A generator that this does not keep alive.
#[derive(Clone)]
pub(crate) struct WeakGenerator(Weak<Node>);

impl WeakGenerator {
    pub(crate) fn is_alive(&self) -> bool {
        self.0.strong_count() > 0
    }

    /// The node, if it has no lease that is in force, and the last attempt to get one failed; and
    /// the panic that ended that attempt.
    pub(crate) fn starving(&self) -> Option<(String, Option<String>)> {
        let node = self.0.upgrade()?;
        let (has_failed, panic) = {
            let state = node.gate.lock();
            (state.has_failed(), state.panic())
        };
        (has_failed && !node.has_room()).then(|| (node.config.node.clone(), panic))
    }

    /// Drops the lease of the generator, if it is still there.
    pub(crate) fn forget(&self) -> Result<(), Error> {
        self.0.upgrade().map_or(Ok(()), |node| node.forget())
    }

    /// Asks the registry whether it still has the lease, if there is one.
    pub(crate) async fn confirm(self, link: Arc<Link>) {
        if let Some(node) = self.0.upgrade() {
            keeper::confirm(link, node).await;
        }
    }

    /// Closes the generator, if it is still there, and releases its worker id.
    pub(crate) async fn release(self, link: Arc<Link>) -> Result<(), Error> {
        match self.0.upgrade() {
            Some(node) => keeper::release(link, node).await,
            None => Ok(()),
        }
    }
}

impl Draw for SnowflakeGenerator {
    type Id = SnowflakeId;
    type Stop = Stop;
    type Guarded = Holding;

    const MISSING: Stop = Stop::Ceiling;

    fn process(&self) -> &Process {
        &self.process
    }

    fn gate(&self) -> &Gate<Holding> {
        &self.node.gate
    }

    fn timeout(&self) -> Duration {
        self.background.link.config.timeout
    }

    #[inline]
    fn take(&self) -> Result<SnowflakeId, Stop> {
        let taken = self.take_up_to(1)?;
        Ok(SnowflakeId::new(taken.first()))
    }

    fn take_some(&self, count: usize, ids: &mut Vec<SnowflakeId>) -> Result<(), Stop> {
        ids.extend(self.take_up_to(count as u64)?.map(SnowflakeId::new));
        Ok(())
    }

    /// The background task raises ceilings; time passes without it.
    fn ask(&self, stop: Stop) {
        if stop == Stop::Ceiling {
            self.keep_ahead();
        }
    }

    fn is_ready(&self, _stop: Stop) -> bool {
        self.node.has_room()
    }

    fn pause(&self, wait: &Wait<'_>, stop: Stop) -> Result<Option<Duration>, Error> {
        self.node.pause(wait, stop)
    }

    /// A lease that could not be renewed in time is lost.
    fn in_vain(&self, error: Error) -> Error {
        let has_lease = || self.node.gate.lock().guarded.lease.is_some();
        match error {
            Error::Timeout { last, .. } if has_lease() => {
                Error::LeaseLost(last.unwrap_or_else(|| "the registry has not answered".into()))
            }
            error => error,
        }
    }
}

id_source!([] SnowflakeGenerator, SnowflakeId);
