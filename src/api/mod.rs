//! The SQL functions, one file per family. Their names, arguments and results in SQL are
//! declared in `sql/`; the arguments are checked in [`args`].

mod args;
mod columns;
mod id_text;
mod install;
mod mask;
mod segment;
mod snowflake;
mod stats;
mod tag;
mod triggers;
mod worker;
