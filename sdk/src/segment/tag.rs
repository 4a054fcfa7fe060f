//! The two buffers of one tag.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use leaf_core::DoubleBuffer;
use leaf_core::buffer::prefetch_after;
use leaf_core::run::Run;
use tokio::sync::Notify;

use crate::calls::{Block, Incarnation};
use crate::gate::Gate;
use crate::link::Session;
use crate::meter::Meter;
use crate::{Config, Error, SegmentId};

/// How much of a buffer is used before the next one is fetched, in percent.
const PREFETCH_PERCENT: u64 = 10;

/// A tag's ids in memory. Any thread may draw; publishing, discarding and closing take
/// the gate's lock. `S` is what reserves blocks. Aligned, so that the buffer shares no two lines that
/// hardware fetches together with anything else.
#[repr(align(128))]
pub(crate) struct Tag<S = Session> {
    pub(crate) name: String,
    pub(crate) buffer: DoubleBuffer,
    pub(crate) gate: Gate<Blocks<S>>,
    /// Ids in [`Blocks::spare`].
    spare: AtomicU64,
    /// The most ids that a call waits for at once; 0 since the last block came.
    wanted: AtomicU64,
    /// How often the ids were forgotten.
    forgotten: AtomicU64,
    /// Whether a refill is under way: one at a time.
    is_refilling: AtomicBool,
    /// Notified when the tag is closed, and when a refill ends.
    stirred: Notify,
}

/// The blocks in the buffers, and more that are there for a call that wants more ids than these have.
pub(crate) struct Blocks<S> {
    /// Above the buffers, ascending.
    spare: VecDeque<Run>,
    /// Ids in the last block; 0 before the first refill.
    step: u64,
    refilled_at: Option<Instant>,
    /// Of the tag when the blocks were reserved.
    incarnation: Option<Incarnation>,
    /// When the server last said that this is still the tag's incarnation.
    confirmed_at: Option<Instant>,
    /// The last id of each block that may have ids left, and the session that reserved it, which
    /// is the only one that can return ids of it.
    reserved: VecDeque<(i64, Arc<S>)>,
    /// How often in a row the server has refused to reserve a block.
    refusals: usize,
    /// How many tickets had been drawn when that was last looked at, and since when it
    /// has been so many.
    drawn: (u64, Instant),
}

/// Ids that were taken at once, and whether the next block should be fetched.
pub(crate) struct Taken {
    pub(crate) runs: Vec<Run>,
    pub(crate) due: bool,
}

/// Ids to return to the server.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Rest<S = Session> {
    pub(crate) first: SegmentId,
    pub(crate) last: SegmentId,
    /// The session that reserved them.
    pub(crate) session: Arc<S>,
}

/// The outcome for a block.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Published<S = Session> {
    /// Its ids can be drawn.
    Drawable,
    /// The same; the ids of an earlier life of the tag were discarded.
    NewLife,
    /// The tag is closed: the block is to be returned.
    Closed(Rest<S>),
    /// The ids were forgotten since the block was asked for, and so is the block.
    Forgotten,
}

impl<S> Default for Blocks<S> {
    fn default() -> Self {
        Blocks {
            spare: VecDeque::new(),
            step: 0,
            refilled_at: None,
            incarnation: None,
            confirmed_at: None,
            reserved: VecDeque::new(),
            refusals: 0,
            drawn: (0, Instant::now()),
        }
    }
}

/// Statistics of a tag in this process, from [`SegmentSource::stats`] and
/// [`Leaf::stats`].
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
    /// Calls that are waiting now.
    pub waiting: u64,
    /// Calls that had to wait and then got ids.
    pub waits: u64,
    /// The longest such wait.
    pub longest_wait: Duration,
    /// Why the last failed refill failed.
    pub last_error: Option<String>,
}

impl TagStats {
    /// For a tag about which nothing can be found out.
    pub(crate) fn unavailable(why: &Error) -> Self {
        TagStats {
            buffered: 0,
            refills: 0,
            waiting: 0,
            waits: 0,
            longest_wait: Duration::ZERO,
            last_error: Some(why.to_string()),
        }
    }
}

impl<S> Tag<S> {
    pub(crate) fn new(name: &str) -> Self {
        Tag {
            name: name.to_owned(),
            buffer: DoubleBuffer::new(),
            gate: Gate::new(Meter::of("segment", name)),
            spare: AtomicU64::new(0),
            wanted: AtomicU64::new(0),
            forgotten: AtomicU64::new(0),
            is_refilling: AtomicBool::new(false),
            stirred: Notify::new(),
        }
    }

    /// A tag that has been closed from the beginning.
    pub(crate) fn closed(name: &str) -> Self {
        let tag = Tag::new(name);
        tag.gate.lock().close();
        tag
    }

    /// Ids at hand.
    pub(crate) fn at_hand(&self) -> u64 {
        let levels = self.buffer.levels();
        levels.current + levels.next + self.spare.load(Ordering::Acquire)
    }

    /// Records that a call waits for so many ids.
    pub(crate) fn want(&self, count: u64) {
        self.wanted.fetch_max(count, Ordering::AcqRel);
    }

    /// Forgets what calls wait for. Those that still wait record it again.
    pub(crate) fn end_wants(&self) {
        self.wanted.store(0, Ordering::Release);
    }

    /// Takes `count` ids, or none. In the middle of a discard, fewer.
    pub(crate) fn take(&self, count: u64) -> Option<Taken> {
        if let Some(drawn) = self.buffer.draw_all(count) {
            let runs = drawn.runs.iter().collect();
            return Some(Taken {
                runs,
                due: drawn.due,
            });
        }
        let held = &mut self.gate.lock().guarded;
        if held.spare.is_empty() {
            return None;
        }
        // Others may draw meanwhile.
        let mut rest: VecDeque<Run> = self.buffer.take_rest().iter().collect();
        rest.append(&mut held.spare);
        let has_all = rest.iter().map(|run| run.len).sum::<u64>() >= count;
        let (mut runs, mut missing) = (Vec::new(), if has_all { count } else { 0 });
        while missing > 0
            && let Some(run) = rest.pop_front()
        {
            let (taken, left) = run.split(missing);
            missing -= taken.len;
            runs.push(taken);
            left.into_iter().for_each(|left| rest.push_front(left));
        }
        held.spare = rest;
        self.fill_from_spare(held);
        has_all.then(|| Taken {
            runs,
            due: self.buffer.is_due(),
        })
    }

    /// Moves spare blocks into the buffers, as far as there is room.
    pub(crate) fn use_spare(&self) {
        if self.spare.load(Ordering::Acquire) > 0 {
            self.fill_from_spare(&mut self.gate.lock().guarded);
        }
    }

    fn fill_from_spare(&self, held: &mut Blocks<S>) {
        while let Some(&Run { first, len }) = held.spare.front() {
            let after = prefetch_after(len, PREFETCH_PERCENT);
            if self.buffer.publish(first, len, after).is_err() {
                break;
            }
            held.spare.pop_front();
        }
        let spare = held.spare.iter().map(|run| run.len).sum();
        self.spare.store(spare, Ordering::Release);
    }

    /// Whether another block should be fetched now.
    pub(crate) fn needs_ids(&self) -> bool {
        let is_due = self.buffer.is_due() && self.buffer.has_room();
        let is_short = || self.wanted.load(Ordering::Acquire) > self.at_hand();
        (is_due || is_short()) && !self.gate.lock().is_closed()
    }

    /// How many ids to ask for.
    pub(crate) fn next_step(&self, config: &Config) -> u64 {
        let wanted = self.wanted.load(Ordering::Acquire);
        let missing = wanted.saturating_sub(self.at_hand());
        let held = &self.gate.lock().guarded;
        let lasted = held.refilled_at.map_or(Duration::ZERO, |at| at.elapsed());
        let step = config.steps.next_step(held.step, config.min_step, lasted);
        step.max(missing.min(config.steps.max_step))
    }

    /// Makes a block drawable, unless the tag has been closed. If the tag was dropped
    /// and created again, what is left of its earlier life is discarded.
    ///
    /// # Errors
    /// [`Error::Protocol`] for a block that cannot be one.
    pub(crate) fn publish(
        &self,
        block: &Block,
        incarnation: Incarnation,
        session: Arc<S>,
        forgotten: u64,
    ) -> Result<Published<S>, Error> {
        let (first, last) = (block.first.get(), block.last.get());
        let len = last
            .checked_sub(first)
            .and_then(|len| u64::try_from(len).ok());
        let Some(len) = len.map(|len| len + 1) else {
            return Err(Error::Protocol(format!("{block:?}")));
        };
        let mut state = self.gate.lock();
        if state.is_closed() {
            return Ok(Published::Closed(Rest {
                first: block.first,
                last: block.last,
                session,
            }));
        }
        if self.forgotten() != forgotten {
            return Ok(Published::Forgotten);
        }
        let held = &mut state.guarded;
        let is_new_life = held
            .incarnation
            .as_ref()
            .is_some_and(|earlier| *earlier != incarnation);
        if is_new_life {
            self.buffer.take_rest();
            held.spare.clear();
            held.reserved.clear();
        }
        held.spare.push_back(Run { first, len });
        self.fill_from_spare(held);
        self.end_wants();
        held.step = len;
        held.refilled_at = Some(Instant::now());
        held.incarnation = Some(incarnation);
        held.confirmed_at = held.refilled_at;
        held.refusals = 0;
        held.reserved.push_back((last, session));
        while held.reserved.len() > 2 + held.spare.len() {
            held.reserved.pop_front();
        }
        state.succeeded();
        drop(state);
        self.gate.wake();
        Ok(match is_new_life {
            true => Published::NewLife,
            false => Published::Drawable,
        })
    }

    /// Closes the tag; returns the ids that have not been drawn, the last ones first.
    pub(crate) fn close(&self) -> Vec<Rest<S>> {
        let mut state = self.gate.lock();
        state.close();
        let rest = self.take_rest(&mut state.guarded);
        drop(state);
        self.gate.wake();
        self.stirred.notify_waiters();
        rest
    }

    /// Drops the ids that have not been drawn, and a block that is on its way.
    pub(crate) fn forget(&self) {
        let mut state = self.gate.lock();
        self.forgotten.fetch_add(1, Ordering::AcqRel);
        self.take_rest(&mut state.guarded);
        // They were not used up soon.
        state.guarded.step = 0;
    }

    /// How often the ids were forgotten: a block is of the time when it was asked for.
    pub(crate) fn forgotten(&self) -> u64 {
        self.forgotten.load(Ordering::Acquire)
    }

    /// Discards the ids that have not been drawn; returns them, the last ones first.
    pub(crate) fn discard(&self) -> Vec<Rest<S>> {
        let mut state = self.gate.lock();
        self.take_rest(&mut state.guarded)
    }

    fn take_rest(&self, held: &mut Blocks<S>) -> Vec<Rest<S>> {
        let reserved = std::mem::take(&mut held.reserved);
        let spare = std::mem::take(&mut held.spare);
        self.spare.store(0, Ordering::Release);
        let rest = self.buffer.take_rest();
        let mut rest: Vec<_> = rest
            .iter()
            .chain(spare)
            .filter_map(|run| {
                let last = run.last();
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

    /// The incarnation of the ids in the buffers, if there are any, and when the server
    /// last confirmed it.
    pub(crate) fn held(&self) -> Option<(Incarnation, Instant)> {
        let held = &self.gate.lock().guarded;
        let known = held.incarnation.clone().zip(held.confirmed_at);
        known.filter(|_| self.buffer.has_ids())
    }

    /// Records that the server still has this incarnation.
    pub(crate) fn confirm(&self, incarnation: &Incarnation, at: Instant) {
        let held = &mut self.gate.lock().guarded;
        if held.incarnation.as_ref() == Some(incarnation) {
            held.confirmed_at = held.confirmed_at.max(Some(at));
        }
    }

    /// For how long nobody has drawn, as far as it was looked at.
    pub(crate) fn idle_for(&self) -> Duration {
        let drawn = self.buffer.drawn();
        let held = &mut self.gate.lock().guarded;
        if held.drawn.0 != drawn {
            held.drawn = (drawn, Instant::now());
        }
        held.drawn.1.elapsed()
    }

    /// Counts a refusal; returns how many there were before, in a row.
    pub(crate) fn refused(&self) -> usize {
        let held = &mut self.gate.lock().guarded;
        held.refusals += 1;
        held.refusals - 1
    }

    pub(crate) fn stats(&self) -> TagStats {
        let tally = self.gate.tally();
        TagStats {
            buffered: self.at_hand(),
            refills: tally.successes,
            waiting: tally.waiting,
            waits: tally.waits,
            longest_wait: tally.longest_wait,
            last_error: tally.last_error,
        }
    }

    /// Whether there are no ids, although calls wait for them or the server is away. The failure of
    /// one call that must not draw is no outage.
    pub(crate) fn is_starving(&self) -> bool {
        let stats = self.stats();
        stats.buffered == 0 && (stats.waiting > 0 || self.gate.lock().is_failing())
    }

    /// Whether the caller should fetch the next buffer, because no other caller is doing
    /// so.
    pub(crate) fn begin_refill(&self) -> bool {
        !self.is_refilling.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn end_refill(&self) {
        self.is_refilling.store(false, Ordering::Release);
        self.stirred.notify_waiters();
    }

    pub(crate) fn is_refilling(&self) -> bool {
        self.is_refilling.load(Ordering::Acquire)
    }

    /// Waits until no refill is under way.
    pub(crate) async fn refill_ended(&self) {
        self.stirred_until(|| !self.is_refilling()).await;
    }

    /// Waits, but not after the tag has been closed.
    pub(crate) async fn pause(&self, pause: Duration) {
        let is_closed = || self.gate.lock().is_closed();
        let _ = tokio::time::timeout(pause, self.stirred_until(is_closed)).await;
    }

    async fn stirred_until(&self, condition: impl Fn() -> bool) {
        loop {
            // Registered before the check, so that no change in between is missed.
            let mut stirred = std::pin::pin!(self.stirred.notified());
            stirred.as_mut().enable();
            if condition() {
                return;
            }
            stirred.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn tag() -> Tag<()> {
        Tag::new("orders")
    }

    fn block(first: i64, last: i64) -> Block {
        Block {
            first: SegmentId::new(first),
            last: SegmentId::new(last),
        }
    }

    fn publish(tag: &Tag<()>, first: i64, last: i64, life: &str) -> Published<()> {
        let life = Incarnation(life.into());
        let published = tag.publish(&block(first, last), life, Arc::new(()), tag.forgotten());
        published.expect("a block")
    }

    fn rest(first: i64, last: i64) -> Rest<()> {
        Rest {
            first: SegmentId::new(first),
            last: SegmentId::new(last),
            session: Arc::new(()),
        }
    }

    #[test]
    fn block_published_after_close_is_not_drawn_but_returned() {
        let tag = tag();
        assert_eq!(publish(&tag, 1, 10, "a"), Published::Drawable);
        tag.buffer.draw().expect("an id");
        assert_eq!(tag.close(), [rest(2, 10)]);
        let late = publish(&tag, 11, 20, "a");
        assert_eq!(late, Published::Closed(rest(11, 20)));
        assert!(tag.buffer.draw().is_none());
    }

    /// The later ones first: the server takes ids back only from the end.
    #[test]
    fn close_returns_the_rests_of_both_blocks() {
        let tag = tag();
        publish(&tag, 1, 10, "a");
        publish(&tag, 11, 20, "a");
        tag.buffer.draw().expect("an id");
        assert_eq!(tag.close(), [rest(11, 20), rest(2, 10)]);
    }

    #[test]
    fn block_on_its_way_is_forgotten_with_the_others() {
        let tag = tag();
        publish(&tag, 1, 10, "a");
        let before = tag.forgotten();
        tag.forget();
        let late = tag.publish(
            &block(11, 20),
            Incarnation("a".into()),
            Arc::new(()),
            before,
        );
        assert_eq!(late.expect("a block"), Published::Forgotten);
        assert!(tag.buffer.draw().is_none());
        assert_eq!(publish(&tag, 21, 30, "a"), Published::Drawable);
        assert_eq!(tag.close(), [rest(21, 30)]);
    }

    fn taken(tag: &Tag<()>, count: u64) -> Option<Vec<(i64, i64)>> {
        let taken = tag.take(count)?;
        let ends = |run: &Run| (run.first, run.last());
        Some(taken.runs.iter().map(ends).collect())
    }

    #[test]
    fn ids_beyond_the_buffers_are_taken_all_or_none_in_their_order() {
        let tag = tag();
        for first in [1, 11, 31, 41] {
            publish(&tag, first, first + 9, "a");
        }
        assert_eq!(tag.at_hand(), 40);
        assert_eq!(taken(&tag, 41), None);
        assert_eq!(tag.at_hand(), 40);
        assert_eq!(taken(&tag, 25), Some(vec![(1, 10), (11, 20), (31, 35)]));
        assert_eq!(tag.buffer.draw().map(|drawn| drawn.id), Some(36));
        assert_eq!(taken(&tag, 14), Some(vec![(37, 40), (41, 50)]));
        assert_eq!(tag.at_hand(), 0);
    }

    #[test]
    fn ids_beyond_the_buffers_are_drawn_after_them_and_returned() {
        let tag = tag();
        for first in [1, 11, 21, 31] {
            publish(&tag, first, first + 9, "a");
        }
        for id in 1..=20 {
            assert_eq!(tag.buffer.draw().map(|drawn| drawn.id), Some(id));
        }
        tag.use_spare();
        assert_eq!(tag.buffer.draw().map(|drawn| drawn.id), Some(21));
        publish(&tag, 41, 50, "a");
        assert_eq!(tag.close(), [rest(41, 50), rest(31, 40), rest(22, 30)]);
        assert_eq!(tag.at_hand(), 0);
    }

    #[test]
    fn block_of_another_life_discards_the_rest_of_the_earlier_one() {
        let tag = tag();
        publish(&tag, 1, 10, "a");
        publish(&tag, 11, 20, "a");
        while tag.buffer.draw().expect("an id").id < 15 {}
        assert_eq!(publish(&tag, 1, 5, "b"), Published::NewLife);
        assert_eq!(tag.buffer.draw().map(|drawn| drawn.id), Some(1));
        assert_eq!(tag.close(), [rest(2, 5)]);
    }

    #[test]
    fn incarnation_is_confirmed_only_while_it_is_that_of_the_ids() {
        let tag = tag();
        assert_eq!(tag.held(), None);
        publish(&tag, 1, 10, "a");
        let later = Instant::now() + LONG;
        tag.confirm(&Incarnation("b".into()), later);
        assert!(tag.held().is_some_and(|(_, at)| at < later));
        tag.confirm(&Incarnation("a".into()), later);
        assert_eq!(tag.held(), Some((Incarnation("a".into()), later)));
        assert_eq!(tag.discard(), [rest(1, 10)]);
        assert_eq!(tag.held(), None);
    }

    /// Callers sleep until they are woken, however long: nothing else ends their wait.
    #[test]
    fn waiter_is_woken_when_ids_come_and_when_the_tag_is_closed() {
        for round in 0..100 {
            let mut tag = tag();
            tag.gate = Gate::with_slice(Meter::of("segment", "orders"), LONG);
            thread::scope(|scope| {
                let waiter = scope.spawn(|| {
                    let wait = tag.gate.begin_wait(LONG);
                    let ended = tag.gate.sleep(&wait, || tag.buffer.has_ids());
                    assert!(!wait.is_over(), "nobody has woken it");
                    ended
                });
                while tag.gate.tally().waiting == 0 {
                    thread::yield_now();
                }
                let is_even = round % 2 == 0;
                match is_even {
                    true => drop(publish(&tag, 1, 10, "a")),
                    false => drop(tag.close()),
                }
                let ended = waiter.join().expect("no panic");
                assert_eq!(ended.is_ok(), is_even, "{ended:?}");
            });
        }
    }
}
