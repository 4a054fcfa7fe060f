//! Snowflake ids: time, worker id and sequence in one number.
//!
//! # In a session
//!
//! A session keeps a reference to its database's generator in shared memory
//! ([`source`]) and draws from it ([`draw`]), with the clock and the settings around
//! it ([`environment`]). The loader leases the worker id and keeps its ceiling ahead of
//! the clock. A session that finds no lease, or that has reached the ceiling, sends a
//! request to the loader and waits.
//!
//! In the transaction that creates the extension, no loader can do this, and the session leases for itself ([`own_lease`]).
//!
//! # The lease
//!
//! - [`registration`]: a node gets a worker id from the registry; [`choice`] determines
//!   which.
//! - [`lease`]: a lease is renewed, released, and put into force.
//! - [`ceilings`]: the file that keeps what the registry may lose; [`releases`] lowers
//!   its ceilings once a release is committed.
//! - [`upstream`]: the worker id comes from a centre.
//! - [`wanted`]: what the settings of the database require of the lease.
//! - [`nodes`]: other nodes get worker ids from the loader.
//! - [`renewal`]: the loader's work.
//!
//! [`saved`] keeps leases over a clean restart.

pub mod at_end;
mod ceilings;
pub mod centre;
mod choice;
pub mod draw;
mod environment;
pub mod error;
pub mod lease;
mod nodes;
mod own_lease;
pub mod register;
pub mod registration;
mod releases;
pub mod renewal;
pub mod saved;
pub mod source;
pub mod upstream;
mod wanted;
