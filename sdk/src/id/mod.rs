//! The [kinds] of ids, and how they are read and written by other crates.

mod for_diesel;
mod for_postgres;
mod for_serde;
mod for_sqlx;
mod kinds;
#[cfg(feature = "serde")]
pub(crate) mod text;

pub use kinds::{Id, IdType, SegmentId, SnowflakeId};
