//! The handle: one connection, one background thread, any number of sources.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::RwLock;

use crate::background::{Background, Last};
use crate::segment::{SegmentSource, Tag, TagStats, hand_back};
use crate::snowflake::{SnowflakeConfig, SnowflakeGenerator};
use crate::{Config, Error};

/// Ids at memory speed, buffered in this process and refilled in the background.
///
/// Cheap to clone: all clones share the buffers, one connection, and the background
/// thread that uses it. The connection is made when ids are first requested. When
/// the last clone and the last source are dropped, the thread ends and unused ids
/// are lost; [`close`](Leaf::close) returns them to the server.
///
/// ```no_run
/// # fn main() -> Result<(), leaf_sdk::Error> {
/// let leaf = leaf_sdk::Leaf::new(leaf_sdk::Config::new("host=db user=shop")?)?;
/// let orders = leaf.segment("orders");
/// let id = orders.next()?;
/// # let _ = id; Ok(()) }
/// ```
#[derive(Clone)]
pub struct Leaf {
    background: Arc<Background>,
    tags: Arc<RwLock<HashMap<String, Arc<Tag>>>>,
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
        Ok(Leaf {
            background: Arc::new(Background::start(config)?),
            tags: Arc::default(),
        })
    }

    /// The source of a tag's ids. All sources of a tag share its buffers. If there is
    /// no such tag, the first call that needs an id fails.
    ///
    /// ```
    /// # fn example(leaf: &leaf_sdk::Leaf) {
    /// let orders = leaf.segment("orders");
    /// # let _ = orders; }
    /// ```
    pub fn segment(&self, tag: &str) -> SegmentSource {
        SegmentSource::new(self.tag(tag), self.background.clone())
    }

    fn tag(&self, name: &str) -> Arc<Tag> {
        if let Some(tag) = self.tags.read().get(name) {
            return tag.clone();
        }
        let mut tags = self.tags.write();
        let new = || Arc::new(Tag::new(name));
        tags.entry(name.to_owned()).or_insert_with(new).clone()
    }

    /// A generator of snowflake ids. It leases a worker id when ids are first
    /// requested.
    ///
    /// # Errors
    /// [`Error::Cache`] if the cache file cannot be used, for example because another
    /// process uses it.
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
        SnowflakeGenerator::new(config, self.background.clone())
    }

    /// Statistics of each tag in this process, by name.
    ///
    /// ```
    /// # fn example(leaf: &leaf_sdk::Leaf) {
    /// for (tag, stats) in leaf.stats() {
    ///     println!("{tag}: {} ids at hand", stats.buffered);
    /// }
    /// # }
    /// ```
    pub fn stats(&self) -> HashMap<String, TagStats> {
        let tags = self.tags.read();
        tags.iter()
            .map(|(name, tag)| (name.clone(), tag.stats()))
            .collect()
    }

    /// Closes all segment sources and returns their unused ids to the server, unless
    /// it has granted ids above them since. Calls that are waiting, and all later
    /// ones, fail with [`Error::Closed`].
    ///
    /// # Errors
    /// [`Error::Timeout`] if the server does not answer within the configured
    /// timeout; the ids are then lost. [`Error::WouldBlockRuntime`] inside an async
    /// runtime.
    ///
    /// ```no_run
    /// # fn example(leaf: &leaf_sdk::Leaf) -> Result<(), leaf_sdk::Error> {
    /// leaf.close()?;
    /// # Ok(()) }
    /// ```
    pub fn close(&self) -> Result<(), Error> {
        self.background.finish(self.hand_all_back())
    }

    /// Like [`close`](Leaf::close), asynchronous.
    ///
    /// ```no_run
    /// # async fn example(leaf: &leaf_sdk::Leaf) -> Result<(), leaf_sdk::Error> {
    /// leaf.close_async().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "async")]
    pub async fn close_async(&self) -> Result<(), Error> {
        self.background.finish_async(self.hand_all_back()).await
    }

    fn hand_all_back(&self) -> impl Last + use<> {
        let link = self.background.link.clone();
        let tags: Vec<Arc<Tag>> = self.tags.read().values().cloned().collect();
        async move {
            let mut result = Ok(());
            for tag in tags {
                result = hand_back(&link, &tag).await.and(result);
            }
            result
        }
    }
}
