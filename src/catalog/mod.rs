//! Every SQL statement on leaf's own tables, and how their rows are read: one
//! file per table.
//!
//! Statements on these tables run as their owner, with nothing but `pg_catalog` in
//! the search path; see [`relation::as_owner`]. Those of [`columns`] read users' tables as these
//! tables' owners.

pub mod alloc;
pub mod alloc_row;
pub mod columns;
pub mod database;
pub mod engine;
pub mod extension;
pub mod guard;
pub mod intent;
pub mod permissions;
pub mod registry;
pub mod relation;
mod statement;
pub mod worker_row;

pub use relation::as_owner;
