//! A tag's ids, as callers draw them.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use super::refill::{hand_back, refill};
use super::tag::{Blocks, Tag, TagStats};
use super::tags::Tags;
use crate::background::{Awaited, Background};
use crate::draw::{Draw, id_source};
use crate::gate::Gate;
use crate::link::Session;
use crate::process::Process;
use crate::{Error, IdType, SegmentId};

/// The ids of one tag, from [`Leaf::segment`](crate::Leaf::segment).
///
/// Ids come from two buffers in memory; the next one is fetched in the background
/// before the current one is used up. Ids ascend and are unique. Cheap to clone; may be used
/// by any number of threads at once. The methods that draw are those of
/// [`IdSource`](crate::IdSource).
///
/// ```no_run
/// # fn main() -> Result<(), leaf_sdk::Error> {
/// use leaf_sdk::{Config, IdSource, Leaf};
///
/// let orders = Leaf::new(Config::new("host=db user=shop")?)?.segment("orders");
/// let id = orders.next()?;
/// # let _ = id; Ok(()) }
/// ```
#[derive(Clone)]
pub struct SegmentSource<I = SegmentId> {
    /// A copy of the background's, which is near when an id is drawn.
    process: Process,
    tag: Arc<Tag>,
    /// They are looked after as long as there is a source.
    tags: Arc<Tags>,
    background: Arc<Background>,
    kind: PhantomData<fn() -> I>,
}

impl<I> fmt::Debug for SegmentSource<I> {
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
            kind: PhantomData,
        }
    }
}

impl<I: IdType> SegmentSource<I> {
    /// The same source with a type of its own for its ids, made with
    /// [`id_type!`](crate::id_type): the id of an order is then not taken for that of
    /// something else.
    ///
    /// ```no_run
    /// # fn example(leaf: &leaf_sdk::Leaf) -> Result<(), leaf_sdk::Error> {
    /// use leaf_sdk::{IdSource, SegmentSource};
    ///
    /// leaf_sdk::id_type! {
    ///     /// The id of an order.
    ///     pub struct OrderId;
    /// }
    ///
    /// let orders: SegmentSource<OrderId> = leaf.segment("orders").typed();
    /// let id: OrderId = orders.next()?;
    /// # let _ = id; Ok(()) }
    /// ```
    pub fn typed<J: IdType>(self) -> SegmentSource<J> {
        SegmentSource {
            process: self.process,
            tag: self.tag,
            tags: self.tags,
            background: self.background,
            kind: PhantomData,
        }
    }

    /// Closes the tag in this process and returns its unused ids to the server, unless it
    /// has granted ids above them since. All sources of the tag are closed. A source that
    /// [`Leaf::segment`](crate::Leaf::segment) creates later begins anew.
    ///
    /// # Errors
    /// As [`Leaf::close`](crate::Leaf::close).
    pub fn close(&self) -> Result<(), Error> {
        self.background.finish(self.hand_back())
    }

    /// Like [`close`](Self::close), asynchronous.
    #[cfg(feature = "async")]
    pub async fn close_async(&self) -> Result<(), Error> {
        self.background.finish_async(self.hand_back()).await
    }

    fn hand_back(&self) -> impl Awaited + use<I> {
        let (link, tag) = (self.background.link.clone(), self.tag.clone());
        let tags = self.tags.clone();
        async move {
            tags.remove(&tag);
            hand_back(link, vec![tag]).await
        }
    }

    /// Statistics of the tag in this process.
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
            let (link, tags) = (self.background.link.clone(), Arc::downgrade(&self.tags));
            self.background.spawn(refill(link, tag, tags));
        }
    }
}

/// There are fewer ids at hand than this.
#[derive(Clone, Copy)]
pub(crate) struct Short(u64);

impl<I: IdType> Draw for SegmentSource<I> {
    type Id = I;
    type Stop = Short;
    type Guarded = Blocks<Session>;

    const MISSING: Short = Short(1);

    fn process(&self) -> &Process {
        &self.process
    }

    fn gate(&self) -> &Gate<Blocks<Session>> {
        &self.tag.gate
    }

    fn timeout(&self) -> Duration {
        self.background.link.config.timeout
    }

    #[inline]
    fn take(&self) -> Result<I, Short> {
        let drawn = self.tag.buffer.draw().ok_or(Short(1))?;
        if drawn.due {
            self.refill();
        }
        Ok(I::from(drawn.id))
    }

    fn take_some(&self, count: usize, ids: &mut Vec<I>) -> Result<(), Short> {
        let taken = self.tag.take(count as u64).ok_or(Short(count as u64))?;
        if taken.due {
            self.refill();
        }
        for run in taken.runs {
            let numbers = (run.first..).take(run.len as usize);
            ids.extend(numbers.map(I::from));
        }
        Ok(())
    }

    fn ask(&self, Short(count): Short) {
        self.tag.want(count);
        self.refill();
    }

    fn is_ready(&self, Short(count): Short) -> bool {
        match count {
            1 => self.tag.buffer.has_ids(),
            _ => self.tag.at_hand() >= count,
        }
    }
}

id_source!([I: IdType] SegmentSource<I>, I);
