//! How a tag of this database is found in shared memory.

use crate::catalog::relation;
use crate::pg::database;
use crate::shmem::key::KeyRef;

/// The key of a tag of this database.
pub fn key(tag: &[u8]) -> KeyRef<'_> {
    KeyRef {
        database: database::current(),
        catalog: relation::require_alloc().to_u32(),
        tag,
    }
}
