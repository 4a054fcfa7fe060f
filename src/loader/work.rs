//! The interface through which the features define what a loader does.

use leaf_core::time::Monotonic;

use crate::shmem::Shared;

/// One kind of work that loaders do, each for its database. Requests for it are in shared
/// memory.
pub trait Work: Sync {
    /// Called before the loader connects to its database, and once it is connected: in between,
    /// the database's settings are applied.
    fn before_connect(&self) {}
    fn after_connect(&self) {}

    /// Called after the configuration was reloaded: other settings may apply. Returns whether
    /// only another loader could know them.
    fn reconsider(&self, _shared: &Shared, _database: u32) -> bool {
        false
    }

    /// Requests what a session should have requested but did not, for example because it
    /// was killed between its draw and its request.
    fn request_overdue(&self, _shared: &Shared, _database: u32) {}

    /// Does what is requested and may be tried now.
    fn run(&self, shared: &Shared, database: u32) -> Done;

    /// When the next request may be tried; `None` if there is none.
    fn next_try(&self, shared: &Shared, database: u32) -> Option<Monotonic>;

    /// Whether the loader must not end, although there was no request for long.
    fn is_needed(&self, _shared: &Shared, _database: u32) -> bool {
        false
    }

    /// Called when the loader ends. What it has taken and not settled is left to the next
    /// loader; other requests are dropped, because sessions that are still waiting repeat
    /// them.
    fn hand_over(&self, _shared: &Shared, _database: u32) {}
}

/// The outcome of a check for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// There was none.
    Nothing,
    /// There was some, and there may be more.
    Something,
    /// The loader must leave the database.
    Leave,
}
