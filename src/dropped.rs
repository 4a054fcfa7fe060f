//! Frees the shared memory of databases that are dropped. A later database may get the same
//! OID, and a copy of the same template has the same tags.

use std::cell::RefCell;

use leaf_core::file;
use pgrx::pg_sys::SubTransactionId;

use crate::pg::data_directory;
use crate::pg::xact_end::{self, Observer};
use crate::shmem;

thread_local! {
    /// The databases that the current transaction drops.
    static DROPPED: RefCell<Vec<u32>> = RefCell::default();
}

/// Called when the current transaction drops a database. Its loader, which would notice that within
/// a second, is woken: the drop waits for its end.
pub fn at_drop(database: u32) {
    xact_end::involve();
    let loader = shmem::get().and_then(|shared| shared.loaders.latch_of(database));
    if let Some(latch) = loader {
        latch.set();
    }
    DROPPED.with_borrow_mut(|dropped| dropped.push(database));
}

/// Frees the memory at the commit of the drop.
pub struct AtEnd;

impl Observer for AtEnd {
    fn after_commit(&self) {
        let dropped = DROPPED.take();
        let Some(shared) = shmem::get() else {
            return;
        };
        for database in dropped {
            shared.index.free_all(database, |_| true);
            shared.leftovers.forget(database);
            shared.generators.free(database);
            shared.loaders.forget(database);
            // Otherwise, rows of a later database with the same OID would be compared with these.
            let _ = file::remove_durably(&data_directory::rows_of(database));
        }
    }

    fn after_abort(&self) {
        DROPPED.take();
    }

    /// `DROP DATABASE` does not run in a transaction block, and so in no savepoint.
    fn after_sub_commit(&self, _sub: SubTransactionId, _parent: SubTransactionId) {}

    fn after_sub_abort(&self, _sub: SubTransactionId) {}
}
