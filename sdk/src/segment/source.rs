//! A tag's ids, as callers draw them.

use std::sync::Arc;
use std::time::Duration;

use super::refill::refill;
use super::tag::{Tag, TagStats};
use crate::background::{Background, forbid_blocking_a_runtime};
use crate::gate::Wait;
use crate::{Error, SegmentId};

/// The ids of one tag, from [`Leaf::segment`](crate::Leaf::segment).
///
/// Ids come from two buffers in memory; the next one is fetched in the
/// background before the present one is used up. They ascend, and nobody else
/// gets them. Cheap to clone; may be used by any number of threads at once.
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
    tag: Arc<Tag>,
    background: Arc<Background>,
}

impl SegmentSource {
    pub(crate) fn new(tag: Arc<Tag>, background: Arc<Background>) -> Self {
        SegmentSource { tag, background }
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
        let drawn = self.draw();
        if drawn.is_none() {
            self.refill();
        }
        drawn
    }

    /// The next id. Waits where none is at hand, up to the configured timeout.
    ///
    /// # Errors
    /// What keeps the server from giving ids; [`Error::Timeout`] where that may
    /// pass. [`Error::WouldBlockRuntime`] where it would have to wait inside an
    /// async runtime.
    ///
    /// ```no_run
    /// # fn example(orders: &leaf_sdk::SegmentSource) -> Result<(), leaf_sdk::Error> {
    /// let id = orders.next()?;
    /// # let _ = id; Ok(()) }
    /// ```
    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&self) -> Result<SegmentId, Error> {
        match self.draw() {
            Some(id) => Ok(id),
            None => self.next_timeout(self.background.link.config.timeout),
        }
    }

    /// As [`next`](Self::next), with a timeout of its own.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # fn example(orders: &leaf_sdk::SegmentSource) -> Result<(), leaf_sdk::Error> {
    /// let id = orders.next_timeout(Duration::from_millis(50))?;
    /// # let _ = id; Ok(()) }
    /// ```
    pub fn next_timeout(&self, timeout: Duration) -> Result<SegmentId, Error> {
        let mut wait = None;
        loop {
            if let Some(id) = self.draw() {
                self.waited(wait);
                return Ok(id);
            }
            self.wait(&mut wait, timeout)?;
        }
    }

    /// `count` ids, ascending. Waits as [`next`](Self::next) does, for each
    /// buffer anew.
    ///
    /// ```no_run
    /// # fn example(orders: &leaf_sdk::SegmentSource) -> Result<(), leaf_sdk::Error> {
    /// let ids = orders.next_n(500)?;
    /// # let _ = ids; Ok(()) }
    /// ```
    pub fn next_n(&self, count: usize) -> Result<Vec<SegmentId>, Error> {
        let mut ids = Vec::with_capacity(count);
        let timeout = self.background.link.config.timeout;
        let mut wait = None;
        while ids.len() < count {
            match self.take_some(&mut ids, count) {
                true => self.waited(wait.take()),
                false => self.wait(&mut wait, timeout)?,
            }
        }
        Ok(ids)
    }

    /// As [`next`](Self::next), for a task.
    ///
    /// ```no_run
    /// # async fn example(orders: &leaf_sdk::SegmentSource) -> Result<(), leaf_sdk::Error> {
    /// let id = orders.next_async().await?;
    /// # let _ = id; Ok(()) }
    /// ```
    #[cfg(feature = "async")]
    pub async fn next_async(&self) -> Result<SegmentId, Error> {
        match self.draw() {
            Some(id) => Ok(id),
            None => {
                let timeout = self.background.link.config.timeout;
                self.next_timeout_async(timeout).await
            }
        }
    }

    /// As [`next_timeout`](Self::next_timeout), for a task.
    ///
    /// ```no_run
    /// # use std::time::Duration;
    /// # async fn example(orders: &leaf_sdk::SegmentSource) -> Result<(), leaf_sdk::Error> {
    /// let id = orders.next_timeout_async(Duration::from_millis(50)).await?;
    /// # let _ = id; Ok(()) }
    /// ```
    #[cfg(feature = "async")]
    pub async fn next_timeout_async(&self, timeout: Duration) -> Result<SegmentId, Error> {
        let mut wait = None;
        loop {
            if let Some(id) = self.draw() {
                self.waited(wait);
                return Ok(id);
            }
            self.wait_async(&mut wait, timeout).await?;
        }
    }

    /// As [`next_n`](Self::next_n), for a task.
    ///
    /// ```no_run
    /// # async fn example(orders: &leaf_sdk::SegmentSource) -> Result<(), leaf_sdk::Error> {
    /// let ids = orders.next_n_async(500).await?;
    /// # let _ = ids; Ok(()) }
    /// ```
    #[cfg(feature = "async")]
    pub async fn next_n_async(&self, count: usize) -> Result<Vec<SegmentId>, Error> {
        let mut ids = Vec::with_capacity(count);
        let timeout = self.background.link.config.timeout;
        let mut wait = None;
        while ids.len() < count {
            match self.take_some(&mut ids, count) {
                true => self.waited(wait.take()),
                false => self.wait_async(&mut wait, timeout).await?,
            }
        }
        Ok(ids)
    }

    /// How the tag fares in this process.
    ///
    /// ```no_run
    /// # fn example(orders: &leaf_sdk::SegmentSource) {
    /// if orders.stats().waits > 0 {
    ///     println!("a longer buffer_duration would save waits");
    /// }
    /// # }
    /// ```
    pub fn stats(&self) -> TagStats {
        self.tag.stats()
    }

    /// An id that is at hand. Who finds none asks for more, but only after having
    /// begun to wait: what was asked for before says nothing to a wait.
    #[inline]
    fn draw(&self) -> Option<SegmentId> {
        let drawn = self.tag.buffer.draw();
        if drawn.is_some_and(|drawn| drawn.due) {
            self.refill();
        }
        drawn.map(|drawn| SegmentId::new(drawn.id))
    }

    /// As [`draw`](Self::draw), several; whether there were any.
    fn take_some(&self, ids: &mut Vec<SegmentId>, count: usize) -> bool {
        let wanted = (count - ids.len()) as u64;
        let drawn = self.tag.buffer.draw_many(wanted);
        if drawn.is_some_and(|drawn| drawn.due) {
            self.refill();
        }
        let runs = drawn.iter().flat_map(|drawn| drawn.runs.iter());
        ids.extend(
            runs.flat_map(|run| (run.first..).take(run.len as usize))
                .map(SegmentId::new),
        );
        drawn.is_some()
    }

    /// Has the next buffer fetched, unless that is under way.
    #[cold]
    fn refill(&self) {
        if self.tag.begin_refill() {
            let (link, tag) = (self.background.link.clone(), self.tag.clone());
            self.background.spawn(refill(link, tag));
        }
    }

    #[cold]
    fn wait(&self, wait: &mut Option<Wait>, limit: Duration) -> Result<(), Error> {
        let wait = wait.get_or_insert_with(|| self.tag.gate.begin_wait(limit));
        self.refill();
        forbid_blocking_a_runtime()?;
        self.tag.gate.sleep(wait, || self.tag.buffer.has_ids())
    }

    #[cfg(feature = "async")]
    async fn wait_async(&self, wait: &mut Option<Wait>, limit: Duration) -> Result<(), Error> {
        let wait = wait.get_or_insert_with(|| self.tag.gate.begin_wait(limit));
        self.refill();
        let is_ready = || self.tag.buffer.has_ids();
        self.tag.gate.sleep_async(wait, is_ready).await
    }

    /// There are ids: counts the wait for them, if there was one.
    #[inline]
    fn waited(&self, wait: Option<Wait>) {
        if let Some(wait) = wait {
            self.tag.gate.waited(&wait);
        }
    }
}
