// The page has programs and links that need the features.
#![cfg_attr(
    all(feature = "async", feature = "mask", feature = "serde", feature = "sqlx", feature = "tls"),
    doc = include_str!("../README.md")
)]
#![cfg_attr(
    not(all(
        feature = "async",
        feature = "mask",
        feature = "serde",
        feature = "sqlx",
        feature = "tls"
    )),
    doc = "The client library of leaf. `cargo doc -p leaf-sdk --all-features` has its manual."
)]
#![warn(missing_docs, missing_debug_implementations)]

#[doc(hidden)]
pub mod __private;
mod background;
// leaf's functions as statements, for `leafctl`, which belongs to the library: no part of its
// interface.
#[doc(hidden)]
pub mod calls;
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
pub use calls::{Block, Decoded};
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
