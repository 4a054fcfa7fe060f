//! Calls on a connection, pool or transaction of the crate `sqlx`.

use bytes::BytesMut;
use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{
    PgArgumentBuffer, PgArguments, PgDatabaseError, PgExecutor, PgRow, PgTypeInfo, PgValueFormat,
    types::Oid,
};
use sqlx::{Arguments, Encode, Postgres, Row, TypeInfo, ValueRef};
use tokio_postgres::error::SqlState;
use tokio_postgres::types::Type;

use super::columns::Columns;
use super::list::each_call;
use super::statement::{self, Param, Statement};
use crate::{Cause, Error};

async fn query<T>(executor: impl PgExecutor<'_>, statement: Statement<'_, T>) -> Result<T, Error> {
    let mut arguments = PgArguments::default();
    for (value, of) in &statement.params {
        let argument = Argument::new((*value, of.clone()))?;
        arguments
            .add(argument)
            .map_err(|error| Error::Protocol(error.to_string()))?;
    }
    // Not prepared under a name, because of poolers.
    let query = sqlx::query_with(statement.sql, arguments).persistent(false);
    let rows = query.fetch_all(executor).await?;
    statement.answer(&rows)
}

/// A parameter in the binary format.
struct Argument {
    of: PgTypeInfo,
    /// `None` for NULL.
    raw: Option<BytesMut>,
}

impl Argument {
    fn new((value, of): Param<'_>) -> Result<Self, Error> {
        let mut raw = BytesMut::new();
        let is_null = value
            .to_sql_checked(&of, &mut raw)
            .map_err(|error| Error::Protocol(error.to_string()))?;
        let is_null = matches!(is_null, tokio_postgres::types::IsNull::Yes);
        Ok(Argument {
            of: PgTypeInfo::with_oid(Oid(of.oid())),
            raw: (!is_null).then_some(raw),
        })
    }
}

impl Encode<'_, Postgres> for Argument {
    fn encode_by_ref(&self, out: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        match &self.raw {
            Some(raw) => {
                out.extend_from_slice(raw);
                Ok(IsNull::No)
            }
            None => Ok(IsNull::Yes),
        }
    }

    fn produces(&self) -> Option<PgTypeInfo> {
        Some(self.of.clone())
    }
}

impl sqlx::Type<Postgres> for Argument {
    /// Each argument says its own.
    fn type_info() -> PgTypeInfo {
        <str as sqlx::Type<Postgres>>::type_info()
    }
}

impl Columns for PgRow {
    fn column(&self, number: usize) -> Result<(Type, Option<&[u8]>), Error> {
        let bad = |error: &dyn std::fmt::Display| Error::Protocol(error.to_string());
        let value = self.try_get_raw(number).map_err(|error| bad(&error))?;
        let of = value.type_info();
        let of = of
            .oid()
            .and_then(|oid| Type::from_oid(oid.0))
            .ok_or_else(|| bad(&format!("column {number} has type {}", of.name())))?;
        if value.is_null() {
            return Ok((of, None));
        }
        if value.format() != PgValueFormat::Binary {
            return Err(bad(&"values in text format"));
        }
        let raw = value.as_bytes().map_err(|error| bad(&error))?;
        Ok((of, Some(raw)))
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        let answer = error.as_database_error();
        let Some(answer) = answer.and_then(|any| any.try_downcast_ref::<PgDatabaseError>()) else {
            return match error {
                sqlx::Error::Io(_)
                | sqlx::Error::Tls(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::WorkerCrashed => Error::Connection(Cause::of_driver(error)),
                error => Error::Protocol(error.to_string()),
            };
        };
        let code = SqlState::from_code(answer.code());
        let texts = [Some(answer.message()), answer.detail(), answer.hint()];
        let texts = texts.map(|text| text.map(str::to_owned));
        let texts = texts.each_ref().map(Option::as_deref);
        Cause::of_server(Some(code), texts, error).into()
    }
}

macro_rules! define {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) -> $out:ty, $example:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// ```no_run
        #[doc = "# async fn example(pool: &sqlx::PgPool) -> Result<(), Box<dyn std::error::Error>> {"]
        #[doc = concat!("let answer = leaf_sdk::sqlx::", stringify!($name), "(pool, ", $example, ").await?;")]
        #[doc = "# let _ = answer; Ok(()) }"]
        /// ```
        pub async fn $name(executor: impl PgExecutor<'_>, $($arg: $type),*) -> Result<$out, Error> {
            query(executor, statement::$name($(&$arg),*)).await
        }
    )*};
}

each_call!(define);
