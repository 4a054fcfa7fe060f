//! The items that [`id_type!`](crate::id_type) uses in other crates.

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
pub use crate::id::text::{deserialize, serialize};
