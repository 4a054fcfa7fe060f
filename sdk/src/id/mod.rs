//! The [kinds] of ids, and how they are read and written by other crates.

mod for_postgres;
mod kinds;

#[cfg(feature = "diesel")]
mod for_diesel;
#[cfg(feature = "serde")]
mod for_serde;
#[cfg(feature = "sqlx")]
mod for_sqlx;

pub use kinds::{Id, SegmentId, SnowflakeId};
