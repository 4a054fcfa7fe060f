//! Leases that the current transaction has ended early.
//!
//! A ceiling in the file of [`ceilings`] is lowered only once the end of its lease is
//! committed. After a rollback, the holder continues, and the registry, which still has
//! the higher ceiling, can be dropped.

use std::cell::RefCell;

use leaf_core::journal::Journal;
use leaf_core::time::WallTime;
use pgrx::pg_sys::SubTransactionId;

use super::ceilings;
use crate::pg::{self, database, xact, xact_end};

struct Release {
    worker_id: u64,
    /// The ceiling so far, and the one that is sufficient for what the holder has used.
    from: WallTime,
    to: WallTime,
}

thread_local! {
    static RELEASES: RefCell<Journal<Release>> = RefCell::default();
}

/// Records that the ceiling in the file is to be lowered at the commit.
pub fn record(worker_id: u64, from: WallTime, to: WallTime) {
    xact_end::involve();
    let release = Release {
        worker_id,
        from,
        to,
    };
    RELEASES.with_borrow_mut(|releases| {
        releases.push(xact::current_sub(), release);
    });
}

/// Called after the commit. Raises no error: if the file is not changed, the next lease
/// only begins later.
pub fn after_commit() {
    let database = database::current();
    for release in RELEASES.take().iter() {
        let Release {
            worker_id,
            from,
            to,
        } = *release;
        if let Err(error) = ceilings::lower(database, worker_id, from, to) {
            pg::log(&format!(
                "could not lower the ceiling of worker id {worker_id}: {error}"
            ));
        }
    }
}

/// Called after a rollback, and before `PREPARE TRANSACTION`, because another session may
/// commit the prepared transaction.
pub fn forget() {
    RELEASES.take();
}

/// A savepoint was released: its actions now belong to its parent.
pub fn after_sub_commit(sub: SubTransactionId, parent: SubTransactionId) {
    RELEASES.with_borrow_mut(|releases| releases.release(sub, parent));
}

/// A savepoint was rolled back: its actions are discarded.
pub fn after_sub_abort(sub: SubTransactionId) {
    RELEASES.with_borrow_mut(|releases| releases.roll_back(sub, |_| {}));
}
