//! Every SQL statement on leaf's own tables, and how their rows are read: one
//! file per table.
//!
//! Statements run as the owner of the tables, with nothing but `pg_catalog` in
//! the search path; see [`relation::as_owner`].

pub mod alloc;
pub mod defaults;
pub mod permissions;
pub mod registry;
pub mod relation;
mod statement;

pub use relation::as_owner;
