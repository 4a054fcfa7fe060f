//! Waking the loader of a database, or having one started.

use crate::pg::bgworker;
use crate::shmem::Shared;
use crate::shmem::worker_table::Claim;

/// The outcome of a call of the loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// The loader is running, or is being started by this call.
    Answered,
    /// Another process is having it started.
    Pending,
    /// There is no free background worker slot.
    NoWorkerSlot,
}

/// Wakes the loader of `database`, or has one started. Never raises an error, and never
/// waits for the loader.
pub fn call_loader(shared: &Shared, database: u32) -> Call {
    if let Some(latch) = shared.loaders.latch_of(database) {
        latch.set();
        return Call::Answered;
    }
    match shared.loaders.claim_start(database) {
        Claim::Mine => {}
        Claim::Others => return Call::Pending,
        Claim::Full => return Call::NoWorkerSlot,
    }
    let is_started = bgworker::start(
        &format!("leaf loader for database {database}"),
        "leaf loader",
        "leaf_loader_main",
        database,
    );
    if is_started {
        return Call::Answered;
    }
    shared.loaders.abandon_start(database);
    Call::NoWorkerSlot
}
