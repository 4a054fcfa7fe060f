//! How long a call may wait, and the error if that time was not sufficient.

use std::cell::Cell;
use std::fmt;
use std::time::{Duration, Instant};

use pgrx::PgSqlErrorCode as Code;

use crate::error::Report;
use crate::pg::condvar::CondVar;
use crate::pg::wait_event::WaitEvent;
use crate::pg::{self, latch, process};
use crate::settings;
use crate::shmem::call::{Loader, call_loader};
use crate::shmem::failures::Failures;
use crate::shmem::text::Keep;
use crate::shmem::{self, Shared};

/// How long a waiting call sleeps before it checks the loader again: it may have
/// ended, or a worker slot may have become free.
const LONGEST_NAP: Duration = Duration::from_millis(100);

/// Which ids a call waits for.
#[derive(Clone, Copy, Debug)]
pub enum Ids<'t> {
    OfTag(&'t [u8]),
    /// Ids of all tags.
    OfTags,
    Snowflake,
}

impl Ids<'_> {
    fn wait_event(self) -> WaitEvent {
        match self {
            Ids::OfTag(_) | Ids::OfTags => WaitEvent::Segment,
            Ids::Snowflake => WaitEvent::Snowflake,
        }
    }
}

impl fmt::Display for Ids<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ids::OfTag(tag) => write!(f, "ids for tag \"{}\"", pg::display(tag)),
            Ids::OfTags => f.write_str("ids for tags"),
            Ids::Snowflake => f.write_str("snowflake ids"),
        }
    }
}

/// How long one call may wait in total.
pub struct Patience<'t> {
    ids: Ids<'t>,
    since: Instant,
    limit: Duration,
    /// Whether the loader was running at any call of it.
    had_loader: Cell<bool>,
    /// Whether any call of the loader found no free worker slot.
    lacked_slot: Cell<bool>,
}

impl<'t> Patience<'t> {
    /// Allows waiting for `leaf.wait_timeout` from now on.
    pub fn new(ids: Ids<'t>) -> Self {
        Patience {
            ids,
            since: Instant::now(),
            limit: settings::server::wait_timeout(),
            had_loader: Cell::new(false),
            lacked_slot: Cell::new(false),
        }
    }

    /// Whether the time is up.
    pub fn is_over(&self) -> bool {
        self.since.elapsed() >= self.limit
    }

    /// How long the call has been waiting.
    pub fn waited(&self) -> Duration {
        self.since.elapsed()
    }

    /// Sleeps until `ready` returns a value, and calls it whenever `changed` is
    /// signalled; `None` once the time is up. Calls `ask` each time before it sleeps.
    /// Can be cancelled.
    pub fn wait_on<R>(
        &self,
        changed: &CondVar,
        mut ready: impl FnMut() -> Option<R>,
        mut ask: impl FnMut(),
    ) -> Option<R> {
        changed.wait_for(
            || {
                if let Some(result) = ready() {
                    return Some(Some(result));
                }
                if self.is_over() {
                    return Some(None);
                }
                self.require_session();
                ask();
                None
            },
            || self.next_nap(),
            self.ids.wait_event(),
        )
    }

    /// Sleeps for a few milliseconds; can be cancelled.
    pub fn nap(&self) {
        self.nap_for(Duration::from_millis(5));
    }

    /// Sleeps for `duration`, but at most until the loader has to be checked again or
    /// the time is up; can be cancelled.
    pub fn nap_for(&self, duration: Duration) {
        self.require_session();
        latch::wait(duration.min(self.next_nap()), self.ids.wait_event());
        process::check_for_interrupts();
    }

    /// Sleeps for a few milliseconds, or raises the error if the time is up, with the
    /// cause; can be cancelled.
    pub fn nap_or_give_up(&self, cause: &str) {
        if self.is_over() {
            self.give_up(Some(cause.into()));
        }
        self.nap();
    }

    /// Nothing can be waited for in the loader, which itself does what sessions wait for.
    fn require_session(&self) {
        if loader_of_this_database() == Some(process::my_pid()) {
            let ids = self.ids.to_string();
            // When: a trigger on a table of leaf draws ids
            Report::not_ready(
                format!("cannot wait for {ids} during a grant"),
                "Remove the trigger on a table of leaf that draws ids.",
            )
            .raise();
        }
    }

    fn next_nap(&self) -> Duration {
        self.limit
            .saturating_sub(self.since.elapsed())
            .min(LONGEST_NAP)
    }

    /// Wakes the loader of this database, or has one started.
    pub fn call_loader(&self, shared: &Shared) {
        match call_loader(shared, pg::database::current()) {
            Loader::Running => self.had_loader.set(true),
            Loader::Starting => {}
            Loader::NoWorkerSlot => self.lacked_slot.set(true),
        }
    }

    /// Whether there was a loader while the call has waited.
    pub fn had_loader(&self) -> bool {
        self.had_loader.get()
    }

    /// Whether no loader could be started while the call has waited.
    fn lacks_loader(&self) -> bool {
        self.lacked_slot.get() && !self.had_loader.get()
    }

    /// The last failure of what the call has waited for, which this is if no loader could be started.
    pub fn last_cause<T: Keep>(&self, failures: &mut Failures<T>) -> Option<String> {
        if self.lacks_loader() {
            failures.note("no background worker slot for the loader; raise max_worker_processes");
        }
        failures.message()
    }

    /// Raises the error for a wait that was too long, with the cause if there is one.
    pub fn give_up(&self, cause: Option<String>) -> ! {
        self.too_late(self.ids, cause).raise()
    }

    /// The error for a wait for some ids that was too long, with the cause if there is one.
    pub fn too_late(&self, ids: Ids<'_>, cause: Option<String>) -> Report {
        let ids = ids.to_string();
        if self.lacks_loader() {
            // When: no loader could be started within `leaf.wait_timeout`
            return Report::new(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                format!("no background worker slot for the loader of {ids}"),
                "Raise max_worker_processes, or lower leaf.loader_idle_timeout, after which the loaders of idle databases end.",
            );
        }
        let after = self.waited().min(self.limit);
        let waits_for = loader_of_this_database().and_then(process::wait_event_of);
        // When: a load or a lease took longer than `leaf.wait_timeout`; DETAIL has the cause of the
        // last failure
        Report::new(
            Code::ERRCODE_LOCK_NOT_AVAILABLE,
            format!("no {ids} within {} ms", after.as_millis()),
            "Remove the cause and try again; leaf.wait_timeout sets how long to wait.",
        )
        .detail(match (cause, waits_for) {
            (Some(cause), _) => format!("The last attempt failed: {cause}"),
            (None, Some(event)) if event.ends_with(": SyncRep") => {
                "The loader waits for a synchronous standby (wait event SyncRep).".into()
            }
            (None, Some(event)) => {
                format!("The loader has not processed the request yet; its wait event is {event}.")
            }
            (None, None) => "The loader has not processed the request yet.".into(),
        })
    }
}

/// The process ID of the loader of this database, if it runs.
fn loader_of_this_database() -> Option<i32> {
    shmem::get()?.loaders.pid_of(pg::database::current())
}
