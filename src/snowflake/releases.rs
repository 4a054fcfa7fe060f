//! Leases that the present transaction has ended before their time.
//!
//! The file of [`ceilings`] forgets what a lease may have used only once its end
//! is committed: after a rollback the holder continues, and the registry, which
//! would still say so, can be dropped.

use std::cell::RefCell;

use leaf_core::journal::Journal;
use leaf_core::time::WallTime;
use pgrx::pg_sys::SubTransactionId;

use super::ceilings;
use crate::pg::{self, database, xact, xact_end};

struct Release {
    worker_id: u64,
    /// The ceiling so far, and the one that the holder says is enough.
    from: WallTime,
    to: WallTime,
}

thread_local! {
    static RELEASES: RefCell<Journal<Release>> = RefCell::default();
}

/// Has the file lowered at the commit.
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

/// After the commit. Raises no error: a file that stays as it was costs time,
/// not ids.
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

/// After a rollback, and before a `PREPARE TRANSACTION`, whose commit this
/// session may not see.
pub fn forget() {
    RELEASES.take();
}

/// After a savepoint was released: its actions are its parent's.
pub fn after_sub_commit(sub: SubTransactionId, parent: SubTransactionId) {
    RELEASES.with_borrow_mut(|releases| releases.release(sub, parent));
}

/// After a savepoint was rolled back.
pub fn after_sub_abort(sub: SubTransactionId) {
    RELEASES.with_borrow_mut(|releases| releases.roll_back(sub, |_, _| {}));
}
