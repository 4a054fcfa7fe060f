//! The output of commands: plain where it is piped, and quiet when nobody reads it. Texts that come
//! from a server or a file are made printable in what people read, and are exact in JSON and CSV.
//!
//! - [`rows`]: rows as a table, JSON or CSV.
//! - [`progress`]: signs of life of what takes long.

pub mod progress;
mod rows;

pub use rows::{Cell, Column, Format, Rows};

use std::io::{self, Write};

use clap::builder::styling::Style;

use crate::failure::Failure;
use crate::human::printable;

/// Writes to standard output, as it is.
pub fn write(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()?;
    Ok(())
}

/// Writes a line for people to standard output.
pub fn line(text: &str) -> Result<(), Failure> {
    write(format!("{}\n", printable(text)).as_bytes())
}

/// Writes a line for people whose beginning has a style, if standard output is a terminal.
pub fn styled_line(style: Style, beginning: &str, rest: &str) -> Result<(), Failure> {
    let (beginning, rest) = (printable(beginning), printable(rest));
    let mut stdout = anstream::stdout().lock();
    writeln!(stdout, "{style}{beginning}{style:#}{rest}")?;
    stdout.flush()?;
    Ok(())
}
