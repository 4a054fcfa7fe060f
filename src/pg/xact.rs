//! Transactions: the ones of callers, watched through callbacks, and the
//! loader's own.

use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};

use pgrx::pg_sys::panic::CaughtError;
use pgrx::{PgTryBuilder, pg_guard, pg_sys};

/// Registers leaf's callbacks at the end of (sub)transactions. Called once,
/// while the server preloads leaf; every process inherits them.
pub fn init() {
    // SAFETY: functions without state, valid as long as the process.
    unsafe {
        pg_sys::RegisterXactCallback(Some(at_xact), std::ptr::null_mut());
        pg_sys::RegisterSubXactCallback(Some(at_subxact), std::ptr::null_mut());
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_xact(event: pg_sys::XactEvent::Type, _arg: *mut core::ffi::c_void) {
    use pg_sys::XactEvent::*;
    if !crate::transaction::is_involved() {
        return;
    }
    match event {
        XACT_EVENT_PRE_COMMIT => {
            crate::transaction::before_commit();
            crate::transaction::drop_stale_ids();
        }
        XACT_EVENT_PRE_PREPARE => crate::transaction::before_prepare(),
        XACT_EVENT_COMMIT => crate::transaction::after_commit(),
        XACT_EVENT_ABORT | XACT_EVENT_PARALLEL_ABORT => crate::transaction::after_abort(),
        _ => {}
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_subxact(
    event: pg_sys::SubXactEvent::Type,
    sub: pg_sys::SubTransactionId,
    parent: pg_sys::SubTransactionId,
    _arg: *mut core::ffi::c_void,
) {
    use pg_sys::SubXactEvent::*;
    if !crate::transaction::is_involved() {
        return;
    }
    match event {
        SUBXACT_EVENT_COMMIT_SUB => crate::transaction::after_sub_commit(sub, parent),
        SUBXACT_EVENT_ABORT_SUB => crate::transaction::after_sub_abort(sub),
        _ => {}
    }
}

/// The innermost subtransaction that is open.
pub fn current_sub() -> pg_sys::SubTransactionId {
    // SAFETY: reads this process's transaction state.
    unsafe { pg_sys::GetCurrentSubTransactionId() }
}

/// Whether this process works on a part of somebody else's parallel plan.
pub fn is_parallel_worker() -> bool {
    // SAFETY: a plain variable of this process.
    unsafe { pg_sys::ParallelWorkerNumber >= 0 }
}

/// Whether the present transaction has an id: it has written something.
pub fn has_written() -> bool {
    // SAFETY: reads this process's transaction state.
    unsafe { pg_sys::GetTopTransactionIdIfAny() != pg_sys::InvalidTransactionId }
}

/// Runs `work`, which may write even if the transaction is read-only: leaf's
/// own bookkeeping is not the caller's data. After an error the transaction's
/// end restores the mark.
pub fn writable<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: a plain variable of this process.
    let read_only = unsafe { pg_sys::XactReadOnly };
    // SAFETY: as above.
    unsafe { pg_sys::XactReadOnly = false };
    let result = work();
    // SAFETY: as above.
    unsafe { pg_sys::XactReadOnly = read_only };
    result
}

/// Runs `work` with a snapshot, where PostgreSQL has none: before a commit.
pub fn with_snapshot<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: pushes and pops in pairs; an error leaves it to the abort.
    unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let result = work();
        pg_sys::PopActiveSnapshot();
        result
    }
}

/// An error that was caught: what a person should see of it.
#[derive(Clone, Debug)]
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
            crate::pg::timeout::stop();
            // SAFETY: an error leaves the transaction to be aborted by whoever
            // catches it.
            unsafe {
                pg_sys::InterruptHoldoffCount = 0;
                pg_sys::AbortCurrentTransaction();
            }
        })
}

/// Set while [`run`] commits.
static COMMITTING: AtomicBool = AtomicBool::new(false);

/// Whether this process is committing a transaction of its own, and must not be
/// cancelled. Safe in a signal handler.
pub fn is_committing() -> bool {
    COMMITTING.load(Ordering::Relaxed)
}

/// Whether a parallel plan is being executed, by this process or for another.
pub fn is_parallel() -> bool {
    // SAFETY: reads this process's transaction state.
    unsafe { pg_sys::IsInParallelMode() }
}

/// Rolls back whatever transaction this process has open.
pub fn abort_any() {
    // SAFETY: does nothing when there is none.
    unsafe { pg_sys::AbortOutOfAnyTransaction() };
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
