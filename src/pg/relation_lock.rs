//! Locks on relations, until the transaction ends.

use pgrx::pg_sys;

/// What a lock is for.
#[derive(Clone, Copy, Debug)]
pub enum Lock {
    /// Reading and writing rows.
    ForWriting,
    /// Keeping all other sessions away.
    Exclusive,
}

impl Lock {
    fn mode(self) -> pg_sys::LOCKMODE {
        match self {
            Lock::ForWriting => pg_sys::RowExclusiveLock as _,
            Lock::Exclusive => pg_sys::AccessExclusiveLock as _,
        }
    }
}

/// Locks a relation.
pub fn lock(relation: pg_sys::Oid, lock: Lock) {
    // SAFETY: waits in PostgreSQL's own way, inside a transaction.
    unsafe { pg_sys::LockRelationOid(relation, lock.mode()) };
}

/// Locks a relation, unless it would have to wait; returns whether it did.
pub fn lock_at_once(relation: pg_sys::Oid, lock: Lock) -> bool {
    // SAFETY: takes the lock or does not.
    unsafe { pg_sys::ConditionalLockRelationOid(relation, lock.mode()) }
}
