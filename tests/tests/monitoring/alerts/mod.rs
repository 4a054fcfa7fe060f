//! Each alert fires when what it is about is broken, and is resolved when that is undone. A
//! minute of the rules' `for` and ranges is a second here; thresholds are those of the file.

mod exporters;
mod fed;
mod segment;
mod snowflake;
