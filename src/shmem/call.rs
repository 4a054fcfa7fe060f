//! Waking the loader of a database, or having one started.

use super::Shared;
use super::loaders::Claim;
use crate::pg::bgworker;

/// The state of the loader once it was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loader {
    /// It is running, or is being started by this call.
    Running,
    /// Another process is having it started.
    Starting,
    /// There is no free background worker slot.
    NoWorkerSlot,
}

/// Wakes the loader of `database`, or has one started. Never raises an error, and never
/// waits for the loader.
pub fn call_loader(shared: &Shared, database: u32) -> Loader {
    if let Some(latch) = shared.loaders.latch_of(database) {
        latch.set();
        return Loader::Running;
    }
    match shared.loaders.claim_start(database) {
        Claim::Mine => {}
        Claim::Others => return Loader::Starting,
        Claim::Full => return Loader::NoWorkerSlot,
    }
    let is_started = bgworker::start(
        &format!("leaf loader for database {database}"),
        "leaf loader",
        "leaf_loader_main",
        database,
    );
    if is_started {
        return Loader::Running;
    }
    shared.loaders.abandon_start(database);
    Loader::NoWorkerSlot
}
