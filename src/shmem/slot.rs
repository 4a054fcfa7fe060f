//! A tag's place in shared memory.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use leaf_core::buffer::{Full, Runs};
use leaf_core::grant::Grantor;
use leaf_core::time::{Monotonic, WallTime};
use leaf_core::{DoubleBuffer, Run};

use super::failures::Failures;
use super::texts::KeptText;
use super::upstream::Denial;
use super::waits::Waits;
use crate::pg::clock::{self, AtomicMonotonic};
use crate::pg::condvar::CondVar;
use crate::pg::lwlock::{Locked, WriteGuard};
use crate::pg::shm::{Shareable, Startup};

/// Everything leaf shares about one tag. Written as a whole once, at server start;
/// after that, as described at each field.
#[repr(C)]
pub struct Slot {
    /// The ids. All sessions draw from it; written under `state`'s lock.
    pub buffer: DoubleBuffer,
    /// The loader's record of the tag, and the lock for `buffer`.
    pub state: Locked<TagState>,
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
}

// SAFETY: it has no pointers.
unsafe impl Shareable for Slot {}

/// How long a session's wait keeps a slot from being evicted. A session that still waits
/// says so much more often than this.
const WAIT_LIFE: Duration = Duration::from_secs(2);

/// Whether another load can succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It can, as far as is known.
    Loadable,
    /// The tag has reached its `max_value`.
    Exhausted,
    /// The loader found no row for the tag.
    Missing,
    /// The centre has denied it, for a reason that does not pass soon.
    Denied(Denial),
}

/// The loader's record of a slot's tag.
#[repr(C)]
pub struct TagState {
    /// One past the largest id ever published for the tag's present row, or
    /// `i64::MIN`. A row that is below it grants nothing.
    pub high_water: i64,
    /// Ids in the last segment; 0 before the first.
    pub step: u64,
    /// When the last segment was published; 0 before the first.
    pub loaded_at: Monotonic,
    /// Segments published since the statistics were reset.
    pub loads: u64,
    /// How fast ids were drawn between the last two loads, in ids per second; 0 if not known.
    pub ids_per_second: f64,
    /// Ids that came into the buffer, less those that were dropped, and how many had been
    /// drawn when the statistics were reset and when the last segment was published.
    entered: u64,
    drawn_at_reset: u64,
    drawn_at_load: u64,
    /// Since when the statistics count.
    pub reset_at: WallTime,
    /// Whether another load can succeed.
    pub verdict: Verdict,
    /// Who has granted the ids. Beside the verdict, it takes no room.
    pub grantor: Grantor,
    /// Loads that failed.
    pub failures: Failures<KeptText>,
}

// SAFETY: it has no pointers.
unsafe impl Shareable for TagState {}

impl TagState {
    const NEW: TagState = TagState {
        high_water: i64::MIN,
        step: 0,
        loaded_at: Monotonic::ZERO,
        loads: 0,
        ids_per_second: 0.0,
        entered: 0,
        drawn_at_reset: 0,
        drawn_at_load: 0,
        grantor: Grantor::Row,
        reset_at: WallTime::from_unix_us(0),
        verdict: Verdict::Loadable,
        failures: Failures::NONE,
    };
}

impl Slot {
    /// A slot without ids.
    pub(super) fn new(startup: &Startup) -> Self {
        Slot {
            buffer: DoubleBuffer::new(),
            state: Locked::new(TagState::NEW, startup),
            changed: CondVar::new(),
            waits: Waits::default(),
            retry_at: AtomicMonotonic::new(),
            is_loading: AtomicBool::new(false),
            awaited_at: AtomicMonotonic::new(),
            drawn_before: AtomicU64::new(0),
        }
    }

    /// Begins a new epoch because the slot serves another tag, or none. Everything about
    /// the earlier tag is cleared. Returns the unused ids.
    pub fn begin_anew(&self) -> Runs {
        let mut unused = Runs::default();
        self.begin_epoch(|state| {
            unused = self.buffer.take_rest();
            *state = TagState {
                reset_at: clock::now(),
                ..TagState::NEW
            };
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
            self.discard(state);
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
                self.discard(state);
                state.verdict = Verdict::Missing;
            });
        }
    }

    fn discard(&self, state: &mut TagState) {
        state.entered -= self.buffer.take_rest().len();
    }

    /// Publishes ids in the buffer, whose lock is held for `state`. Returns whether the next
    /// segment is due.
    pub fn publish(
        &self,
        state: &mut TagState,
        run: Run,
        prefetch_after: u64,
    ) -> Result<bool, Full> {
        let drawn = self.drawn(state);
        let is_due = self.buffer.publish(run.first, run.len, prefetch_after)?;
        state.entered += run.len;
        state.drawn_at_load = drawn;
        Ok(is_due)
    }

    /// How many ids were drawn from the buffer since it serves the tag. A draw counts nothing:
    /// this is what came into the buffer without what is left.
    fn drawn(&self, state: &TagState) -> u64 {
        let levels = self.buffer.levels();
        state.entered.saturating_sub(levels.current + levels.next)
    }

    /// How many ids were drawn since the last segment was published.
    pub fn drawn_since_load(&self, state: &TagState) -> u64 {
        self.drawn(state).saturating_sub(state.drawn_at_load)
    }

    /// How many ids were drawn since the statistics were reset.
    pub fn ids_drawn(&self, state: &TagState) -> u64 {
        self.drawn(state).saturating_sub(state.drawn_at_reset)
    }

    /// How fast ids are drawn, in ids per second: as fast as the last full segment was used
    /// up, or slower if the current one lasts longer already than it would at that speed.
    pub fn ids_per_second(&self, state: &TagState, now: Monotonic) -> f64 {
        let drawn = self.drawn_since_load(state) as f64;
        let present = drawn * 1e6 / now.since(state.loaded_at).as_micros().max(1) as f64;
        match state.ids_per_second {
            0.0 => present,
            before => {
                // At least one segment at that speed must fit in before the current one tells.
                let full = state.step as f64 / before;
                let is_long = now.since(state.loaded_at).as_secs_f64() > full;
                if is_long { present.min(before) } else { before }
            }
        }
    }

    /// Resets the statistics.
    pub fn reset_statistics(&self) {
        let mut state = self.state.write();
        state.drawn_at_reset = self.drawn(&state);
        state.loads = 0;
        state.failures.forget();
        state.reset_at = clock::now();
        self.waits.clear();
    }

    fn begin_epoch(&self, change: impl FnOnce(&mut TagState)) {
        self.begin_epoch_of(self.state.write(), change);
    }

    fn begin_epoch_of(
        &self,
        mut state: WriteGuard<'_, TagState>,
        change: impl FnOnce(&mut TagState),
    ) {
        self.buffer.bump_epoch();
        change(&mut state);
        self.retry_at.set(Monotonic::ZERO);
        drop(state);
        self.changed.broadcast();
    }
}

fn reconsider(state: &mut TagState) {
    state.verdict = Verdict::Loadable;
    state.failures.end();
}
