//! A tag's place in shared memory, and what other places have in common with it.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use leaf_core::{DoubleBuffer, tag};
use pgrx::pg_sys::TimestampTz;

use super::index::{Key, NONE};
use super::text::Text;
use crate::pg::{condvar::CondVar, lock::Locked};

/// Everything leaf shares about one tag. Written by value once, at server
/// start; afterwards as each field says.
#[repr(C)]
pub struct Slot {
    /// The ids. Drawn from by anybody; written under `state`'s lock.
    pub buffer: DoubleBuffer,
    /// What the loader knows of the tag, and the lock for `buffer`.
    pub state: Locked<State>,
    /// Signalled when `buffer` or `state` has changed.
    pub changed: CondVar,
    /// How callers fared.
    pub waits: Waits,
    /// When a load was last asked for, in monotonic microseconds: whoever waits
    /// asks again and again, so an old request is nobody's.
    pub asked_at: AtomicI64,
    /// Before when the loader does not try again after a failed load, in
    /// monotonic microseconds. Written under `state`'s lock.
    pub retry_at: AtomicI64,
    /// The next slot of the same bucket, or of the free list. Index lock.
    pub(super) next: AtomicU32,
    /// What the buffer's usage was when an evictor last passed. Index lock.
    pub(super) seen: AtomicU64,
    /// Whose slot this is. Index lock.
    pub(super) key: KeyCell,
}

/// A key that is read and written under the index lock.
pub(super) struct KeyCell(pub(super) UnsafeCell<Key>);

// SAFETY: guarded by the index lock; see `index`.
unsafe impl Sync for KeyCell {}

/// Counters of callers that found no id at once.
#[derive(Default)]
#[repr(C)]
pub struct Waits {
    /// Calls that had to wait.
    pub count: AtomicU64,
    /// The longest wait, in microseconds.
    pub longest_us: AtomicU64,
    /// Calls that gave up after `leaf.wait_timeout`.
    pub timeouts: AtomicU64,
}

impl Waits {
    /// Counts a wait that has ended with ids.
    pub fn add(&self, lasted: Duration) {
        self.count.fetch_add(1, Ordering::Relaxed);
        self.longest_us
            .fetch_max(lasted.as_micros() as u64, Ordering::Relaxed);
    }

    pub(super) fn clear(&self) {
        self.count.store(0, Ordering::Relaxed);
        self.longest_us.store(0, Ordering::Relaxed);
        self.timeouts.store(0, Ordering::Relaxed);
    }
}

/// Why a load brought nothing and the next one will not either.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// Nothing speaks against the next load.
    Loadable,
    /// The tag has reached its `max_value`.
    Exhausted,
    /// The loader found no row for the tag.
    Missing,
}

/// What the loader knows of a slot's tag.
#[repr(C)]
pub struct State {
    /// One past the largest id ever published for the tag's present row, or
    /// `i64::MIN`. A row that lies below is not granted from.
    pub high_water: i64,
    /// Ids in the last segment; 0 before the first.
    pub step: u64,
    /// When the last segment was published; 0 before the first.
    pub loaded_at: TimestampTz,
    /// Segments published.
    pub loads: u64,
    /// How fast the last segment but one was used up.
    pub ids_per_second: f64,
    /// Whether another load makes sense.
    pub verdict: Verdict,
    /// How long the loader paused after the last of a row of failures, in
    /// microseconds; 0 after a success.
    pub pause_us: i64,
    /// The last failure.
    pub error: LastError,
}

impl State {
    fn new() -> Self {
        State {
            high_water: i64::MIN,
            step: 0,
            loaded_at: 0,
            loads: 0,
            ids_per_second: 0.0,
            verdict: Verdict::Loadable,
            pause_us: 0,
            error: LastError::default(),
        }
    }
}

/// The last failure of a tag's loads.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct LastError {
    /// When; 0 for never.
    pub at: TimestampTz,
    text: Text<254>,
}

impl LastError {
    /// Records a failure.
    pub fn set(&mut self, at: TimestampTz, message: &str) {
        self.text = Text::of(message);
        self.at = at;
    }

    /// The message, if there has been a failure.
    pub fn message(&self) -> Option<String> {
        (self.at != 0).then(|| self.text.get())
    }
}

impl Default for LastError {
    fn default() -> Self {
        LastError {
            at: 0,
            text: Text::EMPTY,
        }
    }
}

impl Slot {
    /// A free slot, chained to the one behind it.
    pub(super) fn new(index: usize, count: usize, tranche: i32) -> Self {
        let next = if index + 1 < count {
            index as u32 + 1
        } else {
            NONE
        };
        Slot {
            buffer: DoubleBuffer::new(),
            state: Locked::new(State::new(), tranche),
            changed: CondVar::new(),
            waits: Waits::default(),
            asked_at: AtomicI64::new(0),
            retry_at: AtomicI64::new(0),
            next: AtomicU32::new(next),
            seen: AtomicU64::new(0),
            key: KeyCell(UnsafeCell::new(Key::default())),
        }
    }

    /// Begins a new epoch: the slot serves another tag, or its tag's ids start
    /// anew. Unused ids are dropped.
    pub fn begin_anew(&self) {
        let mut state = self.state.exclusive();
        self.buffer.bump_epoch();
        let _discarded = self.buffer.take_rest();
        *state = State::new();
        self.retry_at.store(0, Ordering::Relaxed);
        self.waits.clear();
        drop(state);
        self.changed.broadcast();
    }

    /// Begins a new epoch for the same tag: what was decided about it counts
    /// no more. With `discard`, unused ids are dropped too.
    pub fn reconsider(&self, discard: bool) {
        let mut state = self.state.exclusive();
        self.buffer.bump_epoch();
        if discard {
            let _discarded = self.buffer.take_rest();
        }
        state.verdict = Verdict::Loadable;
        state.pause_us = 0;
        self.retry_at.store(0, Ordering::Relaxed);
        drop(state);
        self.changed.broadcast();
    }
}

/// How long the loader pauses after a failure, given its last pause: longer
/// each time, so that one bad row costs little.
pub fn next_pause_us(last: i64) -> i64 {
    (last * 2).clamp(10_000, 500_000)
}

/// How many bytes of a tag a slot holds.
pub const TAG_BYTES: usize = tag::MAX_BYTES;
