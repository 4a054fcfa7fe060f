//! Where this database's catalog is, and whose it is.

use pgrx::pg_sys;

use crate::error::{Error, Problem};
use crate::pg::{heap, inval, role};

/// The oid of this database's `leaf.alloc`, remembered until it changes.
pub fn alloc() -> Option<pg_sys::Oid> {
    if let Some(oid) = inval::watched() {
        return Some(oid);
    }
    let oid = heap::relation_oid(c"leaf", c"alloc")?;
    inval::watch(oid);
    Some(oid)
}

/// As [`alloc()`], or an error.
pub fn require_alloc() -> pg_sys::Oid {
    alloc().unwrap_or_else(|| Error::NoCatalog.raise())
}

/// The oid of the unique index on the tags, if it is there.
pub fn alloc_index() -> Option<pg_sys::Oid> {
    heap::relation_oid(c"leaf", c"alloc_pkey")
}

/// The oid of `leaf.worker`.
pub fn worker() -> Option<pg_sys::Oid> {
    heap::relation_oid(c"leaf", c"worker")
}

/// Runs `work` as the owner of `leaf.alloc`: triggers and constraints that the
/// owner added run with the owner's rights, and with no more.
pub fn as_owner<R>(work: impl FnOnce() -> R) -> R {
    let owner = heap::relation_owner(require_alloc());
    role::acting_as(owner.unwrap_or_else(|| Error::NoCatalog.raise()), work)
}
