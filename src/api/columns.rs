//! Taking over columns of users' tables, and giving them back.

use pgrx::pg_sys::Oid;

use super::args;
use crate::catalog::columns;
use crate::columns::adopt::{self, Kind};
use crate::columns::release;
use crate::pg::call::{Call, sql_functions};
use crate::pg::{display, xact};
use crate::shmem;

sql_functions!(leaf_column_adopt, leaf_column_release, leaf_column_highest);

/// Makes the default of a column draw from leaf. Returns the tag, if it is one of ids of a
/// tag.
fn leaf_column_adopt(call: Call<'_>) -> Option<Vec<u8>> {
    shmem::require();
    xact::require_writable(c"leaf_column_adopt()");
    let (table, column) = column(call);
    let tag = call.text(2).map(|tag| args::tag(Some(tag)));
    let kind = match (args::given(call.text(3), "kind"), tag) {
        (b"segment", tag) => Kind::Segment { tag },
        (b"snowflake", None) => Kind::Snowflake,
        (b"snowflake", Some(_)) => args::bad(
            "snowflake ids have no tag",
            "Leave the tag out, or use kind => 'segment'.",
        ),
        (other, _) => args::bad(
            format!("kind must not be \"{}\"", display(other)),
            "It is either 'segment' or 'snowflake'.",
        ),
    };
    adopt::adopt(table, column, kind, |tag| {
        args::tag(Some(tag));
    })
}

/// Gives a column a sequence again. Returns the sequence.
fn leaf_column_release(call: Call<'_>) -> Oid {
    shmem::require();
    xact::require_writable(c"leaf_column_release()");
    let (table, column) = column(call);
    release::release(table, column)
}

/// The largest number in a column, read without a plan, which would execute functions in
/// expressions of the table's indexes as the caller.
fn leaf_column_highest(call: Call<'_>) -> Option<i64> {
    let (table, column) = column(call);
    columns::highest(table, column)
}

/// The first two arguments.
fn column<'call>(call: Call<'call>) -> (Oid, &'call [u8]) {
    let hint = "Give a table and a column, such as 'orders', 'id'.";
    let table = call.oid(0);
    let table = table.unwrap_or_else(|| args::bad("table must not be null", hint));
    let column = call.name(1);
    let column = column.unwrap_or_else(|| args::bad("column must not be null", hint));
    (table, column.to_bytes())
}
