//! The ids of a tag that this session has taken ahead, as with `CREATE SEQUENCE ... CACHE`.
//!
//! They are this session's alone: handing one out reads the slot's epoch, and that it is in use, and
//! writes no shared memory unless that was forgotten. Another epoch, or another slot, drops them. They are runs, not a first and
//! a last id: one access to a buffer can give two runs with numbers of others in between.

use std::cell::Cell;

use leaf_core::Run;

use crate::shmem::slot::Slot;

/// What a session has taken ahead of one slot, in one epoch of it.
pub struct Cache {
    slot: Cell<Option<&'static Slot>>,
    epoch: Cell<u64>,
    /// How many ids the session takes at once; 1 if it takes none ahead.
    size: Cell<u64>,
    /// The next id, and how many follow without a gap, itself included.
    first: Cell<i64>,
    left: Cell<u64>,
    /// The ids after those.
    then: Cell<Option<Run>>,
}

impl Cache {
    /// An empty one.
    pub const fn new() -> Self {
        Cache {
            slot: Cell::new(None),
            epoch: Cell::new(0),
            size: Cell::new(1),
            first: Cell::new(0),
            left: Cell::new(0),
            then: Cell::new(None),
        }
    }

    /// The next id, while the slot is in the epoch in which it was taken.
    #[inline(always)]
    pub fn next(&self) -> Option<i64> {
        let left = self.left.get().checked_sub(1)?;
        let slot = self.slot.get()?;
        if slot.buffer.epoch() != self.epoch.get() {
            return None;
        }
        slot.buffer.note_use();
        let id = self.first.get();
        self.left.set(left);
        self.first.set(id.wrapping_add(1));
        Some(id)
    }

    /// Takes ids ahead when none are left. Returns whether the slot's next segment is due; `None`
    /// if the session takes none ahead, or the slot has none.
    pub fn fill(&self) -> Option<bool> {
        if let Some(then) = self.then.take() {
            self.begin(Some(then));
            return Some(false);
        }
        let (slot, size, epoch) = (self.slot.get()?, self.size.get(), self.epoch.get());
        // In another epoch, ids that are taken would be lost.
        if size == 1 || slot.buffer.epoch() != epoch {
            return None;
        }
        let drawn = slot.buffer.draw_many_at(epoch, slot.buffer.ahead(size))?;
        let mut runs = drawn.runs.iter();
        self.begin(runs.next());
        self.then.set(runs.next());
        Some(drawn.due)
    }

    /// How many ids the session takes at once.
    pub fn size(&self) -> u64 {
        self.size.get()
    }

    /// Takes up to `count` ids out, if they are of this slot and this epoch.
    pub fn take(&self, slot: &Slot, epoch: u64, count: u64) -> Option<Run> {
        // Compared again: the tag was looked up after its epoch was read.
        if !self.is_of(slot, epoch) || slot.buffer.epoch() != epoch {
            return None;
        }
        slot.buffer.note_use();
        if self.left.get() == 0 {
            self.begin(self.then.take());
        }
        let (first, len) = (self.first.get(), self.left.get());
        let run = Some(Run { first, len }).filter(|run| run.len > 0)?;
        let (taken, rest) = run.split(count);
        self.begin(rest);
        Some(taken)
    }

    /// Uses the cache for a slot, of which the session takes `size` ids at once: what was taken of
    /// another one, or in another epoch, is dropped.
    pub fn use_for(&self, slot: &'static Slot, epoch: u64, size: u64) {
        if !self.is_of(slot, epoch) {
            self.begin(None);
            self.then.set(None);
        }
        self.slot.set(Some(slot));
        self.epoch.set(epoch);
        self.size.set(size);
    }

    fn begin(&self, run: Option<Run>) {
        self.first.set(run.map_or(0, |run| run.first));
        self.left.set(run.map_or(0, |run| run.len));
    }

    fn is_of(&self, slot: &Slot, epoch: u64) -> bool {
        let own = self.slot.get();
        own.is_some_and(|own| std::ptr::eq(own, slot)) && self.epoch.get() == epoch
    }
}
