//! What has to hold of a column before anything is done to it.

use pgrx::pg_sys::Oid;

use super::error::Error;
use crate::catalog::columns::{self, Column};
use crate::catalog::sequences::Sequence;
use crate::error::Problem;
use crate::pg::display;

/// The column, of a table of the current role's.
pub fn at(table: Oid, attribute: &[u8]) -> Column {
    let Some(column) = columns::find(table, attribute) else {
        Error::NoSuchColumn {
            table: columns::name_of(table),
            column: display(attribute),
        }
        .raise()
    };
    let table = column.table_name.clone();
    if !column.is_of_table {
        Error::NotATable { table }.raise();
    }
    if !column.is_owned {
        let relation = table;
        Error::NotOwner { relation }.raise();
    }
    if column.is_of_leaf {
        Error::OfLeaf { table }.raise();
    }
    if column.is_temporary {
        Error::Temporary { table }.raise();
    }
    if column.is_inherited {
        let column = full_name(&column);
        Error::Inherited { column }.raise();
    }
    column
}

/// The sequences of a column. All of them are the table owner's, as whom they are changed.
pub fn sequences_of(column: &Column) -> Vec<Sequence> {
    let sequences = column.sequences();
    if let Some(other) = sequences.iter().find(|it| !it.is_owned) {
        Error::SequenceOfOther {
            sequence: other.name.clone(),
            owner: display(&column.owner),
        }
        .raise();
    }
    sequences
}

/// The column with its table, for messages.
pub fn full_name(column: &Column) -> String {
    format!("{}.{}", column.table_name, column.name)
}
