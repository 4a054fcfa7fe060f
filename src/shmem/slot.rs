//! A tag's place in shared memory.

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU32, AtomicU64};

use leaf_core::DoubleBuffer;
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
    /// When a segment was last requested. Waiting sessions repeat their requests, so no
    /// session is waiting for an old one.
    pub requested_at: AtomicMonotonic,
    /// When the loader may try again after a failed load. Written under `state`'s lock.
    pub retry_at: AtomicMonotonic,
    /// The next slot of the same bucket, or of the free list. Index lock.
    pub(super) next: AtomicU32,
    /// How many ids had been drawn when a search for an idle slot last passed. Index
    /// lock.
    pub(super) seen: AtomicU64,
    /// The key that this slot serves. Index lock.
    pub(super) key: KeyCell,
}

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
            requested_at: AtomicMonotonic::new(),
            retry_at: AtomicMonotonic::new(),
            next: AtomicU32::new(next),
            seen: AtomicU64::new(0),
            key: KeyCell(UnsafeCell::new(Key::NOBODYS)),
        }
    }

    /// Begins a new epoch because the slot serves another tag, or none. Everything about
    /// the earlier tag is cleared; unused ids are dropped.
    pub fn begin_anew(&self) {
        self.begin_epoch(|state| {
            let _discarded = self.buffer.take_rest();
            *state = State::NEW;
            self.waits.clear();
        });
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
