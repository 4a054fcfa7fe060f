//! The loader's leases of worker ids.
//!
//! - [`renewal`]: leases the database's worker id, and keeps its ceiling ahead of the clock.
//! - [`upstream`]: the registry of a centre is asked.
//! - [`nodes`]: other nodes get worker ids.
//! - [`wanted`]: what the settings of the database require of the lease.

mod nodes;
pub mod renewal;
mod upstream;
mod wanted;
