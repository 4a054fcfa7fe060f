//! Snowflake ids: time, worker id and sequence in one number.
//!
//! # In a session
//!
//! A session keeps a reference to its database's generator in shared memory
//! ([`source`]) and draws from it ([`draw`]), with the clock and the settings around
//! it ([`environment`]). The worker id is leased, and its ceiling kept ahead of the
//! clock, by the loader; a session that finds no lease, or the ceiling reached, asks
//! for that and waits.
//!
//! Where no loader can help, in single-user mode and in the transaction that
//! creates the extension, the session leases for itself ([`own_lease`]).
//!
//! # The lease
//!
//! - [`registration`]: a node gets a worker id from the registry; [`choice`] says
//!   which.
//! - [`lease`]: a lease is renewed, released, and put into force.
//! - [`ceilings`]: the file that remembers what the registry may forget; [`releases`]
//!   lowers it once a release is committed.
//! - [`releasing`]: tells releases from other updates, for the table's triggers.
//! - [`renewal`]: the loader's work.
//!
//! [`saved`] keeps leases over a clean restart.

pub mod at_end;
mod ceilings;
mod choice;
pub mod draw;
mod environment;
pub mod error;
pub mod lease;
mod own_lease;
pub mod registration;
mod releases;
pub mod releasing;
pub mod renewal;
pub mod saved;
pub mod source;
