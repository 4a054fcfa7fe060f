//! Snowflake ids made in this process, with a worker id leased from the server.
//!
//! - [`config`]: the configuration of a generator.
//! - [`clock`]: this machine's clock.
//! - [`lease`]: what the registry grants; [`cache`] keeps it in a file.
//! - [`node`]: the lease in use and the ids made with it.
//! - [`keeper`]: the background tasks that lease, renew and release.
//! - [`generator`]: what callers draw from, and its [`stats`].

mod cache;
mod clock;
mod config;
mod generator;
mod issuing;
mod keeper;
mod lease;
mod node;
mod stats;

pub use config::SnowflakeConfig;
pub use generator::SnowflakeGenerator;
pub(crate) use generator::WeakGenerator;
pub use stats::SnowflakeStats;
