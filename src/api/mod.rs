//! The SQL functions, one file per family. What they are called, take and
//! return in SQL is declared in `sql/`.

pub mod alloc;
pub mod reserve;
pub mod segment;
pub mod snowflake;
pub mod stats;
pub mod tag;
pub mod worker;
