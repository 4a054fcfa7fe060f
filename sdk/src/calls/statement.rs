//! A statement: its text, its parameters, and how to read the answer.
//!
//! Parameters carry their types, so that no statement has to be prepared under
//! a name. This works through poolers that give every transaction another server
//! connection.

use bytes::BytesMut;
use leaf_core::snowflake::request::Request;
use tokio_postgres::Row;
use tokio_postgres::types::{IsNull, ToSql, Type};

use super::list::each_call;
use super::rows::Answer;
use crate::Error;

/// A statement that returns a `T`.
#[allow(missing_debug_implementations)]
pub struct Statement<T> {
    sql: String,
    /// The same for the plain edition, where functions that grant are procedures.
    call: Option<String>,
    params: Vec<(Value, Type)>,
    read: fn(&[Row]) -> Result<T, Error>,
}

/// A parameter, as it is sent.
pub type Value = Box<dyn ToSql + Sync + Send>;

/// Functions of the library that are procedures of the plain edition.
const PROCEDURES: [&str; 2] = ["leaf_segment_reserve", "leaf_worker_release"];

/// Whether a database has the plain edition.
pub(crate) const IS_PLAIN: &str = "EXISTS (SELECT FROM pg_catalog.pg_proc AS p \
     WHERE p.proname OPERATOR(pg_catalog.=) 'leaf_segment_reserve' AND p.prokind OPERATOR(pg_catalog.=) 'p' \
       AND pg_catalog.pg_function_is_visible(p.oid))";

/// The type of a function's parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Kind {
    Text,
    Name,
    Boolean,
    Integer,
    Bigint,
    Texts,
    Bigints,
    Timestamptz,
    Uuid,
    Regclass,
}

impl Kind {
    /// As what a value is sent, and what is written after it in the statement.
    fn sent_as(self) -> (Type, &'static str) {
        match self {
            Kind::Text => (Type::TEXT, ""),
            Kind::Name => (Type::NAME, ""),
            Kind::Boolean => (Type::BOOL, ""),
            Kind::Integer => (Type::INT4, ""),
            Kind::Bigint => (Type::INT8, ""),
            Kind::Texts => (Type::TEXT_ARRAY, ""),
            Kind::Bigints => (Type::INT8_ARRAY, ""),
            Kind::Timestamptz => (Type::TIMESTAMPTZ, ""),
            Kind::Uuid => (Type::TEXT, "::uuid"),
            Kind::Regclass => (Type::TEXT, "::regclass"),
        }
    }
}

impl<T: Answer> Statement<T> {
    /// A call of a function, whose schema is on the search path or given with its dot. An
    /// argument that is NULL is left out: the function's default applies.
    pub fn call(schema: &str, function: &str, arguments: Vec<(&str, Kind, Value)>) -> Statement<T> {
        let given = arguments
            .into_iter()
            .filter(|(_, kind, value)| !is_null(value, kind));
        let (mut texts, mut params) = (Vec::new(), Vec::new());
        for (number, (name, kind, value)) in (1..).zip(given) {
            let (type_, cast) = kind.sent_as();
            texts.push(format!("\"{name}\" => ${number}{cast}"));
            params.push((value, type_));
        }
        let call = format!("{schema}{function}({})", texts.join(", "));
        let sql = match T::columns() {
            None => format!("SELECT {call}"),
            Some(columns) => format!("SELECT {columns} FROM {call} AS answer"),
        };
        let is_procedure = PROCEDURES.contains(&function);
        Statement {
            sql,
            call: is_procedure.then(|| format!("CALL {call}")),
            params,
            read: T::read,
        }
    }

    /// The rows of a view, or whatever else comes after FROM.
    pub fn select(from: &str, params: Vec<(Value, Type)>) -> Statement<T> {
        let columns = T::columns().unwrap_or_default();
        Statement {
            sql: format!("SELECT {columns} FROM {from}"),
            call: None,
            params,
            read: T::read,
        }
    }

    /// A request, whose parameters are texts.
    pub(crate) fn of(request: Request<impl ToSql + Sync + Send + 'static>) -> Statement<T> {
        let params = request.parameters.into_iter();
        Statement {
            sql: request.sql.to_owned(),
            call: None,
            params: params
                .map(|value| (Box::new(value) as Value, Type::TEXT))
                .collect(),
            read: T::read,
        }
    }
}

fn is_null(value: &Value, kind: &Kind) -> bool {
    let written = value.to_sql_checked(&kind.sent_as().0, &mut BytesMut::new());
    matches!(written, Ok(IsNull::Yes))
}

impl<T> Statement<T> {
    /// With what the plain edition executes instead.
    pub(crate) fn or_call(mut self, call: &str) -> Statement<T> {
        self.call = Some(call.to_owned());
        self
    }

    /// The query for the edition, if the statement depends on that.
    pub(super) fn question(&self) -> Option<String> {
        self.call.is_some().then(|| format!("SELECT {IS_PLAIN}"))
    }

    /// The text of the statement.
    pub(super) fn text(&self, is_plain: bool) -> &str {
        match &self.call {
            Some(call) if is_plain => call,
            _ => &self.sql,
        }
    }

    pub(super) fn params(&self) -> Vec<(&(dyn ToSql + Sync), Type)> {
        let each = self.params.iter();
        each.map(|(value, type_)| (&**value as &(dyn ToSql + Sync), type_.clone()))
            .collect()
    }

    /// Reads the rows of the answer.
    pub(super) fn answer(&self, rows: &[Row]) -> Result<T, Error> {
        (self.read)(rows)
    }

    /// Executes the statement.
    pub async fn execute(&self, client: &impl tokio_postgres::GenericClient) -> Result<T, Error> {
        let is_plain = match self.question() {
            Some(question) => {
                let rows = client.query_typed(&question, &[]).await?;
                rows.first().is_some_and(|row| row.get(0))
            }
            None => false,
        };
        self.execute_in(client, is_plain).await
    }

    /// Executes the statement in a database with the plain edition, or without. Its answer is there once
    /// the server is ready again: what a procedure has committed is committed by then.
    pub(crate) async fn execute_in(
        &self,
        client: &impl tokio_postgres::GenericClient,
        is_plain: bool,
    ) -> Result<T, Error> {
        let params = self.params();
        let rows = client.query_typed(self.text(is_plain), &params).await?;
        self.answer(&rows)
    }
}

/// A call of a function, with its parameters, their types and values.
#[doc(hidden)]
#[macro_export]
macro_rules! __call {
    ($schema:expr, $function:ident { $($param:ident: $kind:ident = $value:expr),* $(,)? }) => {
        $crate::calls::statement::Statement::call($schema, stringify!($function), vec![
            $((stringify!($param), $crate::calls::statement::Kind::$kind, Box::new($value) as _)),*
        ])
    };
}
pub use __call as call;

/// Makes the statements of a list of calls.
macro_rules! statements {
    ($($(#[$meta:meta])* $name:ident($($arg:ident: $type:ty),*) -> $answer:ty,
        $($example:literal,)?
        $source:ident { $($param:ident: $kind:ident = $value:expr),* };)*) => {$(
        $(#[$meta])*
        #[allow(clippy::ptr_arg)]
        pub fn $name(schema: &str, $($arg: $type),*) -> Statement<$answer> {
            $crate::__call!(schema, $source { $($param: $kind = $value),* })
        }
    )*};
}
pub(crate) use statements;

each_call!(statements);
