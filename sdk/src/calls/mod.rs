//! Plain calls: one statement each, on the caller's own connection or
//! transaction.
//!
//! - [`types`]: what calls take and return.
//! - [`list`]: every call, with its documentation.
//! - [`statement`]: every statement, these calls' and the background tasks'.
//! - [`columns`]: rows, whatever the driver.
//! - [`sync`], [`asynchronous`], [`sqlx`] and [`diesel`]: the calls, for each driver.
#![cfg_attr(
    not(any(
        feature = "sync",
        feature = "async",
        feature = "sqlx",
        feature = "diesel"
    )),
    allow(dead_code, unused_macros, unused_imports)
)]

mod columns;
mod list;
pub(crate) mod statement;
mod types;

#[cfg(feature = "async")]
pub mod asynchronous;
#[cfg(feature = "diesel")]
pub mod diesel;
#[cfg(feature = "sqlx")]
pub mod sqlx;
#[cfg(feature = "sync")]
pub mod sync;

pub(crate) use types::Incarnation;
pub use types::{Aligned, Block, Decoded, NewTag, SnowflakeStatus, TagChange, TagStatus};
