//! Every SQL statement on leaf's own tables, and how their rows are read: one
//! file per table.
//!
//! Statements run as the owner of the tables, with nothing but `pg_catalog` in
//! the search path; see [`as_owner`].

mod alloc;
pub mod worker;

use pgrx::pg_sys;
use pgrx::spi::{Spi, SpiHeapTupleData};

use crate::error::Error;
use crate::pg::args::Arg;
use crate::pg::{heap, inval, role};

pub use alloc::*;

/// A tag for messages.
pub fn display(tag: &[u8]) -> String {
    String::from_utf8_lossy(tag).into_owned()
}

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

/// Runs `work` as the owner of `leaf.alloc`: triggers and constraints that the
/// owner added run with the owner's rights, and with no more.
pub fn as_owner<R>(work: impl FnOnce() -> R) -> R {
    let owner = heap::relation_owner(require_alloc());
    role::acting_as(owner.unwrap_or_else(|| Error::NoCatalog.raise()), work)
}

fn execute(statement: &str, args: &[Arg]) -> usize {
    Spi::connect_mut(|client| match client.update(statement, None, args) {
        Ok(table) => table.len(),
        Err(error) => pgrx::error!("statement on a table of leaf failed: {error}"),
    })
}

fn query<R>(statement: &str, args: &[Arg], read: impl Fn(&SpiHeapTupleData<'_>) -> R) -> Vec<R> {
    Spi::connect_mut(|client| match client.update(statement, None, args) {
        Ok(table) => table.map(|row| read(&row)).collect(),
        Err(error) => pgrx::error!("statement on a table of leaf failed: {error}"),
    })
}

fn column_of<T: pgrx::FromDatum + pgrx::IntoDatum>(
    row: &SpiHeapTupleData<'_>,
    ordinal: usize,
) -> Option<T> {
    row.get::<T>(ordinal)
        .unwrap_or_else(|error| pgrx::error!("unexpected column {ordinal}: {error}"))
}

fn bigint(row: &SpiHeapTupleData<'_>, ordinal: usize) -> i64 {
    column_of::<i64>(row, ordinal).unwrap_or_default()
}
