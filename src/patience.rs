//! How long a call may wait, and how it ends when that was not enough.

use std::cell::Cell;
use std::time::{Duration, Instant};

use crate::error::{Error, Ids};
use crate::pg::{self, latch};
use crate::session;
use crate::settings;
use crate::shmem::loaders::Call;

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
    pub fn nap_or_give_up(&self, ids: Ids, cause: &str) {
        if self.is_over() {
            self.give_up(ids, Some(cause.into()));
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
    pub fn give_up(&self, ids: Ids, cause: Option<String>) -> ! {
        if self.refused.get() && !self.answered.get() {
            Error::NoWorkerSlot { ids }.raise();
        }
        let after = self.limit;
        Error::Timeout { ids, after, cause }.raise()
    }
}
