//! A tag's place in shared memory.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use leaf_core::DoubleBuffer;
use leaf_core::buffer::Runs;
use leaf_core::time::Monotonic;

use super::failures::Failures;
use super::key::Key;
use super::waits::Waits;
use crate::pg::clock::AtomicMonotonic;
use crate::pg::condvar::CondVar;
use crate::pg::lwlock::{Locked, WriteGuard};

/// Everything leaf shares about one tag. Written as a whole once, at server start;
/// after that, as described at each field.
#[repr(C)]
pub struct Slot {
    /// The ids. All sessions draw from it; written under `state`'s lock.
    pub buffer: DoubleBuffer,
    /// What the loader has recorded about the tag, and the lock for `buffer`.
    pub state: Locked<State>,
    /// Signalled when `buffer` or `state` has changed.
    pub changed: CondVar,
    /// Counters of waits.
    pub waits: Waits,
    /// When the loader may try again after a failed load. Written under `state`'s lock.
    pub retry_at: AtomicMonotonic,
    /// Whether the loader is loading a segment: the slot is then not evicted.
    pub is_loading: AtomicBool,
    /// When a session last waited for ids, and how many had been drawn then. It has not got
    /// its ids while that number has not changed.
    awaited_at: AtomicMonotonic,
    drawn_before: AtomicU64,
    /// The next slot of the same bucket, or of the free list. Index lock.
    pub(super) next: AtomicU32,
    /// How many ids had been drawn when a search for an idle slot last passed. Index
    /// lock.
    pub(super) seen: AtomicU64,
    /// The key that this slot serves. Index lock.
    pub(super) key: KeyCell,
}

/// How long a session's wait keeps a slot from being evicted. A session that still waits
/// says so much more often than this.
const WAIT_LIFE: Duration = Duration::from_secs(2);

/// A key that is read and written under the index lock.
pub(super) struct KeyCell(pub(super) UnsafeCell<Key>);

// SAFETY: guarded by the index lock; see `index`.
unsafe impl Sync for KeyCell {}

/// Whether another load can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Verdict {
    /// It can, as far as is known.
    Loadable,
    /// The tag has reached its `max_value`.
    Exhausted,
    /// The loader found no row for the tag.
    Missing,
}

/// What the loader has recorded about a slot's tag.
#[repr(C)]
pub struct State {
    /// One past the largest id ever published for the tag's present row, or
    /// `i64::MIN`. A row that is below it grants nothing.
    pub high_water: i64,
    /// Ids in the last segment; 0 before the first.
    pub step: u64,
    /// When the last segment was published; 0 before the first.
    pub loaded_at: Monotonic,
    /// Segments published.
    pub loads: u64,
    /// How fast the last segment but one was used up, in ids per second.
    pub ids_per_second: f64,
    /// Whether another load can succeed.
    pub verdict: Verdict,
    /// Loads that failed.
    pub failures: Failures,
}

impl State {
    const NEW: State = State {
        high_water: i64::MIN,
        step: 0,
        loaded_at: Monotonic::ZERO,
        loads: 0,
        ids_per_second: 0.0,
        verdict: Verdict::Loadable,
        failures: Failures::NONE,
    };
}

impl Slot {
    /// A free slot, chained to the next one in the free list.
    pub(super) fn new(next: u32, tranche: i32) -> Self {
        Slot {
            buffer: DoubleBuffer::new(),
            state: Locked::new(State::NEW, tranche),
            changed: CondVar::new(),
            waits: Waits::default(),
            retry_at: AtomicMonotonic::new(),
            is_loading: AtomicBool::new(false),
            awaited_at: AtomicMonotonic::new(),
            drawn_before: AtomicU64::new(0),
            next: AtomicU32::new(next),
            seen: AtomicU64::new(0),
            key: KeyCell(UnsafeCell::new(Key::NOBODYS)),
        }
    }

    /// Begins a new epoch because the slot serves another tag, or none. Everything about
    /// the earlier tag is cleared. Returns the unused ids.
    pub fn begin_anew(&self) -> Runs {
        let mut unused = Runs::default();
        self.begin_epoch(|state| {
            unused = self.buffer.take_rest();
            *state = State::NEW;
            self.waits.clear();
            self.is_loading.store(false, Ordering::Relaxed);
            self.awaited_at.set(Monotonic::ZERO);
        });
        unused
    }

    /// Whether a session waits for ids of the slot or has not drawn them yet, or a load is
    /// under way.
    pub(super) fn is_awaited(&self, now: Monotonic) -> bool {
        let is_recent = now.since(self.awaited_at.get()) < WAIT_LIFE;
        let is_untouched = self.drawn_before.load(Ordering::Relaxed) == self.buffer.drawn();
        self.is_loading.load(Ordering::Acquire) || (is_recent && is_untouched)
    }

    /// Records that a session waits for ids.
    pub fn note_waiting(&self, now: Monotonic) {
        self.drawn_before
            .store(self.buffer.drawn(), Ordering::Relaxed);
        self.awaited_at.set(now);
    }

    /// Begins a new epoch for the same tag, and drops unused ids.
    pub fn drop_ids(&self) {
        self.begin_epoch(|state| {
            let _discarded = self.buffer.take_rest();
            reconsider(state);
        });
    }

    /// Begins a new epoch for the same tag: earlier decisions about it become invalid.
    /// Unused ids are kept.
    pub fn reconsider(&self) {
        self.begin_epoch(reconsider);
    }

    /// If the epoch is still `epoch`, begins a new one, and drops unused ids, because the
    /// loader found no row for the tag, or another one.
    pub fn lose_row(&self, epoch: u64) {
        let state = self.state.write();
        if self.buffer.epoch() == epoch {
            self.begin_epoch_of(state, |state| {
                let _discarded = self.buffer.take_rest();
                state.verdict = Verdict::Missing;
            });
        }
    }

    fn begin_epoch(&self, change: impl FnOnce(&mut State)) {
        self.begin_epoch_of(self.state.write(), change);
    }

    fn begin_epoch_of(&self, mut state: WriteGuard<'_, State>, change: impl FnOnce(&mut State)) {
        self.buffer.bump_epoch();
        change(&mut state);
        self.retry_at.set(Monotonic::ZERO);
        drop(state);
        self.changed.broadcast();
    }
}

fn reconsider(state: &mut State) {
    state.verdict = Verdict::Loadable;
    state.failures.end();
}
