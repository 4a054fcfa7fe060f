//! What a loader does, as the features give it.

use leaf_core::time::Monotonic;

use crate::shmem::Shared;

/// One kind of work that loaders do, each for its database. Requests for it lie in
/// shared memory.
pub trait Work: Sync {
    /// The configuration was read again: something else may be wanted.
    fn reconsider(&self, _shared: &Shared, _database: u32) {}

    /// Requests what somebody should have requested and has not: a session that
    /// is killed between its draw and its request leaves such a gap.
    fn request_overdue(&self, shared: &Shared, database: u32);

    /// Does what is requested and may be tried now.
    fn run(&self, shared: &Shared, database: u32) -> Done;

    /// When something that is requested may be tried; `None` if nothing is.
    fn next_try(&self, shared: &Shared, database: u32) -> Option<Monotonic>;

    /// The loader ends. What it has taken up and not settled is left to the next
    /// one; other requests are dropped, because who still waits asks again.
    fn hand_over(&self, shared: &Shared, database: u32);
}

/// What a look for work came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// There was none.
    Nothing,
    /// There was some, and there may be more.
    Something,
    /// The loader must leave the database.
    Leave,
}
