//! Running SQL statements, and reading the columns of their results.

use pgrx::spi::{Spi, SpiHeapTupleData, SpiResult};
use pgrx::{AnyElement, FromDatum, IntoDatum};

use crate::pg::datum::{self, Arg};
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

/// Which column of a result: its number, counted from 1, or its name.
pub trait ResultColumn: Copy + std::fmt::Display {
    fn of<T: FromDatum + IntoDatum>(self, row: &ResultRow<'_>) -> SpiResult<Option<T>>;
}

impl ResultColumn for usize {
    fn of<T: FromDatum + IntoDatum>(self, row: &ResultRow<'_>) -> SpiResult<Option<T>> {
        row.get(self)
    }
}

impl ResultColumn for &str {
    fn of<T: FromDatum + IntoDatum>(self, row: &ResultRow<'_>) -> SpiResult<Option<T>> {
        row.get_by_name(self)
    }
}

/// The value of a column.
pub fn column_of<T: FromDatum + IntoDatum>(
    row: &ResultRow<'_>,
    column: impl ResultColumn,
) -> Option<T> {
    column
        .of(row)
        .unwrap_or_else(|error| pgrx::error!("unexpected column {column}: {error}"))
}

/// A column of type `bigint`; 0 for NULL.
pub fn bigint(row: &ResultRow<'_>, column: impl ResultColumn) -> i64 {
    column_of::<i64>(row, column).unwrap_or_default()
}

/// A column of type `text`; empty for NULL.
pub fn text(row: &ResultRow<'_>, column: impl ResultColumn) -> String {
    optional_text(row, column).unwrap_or_default()
}

/// A column of type `uuid` that is never NULL.
pub fn uuid(row: &ResultRow<'_>, column: impl ResultColumn) -> [u8; 16] {
    let uuid = column_of::<pgrx::Uuid>(row, column);
    *uuid.expect("the column is not null").as_bytes()
}

/// A column of type `boolean`; false for NULL.
pub fn flag(row: &ResultRow<'_>, column: impl ResultColumn) -> bool {
    column_of::<bool>(row, column) == Some(true)
}

/// A column of type `text`.
pub fn optional_text(row: &ResultRow<'_>, column: impl ResultColumn) -> Option<String> {
    bytes(row, column).map(|bytes| display(&bytes))
}

/// A column of type `text`, in the database's encoding.
pub fn bytes(row: &ResultRow<'_>, column: impl ResultColumn) -> Option<Vec<u8>> {
    let value = column_of::<AnyElement>(row, column)?;
    // SAFETY: the column is of that type, and lives as long as the row.
    Some(unsafe { datum::text(value.datum()) }.to_vec())
}
