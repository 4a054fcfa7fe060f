//! Leases that the present transaction has ended before their time.
//!
//! The file of [`ceilings`] forgets what a lease may have used only once its end
//! is committed: after a rollback the holder goes on, and the registry, which
//! would still say so, can be dropped.

use std::cell::RefCell;

use pgrx::pg_sys::SubTransactionId;

use super::ceilings;
use crate::pg::{self, xact};
use crate::transaction;

struct Release {
    by: SubTransactionId,
    worker: u64,
    /// The ceiling so far, and the one that the holder says is enough.
    from_us: i64,
    to_us: i64,
}

thread_local! {
    static RELEASES: RefCell<Vec<Release>> = const { RefCell::new(Vec::new()) };
}

/// Has the file lowered at the commit.
pub fn record(worker: u64, from_us: i64, to_us: i64) {
    transaction::involve();
    let release = Release {
        by: xact::current_sub(),
        worker,
        from_us,
        to_us,
    };
    RELEASES.with_borrow_mut(|releases| releases.push(release));
}

/// After the commit. Raises no error: a file that stays as it was costs time,
/// not ids.
pub fn after_commit() {
    let database = pg::database().to_u32();
    for release in RELEASES.take() {
        let (from_us, to_us) = (release.from_us, release.to_us);
        if let Err(error) = ceilings::lower(database, release.worker, from_us, to_us) {
            let worker = release.worker;
            pg::log(&format!(
                "could not lower the ceiling of worker id {worker}: {error}"
            ));
        }
    }
}

/// After a rollback, and before a `PREPARE TRANSACTION`, whose commit this
/// session may not see.
pub fn forget() {
    RELEASES.take();
}

/// After a savepoint was released: its doings are its parent's.
pub fn after_sub_commit(sub: SubTransactionId, parent: SubTransactionId) {
    RELEASES.with_borrow_mut(|releases| {
        for release in releases.iter_mut().filter(|release| release.by == sub) {
            release.by = parent;
        }
    });
}

/// After a savepoint was rolled back.
pub fn after_sub_abort(sub: SubTransactionId) {
    RELEASES.with_borrow_mut(|releases| releases.retain(|release| release.by != sub));
}
