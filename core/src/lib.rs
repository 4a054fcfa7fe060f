//! The parts of leaf that know no PostgreSQL.
//!
//! Nothing here reads a clock or holds `unsafe`, and [`mod@file`] alone does I/O:
//! time and randomness come in as arguments, so every rule can be tested by itself.
//! The extension places these types in shared memory; the client library uses
//! the same ones in its own process.
//!
//! - [`buffer`]: the double buffer that hands out ids of granted segments.
//! - [`step`]: how large the next segment of a tag shall be.
//! - [`grant`]: what a grant does to a tag's row of the catalog.
//! - [`snowflake`]: ids made of time, worker id and sequence.
//! - [`tag`]: what a tag may be called.
//! - [`mod@file`]: files that survive a crash of the machine.
#![warn(missing_docs)]

pub mod buffer;
pub mod file;
pub mod grant;
pub mod journal;
pub mod snowflake;
pub mod step;
mod sync;
pub mod tag;
pub mod time;

pub use buffer::DoubleBuffer;
pub use step::StepPolicy;
