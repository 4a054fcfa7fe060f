//! The current transaction of this process.

use pgrx::pg_sys;

/// The innermost subtransaction that is open.
pub fn current_sub() -> pg_sys::SubTransactionId {
    // SAFETY: reads this process's transaction state.
    unsafe { pg_sys::GetCurrentSubTransactionId() }
}

/// The ID of the current (sub)transaction as a value of type `xid`: the xmin of the rows
/// that it writes.
pub fn current_id() -> pg_sys::Datum {
    // SAFETY: called where rows are written, which assigns an ID anyway.
    let id = unsafe { pg_sys::GetCurrentTransactionId() };
    pg_sys::Datum::from(id.into_inner())
}

/// Whether this process is in a transaction.
pub fn is_in_transaction() -> bool {
    // SAFETY: reads this process's transaction state.
    unsafe { pg_sys::IsTransactionState() }
}

/// Whether the statement is within `BEGIN`, or otherwise not a transaction of its own.
pub fn is_in_block() -> bool {
    // SAFETY: reads this process's transaction state.
    unsafe { pg_sys::IsTransactionBlock() }
}

/// Whether all statements of the transaction see what its first one sees.
pub fn has_one_snapshot() -> bool {
    // SAFETY: a plain variable of this process.
    unsafe { pg_sys::XactIsoLevel >= pg_sys::XACT_REPEATABLE_READ as i32 }
}

/// Whether this process is a worker of another process's parallel plan.
pub fn is_parallel_worker() -> bool {
    // SAFETY: a plain variable of this process.
    unsafe { pg_sys::ParallelWorkerNumber >= 0 }
}

/// Whether the current transaction has an ID, because it has written something.
pub fn has_written() -> bool {
    // SAFETY: reads this process's transaction state.
    unsafe { pg_sys::GetTopTransactionIdIfAny() != pg_sys::InvalidTransactionId }
}

/// Whether a parallel plan is being executed, by this process as leader or as worker.
pub fn is_parallel() -> bool {
    // SAFETY: reads this process's transaction state.
    unsafe { pg_sys::IsInParallelMode() }
}

/// Runs `work`, which may write even if the transaction is read-only, because leaf's
/// own bookkeeping is not the caller's data.
pub fn writable<R>(work: impl FnOnce() -> R) -> R {
    struct Scope(bool);
    impl Drop for Scope {
        fn drop(&mut self) {
            // SAFETY: a plain variable of this process.
            unsafe { pg_sys::XactReadOnly = self.0 };
        }
    }
    // SAFETY: as above.
    let _scope = Scope(unsafe { pg_sys::XactReadOnly });
    // SAFETY: as above.
    unsafe { pg_sys::XactReadOnly = false };
    work()
}

/// Runs `work` with a snapshot at a point where there is none: before a commit.
pub fn with_snapshot<R>(work: impl FnOnce() -> R) -> R {
    // SAFETY: pushes and pops in pairs; after an error, the abort pops.
    unsafe {
        pg_sys::PushActiveSnapshot(pg_sys::GetTransactionSnapshot());
        let result = work();
        pg_sys::PopActiveSnapshot();
        result
    }
}
