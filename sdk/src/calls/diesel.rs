//! Calls on a connection of the crate `diesel`.
//!
//! `diesel` does not pass on the SQLSTATE of an error. An error of the server is therefore
//! [`Error::Server`], also for an unknown tag; its text is the server's.

use std::io::Write;

use bytes::BytesMut;
use diesel::RunQueryDsl;
use diesel::connection::LoadConnection;
use diesel::deserialize::{self, QueryableByName};
use diesel::pg::Pg;
use diesel::result::DatabaseErrorKind;
use diesel::row::{Field, NamedRow, Row};
use diesel::serialize::{self, IsNull, Output, ToSql};
use diesel::sql_types::{BigInt, Double, Integer, Nullable, Text, Timestamptz};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::columns::Columns;
use super::list::each_call;
use super::statement::{self, Statement};
use crate::{Cause, Error};

fn query<C, T>(connection: &mut C, statement: Statement<'_, T>) -> Result<T, Error>
where
    C: LoadConnection<Backend = Pg>,
{
    let mut query = diesel::sql_query(statement.sql).into_boxed::<Pg>();
    for (value, of) in &statement.params {
        let mut raw = BytesMut::new();
        let is_null = value
            .to_sql_checked(of, &mut raw)
            .map_err(|error| Error::Protocol(error.to_string()))?;
        let is_null = matches!(is_null, tokio_postgres::types::IsNull::Yes);
        let raw = (!is_null).then_some(Raw(raw));
        query = match *of {
            Type::INT4 => query.bind::<Nullable<Integer>, _>(raw),
            Type::INT8 => query.bind::<Nullable<BigInt>, _>(raw),
            Type::FLOAT8 => query.bind::<Nullable<Double>, _>(raw),
            Type::TIMESTAMPTZ => query.bind::<Nullable<Timestamptz>, _>(raw),
            // A name is cast by the server.
            _ => query.bind::<Nullable<Text>, _>(raw),
        };
    }
    let rows: Vec<Values> = query.load(connection)?;
    statement.answer(&rows)
}

/// A parameter in the binary format of its type.
#[derive(Debug)]
struct Raw(BytesMut);

impl<T> ToSql<T, Pg> for Raw {
    fn to_sql<'b>(&'b self, out: &mut Output<'b, '_, Pg>) -> serialize::Result {
        out.write_all(&self.0)?;
        Ok(IsNull::No)
    }
}

/// A row.
struct Values(Vec<(Option<Type>, Option<Vec<u8>>)>);

impl QueryableByName<Pg> for Values {
    fn build<'a>(row: &impl NamedRow<'a, Pg>) -> deserialize::Result<Self> {
        let field = |number| {
            let field = Row::get(row, number).ok_or("a column is missing")?;
            let value = field.value();
            Ok(match value {
                Some(value) => {
                    let of = Type::from_oid(value.get_oid().get());
                    (of, Some(value.as_bytes().to_vec()))
                }
                None => (None, None),
            })
        };
        (0..row.field_count())
            .map(field)
            .collect::<Result<_, _>>()
            .map(Values)
    }
}

impl Columns for Values {
    fn column(&self, number: usize) -> Result<(Type, Option<&[u8]>), Error> {
        let (of, raw) = self
            .0
            .get(number)
            .ok_or_else(|| Error::Protocol(format!("column {number} is missing")))?;
        Ok((of.clone().unwrap_or(Type::UNKNOWN), raw.as_deref()))
    }
}

impl From<diesel::result::Error> for Error {
    fn from(error: diesel::result::Error) -> Self {
        let diesel::result::Error::DatabaseError(kind, answer) = &error else {
            return Error::Protocol(error.to_string());
        };
        let code = match kind {
            DatabaseErrorKind::ClosedConnection | DatabaseErrorKind::UnableToSendCommand => {
                return Error::Connection(Cause::of_driver(error));
            }
            DatabaseErrorKind::SerializationFailure => Some(SqlState::T_R_SERIALIZATION_FAILURE),
            DatabaseErrorKind::ReadOnlyTransaction => Some(SqlState::READ_ONLY_SQL_TRANSACTION),
            _ => None,
        };
        let texts = [Some(answer.message()), answer.details(), answer.hint()];
        let texts = texts.map(|text| text.map(str::to_owned));
        let texts = texts.each_ref().map(Option::as_deref);
        Error::Server(Cause::of_server(code, texts, error))
    }
}

macro_rules! define {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) -> $out:ty, $example:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// ```no_run
        #[doc = "# fn example<C>(connection: &mut C) -> Result<(), leaf_sdk::Error>"]
        #[doc = "# where C: diesel::connection::LoadConnection<Backend = diesel::pg::Pg> {"]
        #[doc = concat!("let answer = leaf_sdk::diesel::", stringify!($name), "(connection, ", $example, ")?;")]
        #[doc = "# let _ = answer; Ok(()) }"]
        /// ```
        pub fn $name<C>(connection: &mut C, $($arg: $type),*) -> Result<$out, Error>
        where
            C: LoadConnection<Backend = Pg>,
        {
            query(connection, statement::$name($(&$arg),*))
        }
    )*};
}

each_call!(define);
