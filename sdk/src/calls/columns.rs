//! Rows as the server sends them, whatever the driver.

use std::error::Error as StdError;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use crate::Error;

/// A row in the binary format.
pub(crate) trait Columns {
    /// Type and value of a column; `None` for NULL, whose type may be unknown.
    fn column(&self, number: usize) -> Result<(Type, Option<&[u8]>), Error>;
}

/// A value of any type.
struct Raw<'a>(Option<&'a [u8]>);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Raw(Some(raw)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Raw(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

impl Columns for Row {
    fn column(&self, number: usize) -> Result<(Type, Option<&[u8]>), Error> {
        let raw: Raw<'_> = self
            .try_get(number)
            .map_err(|error| Error::Protocol(error.to_string()))?;
        let of = self.columns()[number].type_().clone();
        Ok((of, raw.0))
    }
}
