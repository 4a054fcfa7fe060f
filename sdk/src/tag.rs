//! The two buffers of one tag, and who waits for them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use leaf_core::DoubleBuffer;
use parking_lot::{Condvar, Mutex};
use tokio::sync::Notify;

use crate::calls::Block;
use crate::{Config, Error, SegmentId};

/// A tag's ids in memory. Drawn from by anybody; written under `state`'s lock.
pub(crate) struct Tag {
    pub(crate) name: String,
    pub(crate) buffer: DoubleBuffer,
    /// Whether a refill is under way: one at a time.
    pub(crate) is_refilling: AtomicBool,
    state: Mutex<State>,
    changed: Condvar,
    notify: Notify,
}

#[derive(Default)]
struct State {
    /// Ids asked for last; 0 before the first refill.
    step: u64,
    loaded_at: Option<Instant>,
    /// How many refills have failed for good, and how the last one did.
    failures: u64,
    failure: Option<Error>,
    last_error: Option<String>,
    refills: u64,
    waits: u64,
    longest_wait: Duration,
    is_closed: bool,
}

/// How a tag fares in this process.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TagStats {
    /// Ids at hand.
    pub buffered: u64,
    /// Buffers fetched.
    pub refills: u64,
    /// Calls that had to wait.
    pub waits: u64,
    /// The longest such wait.
    pub longest_wait: Duration,
    /// Why the last refill that failed did.
    pub last_error: Option<String>,
}

/// What a waiter knew when it began to wait.
#[derive(Clone, Copy)]
pub(crate) struct Seen {
    failures: u64,
}

impl Tag {
    pub(crate) fn new(name: &str) -> Self {
        Tag {
            name: name.to_owned(),
            buffer: DoubleBuffer::new(),
            is_refilling: AtomicBool::new(false),
            state: Mutex::default(),
            changed: Condvar::new(),
            notify: Notify::new(),
        }
    }

    /// Whether another buffer should be fetched now.
    pub(crate) fn wants_ids(&self) -> bool {
        self.buffer.is_due() && self.buffer.has_room() && !self.state.lock().is_closed
    }

    /// How many ids to ask for.
    pub(crate) fn next_step(&self, config: &Config) -> u64 {
        let state = self.state.lock();
        let lasted = state.loaded_at.map_or(Duration::ZERO, |at| at.elapsed());
        config.steps.next_step(state.step, config.min_step, lasted)
    }

    /// Makes a block drawable.
    pub(crate) fn publish(&self, block: &Block, config: &Config) -> Result<(), Error> {
        let (first, last) = (block.first.get(), block.last.get());
        let len = last
            .checked_sub(first)
            .and_then(|len| u64::try_from(len).ok());
        let Some(len) = len.filter(|_| block.increment == 1).map(|len| len + 1) else {
            return Err(Error::Protocol(format!("{block:?}")));
        };
        let prefetch_after =
            len / 100 * config.prefetch_percent + len % 100 * config.prefetch_percent / 100;
        let mut state = self.state.lock();
        if state.is_closed {
            return Ok(());
        }
        // A refill is asked for only where there is room, and there is one at a time.
        let published = self.buffer.publish(first, len, prefetch_after);
        published.map_err(|_| Error::Protocol("both buffers are full".into()))?;
        state.step = len;
        state.loaded_at = Some(Instant::now());
        state.refills += 1;
        state.failure = None;
        drop(state);
        self.wake();
        Ok(())
    }

    /// Records a failed refill; one `for_good` ends the wait of who waits now.
    pub(crate) fn failed(&self, error: &Error, for_good: bool) {
        let mut state = self.state.lock();
        state.last_error = Some(error.to_string());
        if for_good {
            state.failures += 1;
            state.failure = Some(error.clone());
            drop(state);
            self.wake();
        }
    }

    fn wake(&self) {
        self.changed.notify_all();
        self.notify.notify_waiters();
    }

    pub(crate) fn seen(&self) -> Seen {
        Seen {
            failures: self.state.lock().failures,
        }
    }

    /// The error that ends a wait, if there is one.
    fn end_of_wait(state: &State, seen: Seen) -> Option<Error> {
        if state.is_closed {
            return Some(Error::Closed);
        }
        (state.failures != seen.failures)
            .then(|| state.failure.clone())
            .flatten()
    }

    /// Waits until a draw is worth trying; blocks the thread.
    pub(crate) fn wait(&self, seen: Seen, deadline: Instant) -> Result<(), Error> {
        let mut state = self.state.lock();
        loop {
            if self.buffer.has_ids() {
                return Ok(());
            }
            if let Some(error) = Tag::end_of_wait(&state, seen) {
                return Err(error);
            }
            if self.changed.wait_until(&mut state, deadline).timed_out() {
                return match self.buffer.has_ids() {
                    true => Ok(()),
                    false => Err(timed_out(&state)),
                };
            }
        }
    }

    /// As [`wait`](Self::wait), for a task.
    #[cfg(feature = "async")]
    pub(crate) async fn wait_async(&self, seen: Seen, deadline: Instant) -> Result<(), Error> {
        loop {
            // Registered before the look: what happens in between wakes it.
            let mut notified = std::pin::pin!(self.notify.notified());
            notified.as_mut().enable();
            if self.buffer.has_ids() {
                return Ok(());
            }
            if let Some(error) = Tag::end_of_wait(&self.state.lock(), seen) {
                return Err(error);
            }
            let slept = tokio::time::timeout_at(deadline.into(), notified).await;
            if slept.is_err() && !self.buffer.has_ids() {
                return Err(timed_out(&self.state.lock()));
            }
        }
    }

    /// Counts a call that had to wait.
    pub(crate) fn waited(&self, lasted: Duration) {
        let mut state = self.state.lock();
        state.waits += 1;
        state.longest_wait = state.longest_wait.max(lasted);
    }

    /// Ends the tag's life here; returns the ids nobody has drawn, as far as
    /// they are the rest of a block, the last one first.
    pub(crate) fn close(&self) -> Vec<(SegmentId, SegmentId)> {
        let mut state = self.state.lock();
        state.is_closed = true;
        let rest = self.buffer.take_rest();
        drop(state);
        self.wake();
        let mut rest: Vec<_> = rest
            .iter()
            .map(|run| (run.first, run.first + (run.len - 1) as i64))
            .map(|(first, last)| (SegmentId::new(first), SegmentId::new(last)))
            .collect();
        rest.reverse();
        rest
    }

    pub(crate) fn stats(&self) -> TagStats {
        let levels = self.buffer.levels();
        let state = self.state.lock();
        TagStats {
            buffered: levels.current + levels.next,
            refills: state.refills,
            waits: state.waits,
            longest_wait: state.longest_wait,
            last_error: state.last_error.clone(),
        }
    }

    /// Whether this caller is to fetch the next buffer.
    pub(crate) fn begin_refill(&self) -> bool {
        !self.is_refilling.swap(true, Ordering::AcqRel)
    }

    pub(crate) fn end_refill(&self) {
        self.is_refilling.store(false, Ordering::Release);
    }
}

fn timed_out(state: &State) -> Error {
    Error::Timeout {
        after: Duration::ZERO,
        last: state.last_error.clone(),
    }
}
