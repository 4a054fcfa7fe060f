//! Running SQL statements, and reading the columns of their results.

use pgrx::spi::{Spi, SpiHeapTupleData};
use pgrx::{AnyElement, pg_sys};

use crate::pg::datum::{self, Arg};
use crate::pg::encoding::encode_c;
use crate::pg::{display, snapshot, xact};

/// A row of a result.
pub type ResultRow<'a> = SpiHeapTupleData<'a>;

/// Runs a statement; returns the number of rows that it processed. As in [`query`], it finds
/// leaf's tables as they are now.
pub fn execute(statement: &str, args: &[Arg]) -> usize {
    if xact::has_one_snapshot() && !xact::is_parallel() {
        return snapshot::execute_latest(statement, args, |_| ()).0;
    }
    Spi::connect_mut(|client| match client.update(statement, None, args) {
        Ok(table) => table.len(),
        Err(error) => pgrx::error!("statement on a table of leaf failed: {error}"),
    })
}

/// Runs a statement and reads each row of its result. A transaction with an older snapshot would
/// fail at each row that was granted from since: as constraint triggers of PostgreSQL do, leaf
/// takes the newest one for its own tables.
pub fn query<R>(statement: &str, args: &[Arg], read: impl Fn(&ResultRow<'_>) -> R) -> Vec<R> {
    if xact::has_one_snapshot() && !xact::is_parallel() {
        return snapshot::execute_latest(statement, args, |row| read(row)).1;
    }
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

/// A column of type `boolean`; false for NULL.
pub fn flag(row: &ResultRow<'_>, ordinal: usize) -> bool {
    column_of::<bool>(row, ordinal) == Some(true)
}

/// A column of type `text`.
pub fn optional_text(row: &ResultRow<'_>, ordinal: usize) -> Option<String> {
    bytes(row, ordinal).map(|_| text(row, ordinal))
}

/// A column of type `text`, in the database's encoding.
pub fn bytes(row: &ResultRow<'_>, ordinal: usize) -> Option<Vec<u8>> {
    let value = column_of::<pgrx::AnyElement>(row, ordinal)?;
    // SAFETY: the column is of that type, and lives as long as the row.
    Some(unsafe { datum::text(value.datum()) }.to_vec())
}

/// A constant, as PostgreSQL prints it with `standard_conforming_strings`.
pub fn literal(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

/// A name, quoted as necessary.
pub fn quoted(name: &[u8]) -> String {
    let names = query_latest("SELECT quote_ident($1)", &[datum::text_arg(name)], |row| {
        text(row, 1)
    });
    names.join("")
}
