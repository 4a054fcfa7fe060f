//! Transactions of leaf's own, in a process without a client.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pgrx::pg_sys::panic::CaughtError;
use pgrx::{PgTryBuilder, pg_sys};

use super::{database, guc, replication, timeout};

/// An error that was caught: the part of it that is shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The primary message.
    pub message: String,
}

/// Runs `work` in its own transaction, with a new snapshot, and commits. After an
/// error, everything is rolled back and the process continues.
///
/// `committed` runs after the commit, before this process can be interrupted again.
/// Its second argument is whether the commit can be relied on: `false` if a
/// termination may have cut short the wait for the standby.
fn run<T>(work: impl FnOnce() -> T, committed: impl FnOnce(T, bool)) -> Result<(), Failure> {
    let attempt = AssertUnwindSafe(|| {
        // SAFETY: the process is between transactions; the calls are nested as in
        // PostgreSQL's own workers.
        unsafe {
            // The value of now() in the transaction.
            pg_sys::SetCurrentStatementStartTimestamp();
            pg_sys::StartTransactionCommand();
            pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        }
        let result = work();
        // SAFETY: as above. Interrupts are held from before the commit until
        // `committed` has run, so that a grant whose commit was cut short is not
        // published, and one that was committed is not lost.
        unsafe {
            pg_sys::PopActiveSnapshot();
            pg_sys::InterruptHoldoffCount += 1;
            // A late cancel must not cut short the wait for a standby.
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
            // SAFETY: after an error, the transaction has to be aborted by the code
            // that catches it.
            unsafe {
                pg_sys::InterruptHoldoffCount = 0;
                pg_sys::AbortCurrentTransaction();
            }
        })
}

/// Runs `work` in its own transaction, which waits for no standby, and not long for a lock. An error
/// ends the process.
pub fn run_locally(work: impl FnOnce()) {
    guc::set(c"synchronous_commit", c"local");
    guc::set(c"lock_timeout", c"3s");
    // SAFETY: the process is between transactions.
    unsafe { pg_sys::StartTransactionCommand() };
    work();
    // SAFETY: ends what was begun above.
    unsafe { pg_sys::CommitTransactionCommand() };
}

/// How long a transaction of [`run_briefly`] may take: less than the five seconds for
/// which `DROP DATABASE` waits for other sessions.
const BRIEFLY: Duration = Duration::from_secs(3);

/// Like [`run`], for a process that must not block other sessions: the transaction is
/// cancelled if it takes too long, and does nothing if a session is waiting for
/// exclusive access to the database.
///
/// `settle` is called with the result of `work` if the commit can be relied on. If it
/// cannot, this process is about to end. Returns `false` if this process must leave
/// the database: a session is waiting for it, or `work` returned `None`.
pub fn run_briefly<T>(
    work: impl FnOnce() -> Option<T>,
    settle: impl FnOnce(T),
) -> Result<bool, Failure> {
    let mut stays = true;
    run(
        || {
            timeout::start(BRIEFLY);
            let result = match database::is_free(database::current()) {
                true => {
                    database::let_owner_end_this_process();
                    work()
                }
                false => None,
            };
            timeout::stop();
            result
        },
        |result, is_reliable| match result {
            None => stays = false,
            Some(result) if is_reliable => settle(result),
            // The wait for the standby was cut short: a failover may lose what was
            // committed, so it must not be used.
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

/// Whether this process was told to end while a commit may have been waiting for a
/// standby. In this case, the wait ends early without an error.
fn standby_wait_was_cut() -> bool {
    // SAFETY: a plain variable of this process.
    let is_ending = unsafe { pg_sys::ProcDiePending } != 0;
    is_ending && replication::has_synchronous_standby()
}

fn failure(error: &CaughtError) -> Failure {
    let report = match error {
        CaughtError::PostgresError(report) | CaughtError::ErrorReport(report) => report,
        CaughtError::RustPanic { ereport, .. } => ereport,
    };
    // Without the DETAIL, which may show the row to any role that draws.
    let message = report.message().to_string();
    Failure { message }
}
