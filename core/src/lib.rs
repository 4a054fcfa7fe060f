//! The parts of leaf that do not depend on PostgreSQL.
//!
//! Nothing here reads a clock or contains `unsafe`, and only [`mod@file`] does I/O.
//! Time and random numbers are passed as arguments, so that every rule can be tested
//! by itself. The extension places these types in shared memory; the client library
//! uses the same ones in its own process.
//!
//! - [`buffer`]: the double buffer that hands out ids of granted segments.
//! - [`conninfo`]: whether a connection string contains a secret.
//! - [`step`]: how large the next segment of a tag is.
//! - [`grant`]: how numbers are taken from a tag's row in the catalog.
//! - [`snowflake`]: ids made of time, worker id and sequence.
//! - [`run`]: runs of consecutive ids.
//! - [`standby`]: what PostgreSQL tells of commits that wait for a standby.
//! - [`journal`]: the actions of a transaction and its savepoints.
//! - [`id_text`]: ids as short texts with a check symbol.
//! - `mask`: ids that give nothing away (feature `mask`).
//! - [`tag`]: how long the name of a tag can be.
//! - [`time`]: kinds of time, as types that cannot be mixed.
//! - [`mod@file`]: files that survive a crash of the machine.
#![warn(missing_docs)]

pub mod buffer;
pub mod conninfo;
pub mod file;
pub mod grant;
pub mod id_text;
pub mod journal;
#[cfg(feature = "mask")]
pub mod mask;
pub mod run;
pub mod snowflake;
pub mod standby;
pub mod step;
mod sync;
pub mod tag;
pub mod time;

pub use buffer::DoubleBuffer;
pub use run::Run;
pub use step::StepPolicy;
