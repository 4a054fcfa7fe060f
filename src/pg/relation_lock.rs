//! Locks on relations.

use pgrx::pg_sys;

/// Locks a relation against all other sessions until the transaction ends.
pub fn exclusively(relation: pg_sys::Oid) {
    // SAFETY: waits in PostgreSQL's own way, inside a transaction.
    unsafe { pg_sys::LockRelationOid(relation, pg_sys::AccessExclusiveLock as _) };
}
