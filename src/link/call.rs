//! Waking the link, or having it started.

use crate::pg::bgworker;
use crate::shmem::worker_table::Claim;
use crate::shmem::{LINK, Shared};

/// Wakes the link, or has it started; `false` if there is no free background worker slot. Never
/// raises an error, and never waits.
pub fn call_link(shared: &Shared) -> bool {
    if let Some(latch) = shared.links.latch_of(LINK) {
        latch.set();
        return true;
    }
    match shared.links.claim_start(LINK) {
        Claim::Mine => {}
        Claim::Others => return true,
        Claim::Full => return false,
    }
    let is_started = bgworker::start_without_database("leaf link", "leaf link", "leaf_link_main");
    if !is_started {
        shared.links.abandon_start(LINK);
    }
    is_started
}
