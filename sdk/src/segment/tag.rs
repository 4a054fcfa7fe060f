//! The two buffers of one tag.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leaf_core::DoubleBuffer;
use leaf_core::buffer::prefetch_after;

use crate::calls::Block;
use crate::gate::Gate;
use crate::link::Session;
use crate::{Config, Error, SegmentId};

/// A tag's ids in memory. Any thread may draw; publishing and closing take the gate's
/// lock.
pub(crate) struct Tag {
    pub(crate) name: String,
    pub(crate) buffer: DoubleBuffer,
    pub(crate) gate: Gate<Pace>,
    /// Whether a refill is under way: one at a time.
    is_refilling: AtomicBool,
}

/// What the size of the next buffer is computed from.
#[derive(Default)]
pub(crate) struct Pace {
    /// Ids in the last block; 0 before the first refill.
    step: u64,
    refilled_at: Option<Instant>,
    /// The last id of each of the last two blocks, and the session that reserved it,
    /// which is the only one that can return ids of it.
    reserved: VecDeque<(i64, Arc<Session>)>,
}

/// Ids to return to the server.
pub(crate) struct Rest {
    pub(crate) first: SegmentId,
    pub(crate) last: SegmentId,
    /// The session that reserved them.
    pub(crate) session: Arc<Session>,
}

/// Statistics of a tag in this process, from [`SegmentSource::stats`] and
/// [`Leaf::stats`].
///
/// ```no_run
/// # fn example(orders: &leaf_sdk::SegmentSource) {
/// let stats = orders.stats();
/// println!("{} ids at hand, {} waits", stats.buffered, stats.waits);
/// # }
/// ```
///
/// [`SegmentSource::stats`]: crate::SegmentSource::stats
/// [`Leaf::stats`]: crate::Leaf::stats
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TagStats {
    /// Ids at hand.
    pub buffered: u64,
    /// Buffers fetched.
    pub refills: u64,
    /// Calls that had to wait and then got ids.
    pub waits: u64,
    /// The longest such wait.
    pub longest_wait: Duration,
    /// Why the last failed refill failed.
    pub last_error: Option<String>,
}

impl Tag {
    pub(crate) fn new(name: &str) -> Self {
        Tag {
            name: name.to_owned(),
            buffer: DoubleBuffer::new(),
            gate: Gate::default(),
            is_refilling: AtomicBool::new(false),
        }
    }

    /// Whether another buffer should be fetched now.
    pub(crate) fn needs_ids(&self) -> bool {
        self.buffer.is_due() && self.buffer.has_room() && !self.gate.lock().is_closed()
    }

    /// How many ids to ask for.
    pub(crate) fn next_step(&self, config: &Config) -> u64 {
        let pace = &self.gate.lock().guarded;
        let lasted = pace.refilled_at.map_or(Duration::ZERO, |at| at.elapsed());
        config.steps.next_step(pace.step, config.min_step, lasted)
    }

    /// Makes a block drawable.
    pub(crate) fn publish(
        &self,
        block: &Block,
        session: Arc<Session>,
        config: &Config,
    ) -> Result<(), Error> {
        let (first, last) = (block.first.get(), block.last.get());
        let len = last
            .checked_sub(first)
            .and_then(|len| u64::try_from(len).ok());
        let Some(len) = len.map(|len| len + 1) else {
            return Err(Error::Protocol(format!("{block:?}")));
        };
        let prefetch_after = prefetch_after(len, config.prefetch_percent);
        let mut state = self.gate.lock();
        if state.is_closed() {
            return Ok(());
        }
        // There is room: refills begin only if there is, and one at a time.
        let published = self.buffer.publish(first, len, prefetch_after);
        published.map_err(|_| Error::Protocol("both buffers are full".into()))?;
        let pace = &mut state.guarded;
        pace.step = len;
        pace.refilled_at = Some(Instant::now());
        pace.reserved.push_back((last, session));
        if pace.reserved.len() > 2 {
            pace.reserved.pop_front();
        }
        state.succeeded();
        drop(state);
        self.gate.wake();
        Ok(())
    }

    /// Closes the tag; returns the ids that have not been drawn, the last ones first.
    pub(crate) fn close(&self) -> Vec<Rest> {
        let mut state = self.gate.lock();
        state.close();
        let rest = self.buffer.take_rest();
        let reserved = std::mem::take(&mut state.guarded.reserved);
        drop(state);
        self.gate.wake();
        let mut rest: Vec<Rest> = rest
            .iter()
            .filter_map(|run| {
                let last = run.first + (run.len - 1) as i64;
                let (_, session) = reserved.iter().find(|(end, _)| *end == last)?;
                Some(Rest {
                    first: SegmentId::new(run.first),
                    last: SegmentId::new(last),
                    session: session.clone(),
                })
            })
            .collect();
        rest.reverse();
        rest
    }

    pub(crate) fn stats(&self) -> TagStats {
        let levels = self.buffer.levels();
        let tally = self.gate.tally();
        TagStats {
            buffered: levels.current + levels.next,
            refills: tally.successes,
            waits: tally.waits,
            longest_wait: tally.longest_wait,
            last_error: tally.last_error,
        }
    }

    /// Whether the caller should fetch the next buffer, because no other caller is doing
    /// so.
    pub(crate) fn begin_refill(&self) -> bool {
        !self.is_refilling.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn end_refill(&self) {
        self.is_refilling.store(false, Ordering::Release);
    }
}
