//! How the rows of an answer are read.

use std::fmt::Display;

pub use tokio_postgres::Row;
use tokio_postgres::row::RowIndex;
use tokio_postgres::types::FromSql;

use crate::{Error, SegmentId, SnowflakeId};

/// The answer to a statement: nothing, a [`Record`], or several.
pub trait Answer: Sized {
    /// The select list for a view, or for a function that is called in FROM, as `answer`;
    /// `None` if the function is called as an expression.
    fn columns() -> Option<String>;

    /// Reads the rows.
    fn read(rows: &[Row]) -> Result<Self, Error>;
}

/// A row of an answer.
pub trait Record: Sized {
    /// The select list, as for an [`Answer`].
    fn columns() -> Option<String> {
        None
    }

    /// Reads a row.
    fn of(row: &Row) -> Result<Self, Error>;
}

impl Answer for () {
    fn columns() -> Option<String> {
        None
    }

    fn read(_: &[Row]) -> Result<(), Error> {
        Ok(())
    }
}

impl<T: Record> Answer for T {
    fn columns() -> Option<String> {
        T::columns()
    }

    fn read(rows: &[Row]) -> Result<Self, Error> {
        match rows {
            [row] => T::of(row),
            rows => Err(Error::Protocol(format!(
                "{} rows instead of one",
                rows.len()
            ))),
        }
    }
}

impl<T: Record> Answer for Vec<T> {
    fn columns() -> Option<String> {
        T::columns()
    }

    fn read(rows: &[Row]) -> Result<Self, Error> {
        rows.iter().map(T::of).collect()
    }
}

/// A type whose fields are columns, with the SQL of each column that is not its name.
#[doc(hidden)]
#[macro_export]
macro_rules! __row {
    ($(#[$meta:meta])* $visibility:vis struct $name:ident {
        $($(#[$of_field:meta])* $of:vis $field:ident: $type:ty $(= $sql:literal)?,)*
    }) => {
        $(#[$meta])*
        $visibility struct $name {
            $($(#[$of_field])* $of $field: $type,)*
        }

        impl $crate::calls::rows::Record for $name {
            fn columns() -> Option<String> {
                Some([$(concat!($($sql, " AS ",)? stringify!($field))),*].join(", "))
            }

            fn of(row: &$crate::calls::rows::Row) -> Result<Self, $crate::Error> {
                Ok($name { $($field: $crate::calls::rows::get(row, stringify!($field))?,)* })
            }
        }
    };
}
pub use __row as row;

macro_rules! value {
    ($($type:ty),*) => {$(
        impl Record for $type {
            fn of(row: &Row) -> Result<Self, Error> {
                get(row, 0)
            }
        }
    )*};
}

value!(bool, i32, SegmentId, SnowflakeId);

/// A text, or something that is written as one.
impl Record for Option<String> {
    fn columns() -> Option<String> {
        Some("answer::text".into())
    }

    fn of(row: &Row) -> Result<Self, Error> {
        get(row, 0)
    }
}

/// A column, by its name or number.
pub fn get<'r, T: FromSql<'r>>(row: &'r Row, column: impl RowIndex + Display) -> Result<T, Error> {
    let value = row.try_get(column);
    value.map_err(|error| Error::Protocol(error.to_string()))
}
