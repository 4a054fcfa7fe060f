//! A call of one of leaf's functions, with the arguments that are given: the others keep
//! the function's defaults.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::failure::Failure;

/// A call, and its arguments.
pub struct Call {
    function: &'static str,
    arguments: Vec<String>,
    values: Vec<(Box<dyn ToSql + Sync + Send>, Type)>,
    cast: &'static str,
}

impl Call {
    pub fn of(function: &'static str) -> Call {
        Call {
            function,
            arguments: Vec::new(),
            values: Vec::new(),
            cast: "",
        }
    }

    pub fn text(self, name: &str, value: Option<&String>) -> Call {
        self.with(name, "", value.cloned(), Type::TEXT)
    }

    pub fn integer(self, name: &str, value: Option<i32>) -> Call {
        self.with(name, "", value, Type::INT4)
    }

    pub fn bigint(self, name: &str, value: Option<i64>) -> Call {
        self.with(name, "", value, Type::INT8)
    }

    /// An argument that is false unless it is given.
    pub fn flag(self, name: &str, value: bool) -> Call {
        self.with(name, "", value.then_some(true), Type::BOOL)
    }

    pub fn name(self, name: &str, value: &str) -> Call {
        self.with(name, "::name", Some(value.to_owned()), Type::TEXT)
    }

    /// A table, with or without its schema.
    pub fn regclass(self, table: &str) -> Call {
        self.with(
            "\"table\"",
            "::regclass",
            Some(table.to_owned()),
            Type::TEXT,
        )
    }

    /// What the result is cast to.
    pub fn returning(self, cast: &'static str) -> Call {
        Call { cast, ..self }
    }

    fn with(
        mut self,
        name: &str,
        cast: &str,
        value: Option<impl ToSql + Sync + Send + 'static>,
        type_: Type,
    ) -> Call {
        let Some(value) = value else {
            return self;
        };
        self.values.push((Box::new(value), type_));
        let number = self.values.len();
        self.arguments.push(format!("{name} => ${number}{cast}"));
        self
    }

    /// Calls a function that returns nothing.
    pub async fn execute(self, client: &Client) -> Result<(), Failure> {
        self.row(client).await.map(drop)
    }

    /// Calls the function; its row.
    pub async fn row(self, client: &Client) -> Result<Row, Failure> {
        let (function, cast) = (self.function, self.cast);
        let sql = format!("SELECT {function}({}){cast}", self.arguments.join(", "));
        let values: Vec<_> = self
            .values
            .iter()
            .map(|(value, type_)| (&**value as &(dyn ToSql + Sync), type_.clone()))
            .collect();
        let rows = client.query_typed(&sql, &values).await?;
        let row = rows.into_iter().next();
        row.ok_or_else(|| Failure::failed(format!("{function} returned no row")))
    }
}
