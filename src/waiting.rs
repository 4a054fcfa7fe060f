//! Drawing from a slot, and waiting for the loader when it is empty.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use leaf_core::buffer::Runs;

use crate::catalog;
use crate::error::Error;
use crate::pg::{self, latch};
use crate::session::{self, SharedSource};
use crate::settings;
use crate::shmem::loaders::Call;
use crate::shmem::slot::Verdict;

/// A waiter looks after the loader this often: it may have ended, or there may
/// be a free worker slot by now.
const LONGEST_NAP: Duration = Duration::from_millis(100);

/// How long one call may wait in all.
pub struct Patience {
    since: Instant,
    limit: Duration,
    /// Whether any call for the loader has been answered.
    answered: Cell<bool>,
    /// Whether any call found no worker slot.
    refused: Cell<bool>,
}

impl Patience {
    /// Patience for `leaf.wait_timeout` from now.
    pub fn new() -> Self {
        Patience {
            since: Instant::now(),
            limit: settings::wait_timeout(),
            answered: Cell::new(false),
            refused: Cell::new(false),
        }
    }

    /// Whether the time is up.
    pub fn is_over(&self) -> bool {
        self.since.elapsed() >= self.limit
    }

    /// How long to sleep before looking again.
    pub fn next_nap(&self) -> Duration {
        self.limit
            .saturating_sub(self.since.elapsed())
            .min(LONGEST_NAP)
    }

    /// Sleeps a moment; can be cancelled.
    pub fn nap(&self) {
        latch::wait(Duration::from_millis(5));
        pg::check_for_interrupts();
    }

    /// Sleeps a moment, unless the time is up; can be cancelled.
    pub fn nap_or_give_up(&self, tag: &[u8], cause: &str) {
        if self.is_over() {
            self.give_up(tag, Some(cause.into()));
        }
        self.nap();
    }

    /// Calls the loader of this database.
    pub fn call_loader(&self) {
        match session::shared().call_loader(pg::database().to_u32()) {
            Call::Answered => self.answered.set(true),
            Call::Pending => {}
            Call::NoWorkerSlot => self.refused.set(true),
        }
    }

    /// Gives up.
    pub fn give_up(&self, tag: &[u8], cause: Option<String>) -> ! {
        let tag = catalog::display(tag);
        if self.refused.get() && !self.answered.get() {
            Error::NoWorkerSlot { tag }.raise();
        }
        let after = self.limit;
        Error::Timeout { tag, after, cause }.raise()
    }
}

/// Asks the loader for the slot's next segment. Never waits, never fails.
#[cold]
pub fn request_load(number: usize) {
    let shared = session::shared();
    let database = pg::database().to_u32();
    shared.request(number, database);
    shared.call_loader(database);
}

/// Draws one id, waiting for the loader if need be. `None` when the slot has
/// begun a new epoch: resolve the tag again.
pub fn draw(source: &SharedSource, tag: &[u8], patience: &Patience) -> Option<i64> {
    loop {
        if let Some(drawn) = source.slot.buffer.draw() {
            if drawn.due {
                request_load(source.number);
            }
            return (source.slot.buffer.epoch() == source.epoch).then_some(drawn.id);
        }
        wait(source, tag, patience)?;
    }
}

/// As [`draw`] for several ids at once, at most `count`.
pub fn draw_many(
    source: &SharedSource,
    tag: &[u8],
    count: u64,
    patience: &Patience,
) -> Option<Runs> {
    loop {
        if let Some(drawn) = source.slot.buffer.draw_many(count) {
            if drawn.due {
                request_load(source.number);
            }
            return (source.slot.buffer.epoch() == source.epoch).then_some(drawn.runs);
        }
        wait(source, tag, patience)?;
    }
}

/// What ends a wait.
enum End {
    Ids,
    NewEpoch,
    Exhausted,
    Missing,
    TimedOut,
}

/// Waits until the slot has ids. `None` when it has begun a new epoch.
fn wait(source: &SharedSource, tag: &[u8], patience: &Patience) -> Option<()> {
    let slot = source.slot;
    let began = Instant::now();
    let end = slot.changed.wait_for(
        || {
            if let Some(end) = look(source) {
                return Some(end);
            }
            if source.own_change {
                Error::OwnChange {
                    tag: catalog::display(tag),
                }
                .raise();
            }
            if patience.is_over() {
                return Some(End::TimedOut);
            }
            session::shared().request(source.number, pg::database().to_u32());
            patience.call_loader();
            None
        },
        || patience.next_nap(),
    );
    match end {
        End::Ids => slot.waits.add(began.elapsed()),
        End::NewEpoch => return None,
        End::Exhausted => Error::Exhausted {
            tag: catalog::display(tag),
        }
        .raise(),
        End::Missing => {
            // The row may have appeared since; resolving the tag anew tells.
            session::forget(tag);
            slot.state.exclusive().verdict = Verdict::Loadable;
            patience.nap();
            return None;
        }
        End::TimedOut => {
            slot.waits.timeouts.fetch_add(1, Ordering::Relaxed);
            let cause = slot.state.shared().error.message();
            patience.give_up(tag, cause);
        }
    }
    Some(())
}

/// Whether there is anything to wait for.
fn look(source: &SharedSource) -> Option<End> {
    let slot = source.slot;
    if slot.buffer.epoch() != source.epoch {
        return Some(End::NewEpoch);
    }
    if slot.buffer.has_ids() {
        return Some(End::Ids);
    }
    match slot.state.shared().verdict {
        Verdict::Loadable => None,
        Verdict::Exhausted => Some(End::Exhausted),
        Verdict::Missing => Some(End::Missing),
    }
}
