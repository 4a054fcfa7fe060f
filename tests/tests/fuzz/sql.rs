//! Statements with placeholders, and what their rows are.

use crate::values::*;
use proptest::prelude::*;
use proptest::sample::select;

/// What the rows of a statement are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rows {
    /// Nothing of interest.
    Any,
    /// Ids of a tag, in the order in which they were drawn.
    Ids,
    /// A number below which the tag gives no id from now on.
    Floor,
    /// Ids of a tag, drawn earlier or in some other order.
    OldIds,
    /// The first and the last id of a block, which may be returned.
    Block,
    /// The first and the last id of a block.
    Kept,
    /// Whether `$FIRST` to `$LAST` was returned.
    Returned,
    /// Snowflake ids.
    Flakes,
    /// Worker id, nonce and token of a lease; where its ids begin and end, in microseconds.
    Lease,
    /// The nonce of a lease that was released, and from when on it has no ids.
    Released,
}

/// Statements to choose from.
pub type Sql = BoxedStrategy<(String, Rows)>;

/// Fills `{}` in a template with values, one after the other.
pub fn fill<const N: usize>(template: &'static str, values: [Value; N], rows: Rows) -> Sql {
    values
        .prop_map(move |values| {
            let mut parts = template.split("{}");
            let mut sql = parts.next().expect("a template").to_owned();
            for (value, part) in values.iter().zip(parts) {
                sql += value;
                sql += part;
            }
            (sql, rows)
        })
        .boxed()
}

pub fn one_of(statements: &'static [&'static str], rows: Rows) -> Sql {
    select(statements)
        .prop_map(move |sql| (sql.to_owned(), rows))
        .boxed()
}
