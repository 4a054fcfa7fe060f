//! leaf's functions as statements.
//!
//! - `list`: the functions that services call, each with its parameters and its answer.
//! - `internal`: the functions and statements of the background tasks.
//! - `types`: what calls take and return; `rows`: how it is read.
//! - `statement`: a statement, and how a call of a function becomes one.
//! - `sync` and `asynchronous`: plain calls, one statement each, on the caller's own
//!   connection or transaction.
//!
//! `leafctl` makes its own calls of the same statements.

pub(crate) mod internal;
mod list;
pub mod rows;
pub mod statement;
mod types;

#[cfg(feature = "async")]
pub mod asynchronous;
#[cfg(feature = "sync")]
pub mod sync;

pub(crate) use types::Incarnation;
pub use types::{Block, Decoded};
