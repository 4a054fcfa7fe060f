//! What commands print: plain where it is piped, and quiet when nobody reads it.
//!
//! - [`rows`]: rows as a table, JSON or CSV.
//! - [`progress`]: signs of life of what takes long.

pub mod progress;
mod rows;

pub use rows::{Cell, Column, Format, Rows};

use std::io::Write;

use crate::failure::Failure;

/// Writes to standard output; colours only if it is a terminal.
pub fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = anstream::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()?;
    Ok(())
}

/// Writes a line to standard output.
pub fn line(text: &str) -> Result<(), Failure> {
    write(format!("{text}\n").as_bytes())
}
