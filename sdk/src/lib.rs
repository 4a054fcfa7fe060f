#![doc = include_str!("../README.md")]
#![warn(missing_docs, missing_debug_implementations)]

mod background;
mod calls;
mod cause;
mod config;
mod connection;
mod draw;
mod error;
mod events;
mod gate;
mod global;
mod health;
mod id;
mod id_source;
mod leaf;
mod link;
#[cfg(feature = "mask")]
mod mask;
mod memory;
mod meter;
mod process;
mod segment;
mod snowflake;
mod time;

#[cfg(feature = "async")]
pub use calls::asynchronous;
#[cfg(feature = "sync")]
pub use calls::sync;
pub use calls::{Aligned, Block, Decoded, NewStripe, NewTag, TagChange};
pub use cause::Cause;
pub use config::Config;
pub use error::{ClockError, Error};
pub use global::{init, leaf, next};
pub use health::Health;
pub use id::{Id, IdType, SegmentId, SnowflakeId};
pub use id_source::IdSource;
pub use leaf::Leaf;
pub use leaf_core::id_text::BadIdText;
#[cfg(feature = "mask")]
pub use leaf_core::mask::Width as MaskWidth;
#[cfg(feature = "async")]
pub use link::Connection;
#[cfg(feature = "mask")]
pub use mask::Mask;
pub use memory::MemorySource;
pub use segment::{SegmentSource, TagStats};
pub use snowflake::{SnowflakeConfig, SnowflakeGenerator, SnowflakeStats};

/// What [`id_type!`] uses in other crates.
#[doc(hidden)]
pub mod __private {
    pub use bytes::BytesMut;
    #[cfg(feature = "diesel")]
    pub use diesel;
    pub use leaf_core::id_text;
    #[cfg(feature = "serde")]
    pub use serde;
    #[cfg(feature = "sqlx")]
    pub use sqlx;
    pub use tokio_postgres::types;

    #[cfg(feature = "serde")]
    pub use crate::id::{deserialize, serialize};
}

/// leaf's functions as statements, for `leafctl`, which belongs to the library: no part of its
/// interface.
#[doc(hidden)]
pub mod internals {
    pub use tokio_postgres::Row;

    pub use crate::calls::rows::{Record, get, row};
    pub use crate::calls::statement::{self as functions, Statement};
}
