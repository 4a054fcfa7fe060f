//! The handle: one connection, one background thread, any number of sources.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::background::{Awaited, Background};
use crate::segment::{SegmentSource, Tag, TagStats, Tags, hand_back, look_after};
use crate::snowflake::{SnowflakeConfig, SnowflakeGenerator, WeakGenerator};
use crate::{Config, Error, Health, IdSource};

/// Ids at memory speed, buffered in this process and refilled in the background.
///
/// Cheap to clone: all clones share the buffers, the connections, and the background
/// thread that uses them. A connection is made when ids are first requested. When
/// the last clone and the last source are dropped, the thread ends and unused ids
/// are lost; [`close`](Leaf::close) returns them to the server.
///
/// A handle belongs to the process that created it. In a child made by `fork`, all calls
/// fail with [`Error::Forked`]; create another handle there.
///
/// ```no_run
/// # fn main() -> Result<(), leaf_sdk::Error> {
/// use leaf_sdk::{Config, IdSource, Leaf};
///
/// let leaf = Leaf::new(Config::new("host=db user=shop")?)?;
/// let orders = leaf.segment("orders");
/// let id = orders.next()?;
/// # let _ = id; Ok(()) }
/// ```
#[derive(Clone)]
pub struct Leaf {
    background: Arc<Background>,
    tags: Arc<Tags>,
    generators: Arc<Mutex<Vec<WeakGenerator>>>,
}

impl fmt::Debug for Leaf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut leaf = f.debug_struct("Leaf");
        leaf.field("config", &self.background.link.config)
            .finish_non_exhaustive()
    }
}

impl Leaf {
    /// A handle that connects when ids are first requested.
    ///
    /// # Errors
    /// [`Error::Config`] if the configuration contradicts itself,
    /// [`Error::Runtime`] if the thread cannot be started.
    ///
    /// ```
    /// # fn main() -> Result<(), leaf_sdk::Error> {
    /// let leaf = leaf_sdk::Leaf::new(leaf_sdk::Config::new("host=db user=shop")?)?;
    /// # let _ = leaf; Ok(()) }
    /// ```
    pub fn new(config: Config) -> Result<Leaf, Error> {
        config.check()?;
        let background = Arc::new(Background::start(config)?);
        let tags: Arc<Tags> = Arc::default();
        background.spawn(look_after(background.link.clone(), Arc::downgrade(&tags)));
        let generators: Arc<Mutex<Vec<WeakGenerator>>> = Arc::default();
        let (link, of_handle) = (background.link.clone(), generators.clone());
        background.spawn(async move {
            loop {
                link.moved().await;
                // It may be another registry that answers there.
                for generator in of_handle.lock().iter().cloned() {
                    tokio::spawn(generator.confirm(link.clone()));
                }
            }
        });
        Ok(Leaf {
            background,
            tags,
            generators,
        })
    }

    /// The source of a tag's ids. All sources of a tag share its buffers. If there is
    /// no such tag, the first call that needs an id fails.
    pub fn segment(&self, tag: &str) -> SegmentSource {
        let tag = match self.is_of_this_process() {
            true => self.tags.get(tag),
            // A thread of the parent may have held the lock.
            false => Arc::new(Tag::closed(tag)),
        };
        SegmentSource::new(tag, &self.tags, self.background.clone())
    }

    /// A generator of snowflake ids. It leases a worker id when ids are first
    /// requested, and releases it when the last clone is dropped, unless a
    /// [cache](SnowflakeConfig::cache) keeps it for the next start. So keep a generator as long as
    /// ids are drawn. The process must not end before the release: see [`close`](Leaf::close).
    ///
    /// # Errors
    /// [`Error::Cache`] if the cache file cannot be used, for example because another
    /// process uses it. [`Error::Config`] if a value is out of its range. [`Error::Closed`] after [`close`](Leaf::close).
    ///
    /// ```
    /// # fn main() -> Result<(), leaf_sdk::Error> {
    /// use leaf_sdk::{Config, Leaf, SnowflakeConfig};
    ///
    /// let leaf = Leaf::new(Config::new("host=db user=shop")?)?;
    /// let events = leaf.snowflake(SnowflakeConfig::new("checkout-7"))?;
    /// # let _ = events; Ok(()) }
    /// ```
    pub fn snowflake(&self, config: SnowflakeConfig) -> Result<SnowflakeGenerator, Error> {
        self.background.process.check()?;
        let mut generators = self.generators.lock();
        if self.tags.is_closed() {
            return Err(Error::Closed);
        }
        let generator = SnowflakeGenerator::new(config, self.background.clone())?;
        generators.retain(WeakGenerator::is_alive);
        generators.push(generator.downgrade());
        Ok(generator)
    }

    /// Statistics of each tag in this process, by name.
    pub fn stats(&self) -> HashMap<String, TagStats> {
        if !self.is_of_this_process() {
            return HashMap::new();
        }
        let tags = self.tags.all();
        tags.iter()
            .map(|tag| (tag.name.clone(), tag.stats()))
            .collect()
    }

    /// Whether calls get ids, and whether the server answers.
    pub fn health(&self) -> Health {
        if !self.is_of_this_process() {
            return Health {
                is_reachable: None,
                last_error: None,
                starving: Vec::new(),
                is_closed: true,
            };
        }
        let reached = self.background.link.reached();
        let mut tags = self.tags.all();
        tags.retain(|tag| tag.is_starving());
        let nodes: Vec<_> = self.generators.lock().clone();
        let nodes: Vec<_> = nodes.iter().filter_map(WeakGenerator::starving).collect();
        let panics = tags.iter().map(|tag| tag.gate.lock().panic());
        let panics = panics.chain(nodes.iter().map(|(_, panic)| panic.clone()));
        let panic = panics.flatten().next();
        let starving = tags.iter().map(|tag| tag.name.clone());
        let starving = starving.chain(nodes.into_iter().map(|(node, _)| node));
        let starving = starving.collect();
        Health {
            is_reachable: reached.as_ref().map(Result::is_ok),
            last_error: reached.and_then(Result::err).or(panic),
            starving,
            is_closed: self.tags.is_closed(),
        }
    }

    /// Connects now, unless there is a connection, instead of when ids are first requested:
    /// for the start of a service that does not know yet which tags it needs.
    ///
    /// # Errors
    /// [`Error::Connection`] if the server cannot be reached, [`Error::Timeout`] if it does not
    /// answer within the configured timeout, [`Error::WouldBlockRuntime`] inside an async runtime,
    /// [`Error::Closed`] after [`close`](Leaf::close).
    pub fn connect(&self) -> Result<(), Error> {
        self.background.finish(self.reach())
    }

    /// Like [`connect`](Leaf::connect), asynchronous.
    #[cfg(feature = "async")]
    pub async fn connect_async(&self) -> Result<(), Error> {
        self.background.finish_async(self.reach()).await
    }

    fn reach(&self) -> impl Awaited + use<> {
        let (link, is_closed) = (self.background.link.clone(), self.tags.is_closed());
        async move {
            match is_closed {
                true => Err(Error::Closed),
                false => link.reach().await,
            }
        }
    }

    /// Fetches ids of these tags, all at once, and waits until they are at hand, up to the
    /// configured timeout: for the start of a service.
    ///
    /// # Errors
    /// The errors of [`IdSource::ready`], of the first tag that has no ids.
    pub fn prefill(&self, tags: &[&str]) -> Result<(), Error> {
        let sources = self.requested(tags);
        sources.iter().try_for_each(IdSource::ready)
    }

    /// Like [`prefill`](Leaf::prefill), asynchronous.
    #[cfg(feature = "async")]
    pub async fn prefill_async(&self, tags: &[&str]) -> Result<(), Error> {
        for source in self.requested(tags) {
            source.ready_async().await?;
        }
        Ok(())
    }

    /// Sources of these tags, whose ids have been requested.
    fn requested(&self, tags: &[&str]) -> Vec<SegmentSource> {
        let sources: Vec<_> = tags.iter().map(|tag| self.segment(tag)).collect();
        sources.iter().for_each(SegmentSource::request);
        sources
    }

    /// Drops all ids and leases that this process has in its memory, and those on their way: for
    /// the hooks of a snapshot of the running process (of its virtual machine, or by CRIU), whose
    /// copies have the same memory. Nothing is returned to the server, and later calls fetch
    /// other ids and lease other worker ids. Call it before the snapshot, while nobody draws, or in
    /// each copy before anybody draws.
    ///
    /// # Errors
    /// [`Error::Cache`] if the lease in a cache file could not be ended. [`Error::Forked`].
    pub fn forget(&self) -> Result<(), Error> {
        self.background.process.check()?;
        for tag in self.tags.all() {
            tag.forget();
        }
        // A copy's connections lead nowhere.
        self.background.link.disconnect();
        let generators = self.generators.lock();
        let forgotten = generators.iter().map(WeakGenerator::forget);
        forgotten.fold(Ok(()), Result::and)
    }

    /// Closes all sources: returns their unused ids to the server, unless it has granted
    /// ids above them since, releases the worker ids of the generators, and closes the
    /// connections: the one call with which a service shuts down. Calls that
    /// are waiting, and all later ones, fail with [`Error::Closed`], also those of
    /// sources that are created later.
    ///
    /// # Errors
    /// [`Error::Timeout`] if the server does not answer within the configured
    /// timeout, [`Error::Connection`] if it cannot be reached; the ids are then lost.
    /// [`Error::WouldBlockRuntime`] inside an async runtime.
    pub fn close(&self) -> Result<(), Error> {
        self.background.finish(self.close_all())
    }

    /// Like [`close`](Leaf::close), asynchronous.
    #[cfg(feature = "async")]
    pub async fn close_async(&self) -> Result<(), Error> {
        self.background.finish_async(self.close_all()).await
    }

    /// Whether this process created the handle, and not one that it was forked from.
    pub(crate) fn is_of_this_process(&self) -> bool {
        self.background.process.is_current()
    }

    /// Whether its connections are sought there.
    pub(crate) fn is_of(&self, hosts: &[String], database: &str) -> bool {
        let config = &self.background.link.config;
        config.hosts() == hosts && config.dbname() == database
    }

    fn close_all(&self) -> impl Awaited + use<> {
        let link = self.background.link.clone();
        let generators = self.generators.clone();
        let tags = self.tags.clone();
        async move {
            // All at once: one that has to wait delays no other.
            let mut closing = JoinSet::new();
            let (tags, generators) = {
                let generators = generators.lock();
                (tags.close(), generators.clone())
            };
            let of_tags = link.clone();
            closing.spawn(hand_back(of_tags, tags));
            for generator in generators {
                closing.spawn(generator.release(link.clone()));
            }
            let mut result = Ok(());
            while let Some(closed) = closing.join_next().await {
                result = closed.unwrap_or(Err(Error::Closed)).and(result);
            }
            link.disconnect();
            result
        }
    }
}
