//! The SQL functions, one file per family. What they are called, take and
//! return in SQL is declared in `sql/`; their arguments are checked in [`args`].

mod align;
mod args;
mod install;
mod segment;
mod snowflake;
mod stats;
mod tag;
mod triggers;
mod worker;
