#![doc = include_str!("../README.md")]
#![warn(missing_docs)]

mod calls;
mod config;
mod error;
mod gate;
mod global;
mod id;
mod leaf;
mod link;
mod snowflake;
mod source;
mod tag;

#[cfg(feature = "async")]
pub use calls::asynchronous;
#[cfg(feature = "sync")]
pub use calls::sync;
pub use calls::{Aligned, Block, Decoded, NewTag, TagChange, TagStatus, WorkerStatus};
pub use config::Config;
pub use error::{ClockError, Error};
pub use global::{init, leaf, next};
pub use id::{Id, SegmentId, SnowflakeId};
pub use leaf::Leaf;
pub use snowflake::{SnowflakeConfig, SnowflakeGenerator, SnowflakeStats};
pub use source::SegmentSource;
pub use tag::TagStats;
