//! A tag's ids, as callers draw them.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::refill::{hand_back, refill};
use super::tag::{Held, Tag, TagStats};
use super::tags::Tags;
use crate::background::{Awaited, Background};
use crate::draw::{self, Draw};
use crate::gate::Gate;
use crate::link::Session;
use crate::process::Process;
use crate::{Error, SegmentId};

/// The ids of one tag, from [`Leaf::segment`](crate::Leaf::segment).
///
/// Ids come from two buffers in memory; the next one is fetched in the background
/// before the current one is used up. Ids ascend and are unique. Cheap to clone; may be used by any number of threads at once.
///
/// ```no_run
/// # fn main() -> Result<(), leaf_sdk::Error> {
/// use leaf_sdk::{Config, Leaf};
///
/// let orders = Leaf::new(Config::new("host=db user=shop")?)?.segment("orders");
/// let id = orders.next()?;
/// # let _ = id; Ok(()) }
/// ```
#[derive(Clone)]
pub struct SegmentSource {
    /// A copy of the background's, which is near when an id is drawn.
    process: Process,
    tag: Arc<Tag>,
    /// They are looked after as long as there is a source.
    tags: Arc<Tags>,
    background: Arc<Background>,
}

impl fmt::Debug for SegmentSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut source = f.debug_struct("SegmentSource");
        source.field("tag", &self.tag.name).finish_non_exhaustive()
    }
}

impl SegmentSource {
    pub(crate) fn new(tag: Arc<Tag>, tags: &Arc<Tags>, background: Arc<Background>) -> Self {
        SegmentSource {
            process: background.process.clone(),
            tag,
            tags: tags.clone(),
            background,
        }
    }

    /// The next id, if one is at hand. Never waits.
    ///
    /// ```no_run
    /// # fn example(orders: &leaf_sdk::SegmentSource) {
    /// let Some(id) = orders.try_next() else { return };
    /// # let _ = id; }
    /// ```
    #[inline]
    pub fn try_next(&self) -> Option<SegmentId> {
        draw::try_next(self)
    }

    /// The next id. Waits if none is at hand, up to the configured timeout.
    ///
    /// # Errors
    /// The reason why the server does not grant ids; [`Error::Timeout`] if the reason
    /// may be temporary. [`Error::WouldBlockRuntime`] if the call would have to wait
    /// inside an async runtime.
    ///
    /// ```no_run
    /// # fn example(orders: &leaf_sdk::SegmentSource) -> Result<(), leaf_sdk::Error> {
    /// let id = orders.next()?;
    /// # let _ = id; Ok(()) }
    /// ```
    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&self) -> Result<SegmentId, Error> {
        draw::next(self)
    }

    /// Like [`next`](Self::next), with its own timeout.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn example(orders: &leaf_sdk::SegmentSource) -> Result<(), leaf_sdk::Error> {
    /// let id = orders.next_timeout(Duration::from_millis(50))?;
    /// # let _ = id; Ok(()) }
    /// ```
    pub fn next_timeout(&self, timeout: Duration) -> Result<SegmentId, Error> {
        draw::next_timeout(self, timeout)
    }

    /// `count` ids, ascending. Waits like [`next`](Self::next); the timeout applies to
    /// each wait.
    ///
    /// ```no_run
    /// # fn example(orders: &leaf_sdk::SegmentSource) -> Result<(), leaf_sdk::Error> {
    /// let ids = orders.next_n(500)?;
    /// # let _ = ids; Ok(()) }
    /// ```
    pub fn next_n(&self, count: usize) -> Result<Vec<SegmentId>, Error> {
        draw::next_n(self, count)
    }

    /// Like [`next`](Self::next), asynchronous.
    ///
    /// ```no_run
    /// # async fn example(orders: &leaf_sdk::SegmentSource) -> Result<(), leaf_sdk::Error> {
    /// let id = orders.next_async().await?;
    /// # let _ = id; Ok(()) }
    /// ```
    #[cfg(feature = "async")]
    pub async fn next_async(&self) -> Result<SegmentId, Error> {
        draw::next_async(self).await
    }

    /// Like [`next_timeout`](Self::next_timeout), asynchronous.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(orders: &leaf_sdk::SegmentSource) -> Result<(), leaf_sdk::Error> {
    /// let id = orders.next_timeout_async(Duration::from_millis(50)).await?;
    /// # let _ = id; Ok(()) }
    /// ```
    #[cfg(feature = "async")]
    pub async fn next_timeout_async(&self, timeout: Duration) -> Result<SegmentId, Error> {
        draw::next_timeout_async(self, timeout).await
    }

    /// Like [`next_n`](Self::next_n), asynchronous.
    ///
    /// ```no_run
    /// # async fn example(orders: &leaf_sdk::SegmentSource) -> Result<(), leaf_sdk::Error> {
    /// let ids = orders.next_n_async(500).await?;
    /// # let _ = ids; Ok(()) }
    /// ```
    #[cfg(feature = "async")]
    pub async fn next_n_async(&self, count: usize) -> Result<Vec<SegmentId>, Error> {
        draw::next_n_async(self, count).await
    }

    /// Waits until ids are at hand, up to the configured timeout: at the start of a
    /// service, or as its readiness probe. Takes no id.
    ///
    /// # Errors
    /// Those of [`next`](Self::next).
    ///
    /// ```no_run
    /// # fn example(orders: &leaf_sdk::SegmentSource) -> Result<(), leaf_sdk::Error> {
    /// orders.ready()?;
    /// # Ok(()) }
    /// ```
    pub fn ready(&self) -> Result<(), Error> {
        draw::ready(self)
    }

    /// Like [`ready`](Self::ready), asynchronous.
    ///
    /// ```no_run
    /// # async fn example(orders: &leaf_sdk::SegmentSource) -> Result<(), leaf_sdk::Error> {
    /// orders.ready_async().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "async")]
    pub async fn ready_async(&self) -> Result<(), Error> {
        draw::ready_async(self).await
    }

    /// Closes the tag in this process and returns its unused ids to the server, unless it
    /// has granted ids above them since. All sources of the tag are closed. A source that
    /// [`Leaf::segment`](crate::Leaf::segment) creates later begins anew.
    ///
    /// # Errors
    /// As [`Leaf::close`](crate::Leaf::close).
    ///
    /// ```no_run
    /// # fn example(orders: &leaf_sdk::SegmentSource) -> Result<(), leaf_sdk::Error> {
    /// orders.close()?;
    /// # Ok(()) }
    /// ```
    pub fn close(&self) -> Result<(), Error> {
        self.background.finish(self.hand_back())
    }

    /// Like [`close`](Self::close), asynchronous.
    ///
    /// ```no_run
    /// # async fn example(orders: &leaf_sdk::SegmentSource) -> Result<(), leaf_sdk::Error> {
    /// orders.close_async().await?;
    /// # Ok(()) }
    /// ```
    #[cfg(feature = "async")]
    pub async fn close_async(&self) -> Result<(), Error> {
        self.background.finish_async(self.hand_back()).await
    }

    fn hand_back(&self) -> impl Awaited + use<> {
        let (link, tag) = (self.background.link.clone(), self.tag.clone());
        let tags = self.tags.clone();
        async move {
            tags.remove(&tag);
            hand_back(&link, &tag).await
        }
    }

    /// Statistics of the tag in this process.
    ///
    /// ```no_run
    /// # fn example(orders: &leaf_sdk::SegmentSource) {
    /// if orders.stats().waits > 0 {
    ///     println!("a longer buffer_duration would avoid waits");
    /// }
    /// # }
    /// ```
    pub fn stats(&self) -> TagStats {
        match self.process.check() {
            Ok(()) => self.tag.stats(),
            // A thread of the parent may have held the locks.
            Err(error) => TagStats::unavailable(&error),
        }
    }

    /// Starts fetching ids if there are none.
    pub(crate) fn request(&self) {
        if self.process.is_current() && !self.tag.buffer.has_ids() {
            self.refill();
        }
    }

    /// Starts fetching the next buffer, unless that is under way.
    #[cold]
    fn refill(&self) {
        // Cloned first: a tag that is being refilled and has no other user is idle.
        let tag = self.tag.clone();
        if tag.begin_refill() {
            let link = self.background.link.clone();
            self.background.spawn(refill(link, tag));
        }
    }
}

/// The buffers are empty.
#[derive(Clone, Copy)]
pub(crate) struct Empty;

impl Draw for SegmentSource {
    type Id = SegmentId;
    type Stop = Empty;
    type Guarded = Held<Session>;

    const MISSING: Empty = Empty;

    fn process(&self) -> &Process {
        &self.process
    }

    fn gate(&self) -> &Gate<Held<Session>> {
        &self.tag.gate
    }

    fn timeout(&self) -> Duration {
        self.background.link.config.timeout
    }

    #[inline]
    fn take(&self) -> Result<SegmentId, Empty> {
        let drawn = self.tag.buffer.draw().ok_or(Empty)?;
        if drawn.due {
            self.refill();
        }
        Ok(SegmentId::new(drawn.id))
    }

    fn take_some(&self, count: usize, ids: &mut Vec<SegmentId>) -> Result<(), Empty> {
        let drawn = self.tag.buffer.draw_many(count as u64).ok_or(Empty)?;
        if drawn.due {
            self.refill();
        }
        for run in drawn.runs.iter() {
            let numbers = (run.first..).take(run.len as usize);
            ids.extend(numbers.map(SegmentId::new));
        }
        Ok(())
    }

    fn ask(&self, Empty: Empty) {
        self.refill();
    }

    fn is_ready(&self) -> bool {
        self.tag.buffer.has_ids()
    }
}
