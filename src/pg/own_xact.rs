//! Transactions of leaf's own, in a process that no client talks to.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::{PgTryBuilder, pg_sys};

use super::{database, timeout};

/// An error that was caught: what a person should see of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The primary message.
    pub message: String,
}

/// Runs `work` in a transaction of its own, with a fresh snapshot, and commits.
/// After an error everything is rolled back and the process goes on.
///
/// `committed` runs between the commit and the next moment at which this
/// process can be interrupted; it is told whether the commit can be relied on:
/// `false` when a termination may have cut short the wait for the standby.
pub fn run<T>(work: impl FnOnce() -> T, committed: impl FnOnce(T, bool)) -> Result<(), Failure> {
    let attempt = AssertUnwindSafe(|| {
        // SAFETY: the process is between transactions; the calls nest as
        // PostgreSQL's own workers nest them.
        unsafe {
            pg_sys::StartTransactionCommand();
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        }
        let result = work();
        // SAFETY: as above. Interrupts stay held from before the commit until
        // `committed` has run, so that nothing is published of a grant whose
        // commit was cut short, and nothing is lost of one that was not.
        unsafe {
            pg_sys::PopActiveSnapshot();
            pg_sys::InterruptHoldoffCount += 1;
            // A cancel that comes late must not cut the wait for a standby.
            COMMITTING.store(true, Ordering::Relaxed);
            pg_sys::QueryCancelPending = 0;
            pg_sys::CommitTransactionCommand();
        }
        COMMITTING.store(false, Ordering::Relaxed);
        committed(result, !standby_wait_was_cut());
        // SAFETY: ends what was begun above.
        unsafe { pg_sys::InterruptHoldoffCount -= 1 };
        Ok(())
    });
    PgTryBuilder::new(attempt)
        .catch_others(|error| Err(failure(&error)))
        .catch_rust_panic(|error| Err(failure(&error)))
        .execute()
        .inspect_err(|_| {
            COMMITTING.store(false, Ordering::Relaxed);
            timeout::stop();
            // SAFETY: an error leaves the transaction to be aborted by whoever
            // catches it.
            unsafe {
                pg_sys::InterruptHoldoffCount = 0;
                pg_sys::AbortCurrentTransaction();
            }
        })
}

/// How long a transaction of [`run_briefly`] may take: less than the five seconds
/// that `DROP DATABASE` waits for others.
const BRIEFLY: Duration = Duration::from_secs(3);

/// As [`run`], for a process that must never be in the way: the transaction is
/// cancelled if it takes long, and does nothing if somebody waits for exclusive
/// access to the database.
///
/// `settle` is told of what `work` has made, if the commit can be relied on. If
/// it cannot, this process ends next. Returns `false` when this process must leave
/// the database: somebody waits for it, or `work` returned nothing.
pub fn run_briefly<T>(
    work: impl FnOnce() -> Option<T>,
    settle: impl FnOnce(T),
) -> Result<bool, Failure> {
    let mut stays = true;
    run(
        || {
            timeout::start(BRIEFLY);
            let result = match database::is_free(database::current()) {
                true => work(),
                false => None,
            };
            timeout::stop();
            result
        },
        |result, is_reliable| match result {
            None => stays = false,
            Some(result) if is_reliable => settle(result),
            // The wait for the standby was cut short: a failover may lose what
            // was committed, so nobody may rely on it.
            Some(_) => {}
        },
    )?;
    Ok(stays)
}

/// Set while [`run`] commits.
static COMMITTING: AtomicBool = AtomicBool::new(false);

/// Whether this process is committing a transaction of its own, and must not be
/// cancelled. Safe in a signal handler.
pub fn is_committing() -> bool {
    COMMITTING.load(Ordering::Relaxed)
}

/// Whether this process was told to end while a commit may have waited for a
/// standby: the wait then ends early without saying so.
fn standby_wait_was_cut() -> bool {
    // SAFETY: plain variables of this process; the string is NUL-terminated.
    unsafe {
        let names = pg_sys::SyncRepStandbyNames;
        pg_sys::ProcDiePending != 0 && !names.is_null() && *names != 0
    }
}

fn failure(error: &CaughtError) -> Failure {
    let report = match error {
        CaughtError::PostgresError(report) | CaughtError::ErrorReport(report) => report,
        CaughtError::RustPanic { ereport, .. } => ereport,
    };
    // Without the detail, which may show the row to whoever draws.
    let message = report.message().to_string();
    Failure { message }
}
