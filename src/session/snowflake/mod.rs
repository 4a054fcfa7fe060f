//! Snowflake ids, as a session draws them: time, worker id and sequence in one number.
//!
//! A session keeps a reference to its database's generator in shared memory
//! ([`source`]) and draws from it ([`draw`]), with the clock and the settings around
//! it ([`environment`]). The loader leases the worker id and keeps its ceiling ahead of
//! the clock. A session that finds no lease, or that has reached the ceiling, sends a
//! request to the loader and waits.
//!
//! In the transaction that creates the extension, no loader can do this, and the session leases for
//! itself ([`own_lease`]). [`register`] has worker ids leased to other nodes.

pub mod draw;
mod environment;
mod own_lease;
pub mod register;
pub mod source;
pub mod xact_callbacks;
