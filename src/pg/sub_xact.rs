//! Subtransactions, to undo what could not be completed.

use std::panic::AssertUnwindSafe;

use pgrx::{PgSqlErrorCode as Code, PgTryBuilder, pg_sys};

/// Runs `work` in a subtransaction. If a lock is not available in time, or waiting for it is
/// a deadlock, everything that it has done is undone, its locks are released, and the result
/// is `None`; other errors are raised.
pub fn unless_blocked<R>(work: impl FnOnce() -> R) -> Option<R> {
    // SAFETY: the sequence that PL/pgSQL uses for a block with an exception clause.
    unsafe {
        let memory = pg_sys::CurrentMemoryContext;
        let owner = pg_sys::CurrentResourceOwner;
        pg_sys::BeginInternalSubTransaction(std::ptr::null());
        pg_sys::MemoryContextSwitchTo(memory);
        let back = move || {
            pg_sys::MemoryContextSwitchTo(memory);
            pg_sys::CurrentResourceOwner = owner;
        };
        // After any error: PostgreSQL expects the code that began a subtransaction to end it.
        let undo = move || {
            pg_sys::RollbackAndReleaseCurrentSubTransaction();
            back();
        };
        let give_up = move |_| {
            undo();
            None
        };
        PgTryBuilder::new(AssertUnwindSafe(|| {
            let result = work();
            pg_sys::ReleaseCurrentSubTransaction();
            back();
            Some(result)
        }))
        .catch_when(Code::ERRCODE_LOCK_NOT_AVAILABLE, give_up)
        .catch_when(Code::ERRCODE_T_R_DEADLOCK_DETECTED, give_up)
        .catch_others(move |error| {
            undo();
            error.rethrow()
        })
        .catch_rust_panic(move |error| {
            undo();
            error.rethrow()
        })
        .execute()
    }
}
