//! Running SQL statements, and reading the columns of their results.

use pgrx::spi::{Spi, SpiHeapTupleData};
use pgrx::{AnyElement, pg_sys};

use crate::pg::datum::{self, Arg};
use crate::pg::display;
use crate::pg::encoding::encode_c;
use crate::pg::snapshot;

/// A row of a result.
pub type ResultRow<'a> = SpiHeapTupleData<'a>;

/// Runs a statement; returns the number of rows that it processed.
pub fn execute(statement: &str, args: &[Arg]) -> usize {
    Spi::connect_mut(|client| match client.update(statement, None, args) {
        Ok(table) => table.len(),
        Err(error) => pgrx::error!("statement on a table of leaf failed: {error}"),
    })
}

/// Runs a statement and reads each row of its result.
pub fn query<R>(statement: &str, args: &[Arg], read: impl Fn(&ResultRow<'_>) -> R) -> Vec<R> {
    Spi::connect_mut(|client| match client.update(statement, None, args) {
        Ok(table) => table.map(|row| read(&row)).collect(),
        Err(error) => pgrx::error!("statement on a table of leaf failed: {error}"),
    })
}

/// Runs a SELECT and reads each row of its result, as of now, whatever snapshot the
/// transaction uses.
pub fn query_latest<R>(
    statement: &str,
    args: &[Arg],
    read: impl Fn(&ResultRow<'_>) -> R,
) -> Vec<R> {
    snapshot::select_latest(statement, args, |row| read(row))
}

/// Runs a utility command, with names as [`display`] shows them.
pub fn command(command: &str) {
    let command = encode_c(command);
    Spi::connect_mut(|_| {
        // SAFETY: SPI is connected, and copies the command.
        let code = unsafe { pg_sys::SPI_execute(command.as_ptr(), false, 0) };
        if code < 0 {
            pgrx::error!("command failed: {code}");
        }
    });
}

/// A column, counted from 1.
pub fn column_of<T: pgrx::FromDatum + pgrx::IntoDatum>(
    row: &ResultRow<'_>,
    ordinal: usize,
) -> Option<T> {
    row.get::<T>(ordinal)
        .unwrap_or_else(|error| pgrx::error!("unexpected column {ordinal}: {error}"))
}

/// A column of type `bigint`; 0 for NULL.
pub fn bigint(row: &ResultRow<'_>, ordinal: usize) -> i64 {
    column_of::<i64>(row, ordinal).unwrap_or_default()
}

/// A column of type `text`; empty for NULL.
pub fn text(row: &ResultRow<'_>, ordinal: usize) -> String {
    let value = column_of::<AnyElement>(row, ordinal);
    // SAFETY: the column is of that type, and lives as long as the row.
    let bytes = value.map(|value| unsafe { datum::text(value.datum()) });
    display(bytes.unwrap_or_default())
}

/// A column of type `uuid` that is never NULL.
pub fn uuid(row: &ResultRow<'_>, ordinal: usize) -> [u8; 16] {
    let uuid = column_of::<pgrx::Uuid>(row, ordinal);
    *uuid.expect("the column is not null").as_bytes()
}
