//! The relations of this database's catalog and registry, and their owner.

use pgrx::pg_sys;

use super::intent::{self, Intent};
use crate::error::Report;
use crate::pg::{heap, inval, role, trigger};

/// The OID of this database's `leaf.alloc`, cached until it is invalidated.
pub fn alloc() -> Option<pg_sys::Oid> {
    if let Some(oid) = inval::watched() {
        return Some(oid);
    }
    let oid = heap::relation_oid(c"leaf", c"alloc")?;
    inval::watch(oid);
    Some(oid)
}

/// Like [`alloc()`]; an error if there is none.
pub fn require_alloc() -> pg_sys::Oid {
    alloc().unwrap_or_else(|| no_catalog().raise())
}

/// The OID of the unique index on the tags, if it exists.
pub fn alloc_index() -> Option<pg_sys::Oid> {
    heap::relation_oid(c"leaf", c"alloc_pkey")
}

/// The OID of `leaf.worker`.
pub fn worker() -> Option<pg_sys::Oid> {
    heap::relation_oid(c"leaf", c"worker")
}

/// The OID of the unique index on the worker ids, if it exists.
pub fn worker_index() -> Option<pg_sys::Oid> {
    heap::relation_oid(c"leaf", c"worker_pkey")
}

/// Runs `work` as the owner of `leaf.alloc`, so that triggers and constraints that the
/// owner added run only with the owner's privileges.
pub fn as_owner<R>(work: impl FnOnce() -> R) -> R {
    let owner = heap::relation_owner(require_alloc());
    let owner = owner.unwrap_or_else(|| no_catalog().raise());
    intent::with(Intent::Plain, || role::acting_as(owner, work))
}

/// Whether a change of a table is replayed from another node, and was not made by leaf
/// itself in a session that happens to be a replica.
pub fn is_replayed() -> bool {
    trigger::is_replica() && !intent::is_own_statement()
}

fn no_catalog() -> Report {
    // When: a draw in a database without the extension
    Report::not_ready(
        "table \"leaf.alloc\" does not exist in this database",
        "Create the extension with CREATE EXTENSION leaf.",
    )
}
