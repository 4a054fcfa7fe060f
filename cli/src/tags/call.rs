//! A call of one of leaf's functions, with the arguments that are given: the others keep
//! the function's defaults.

use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Row};

use crate::failure::Failure;
use crate::query::{self, Param};

/// A call, and its arguments.
pub struct Call {
    function: &'static str,
    arguments: Vec<String>,
    values: Vec<(Box<dyn ToSql + Sync + Send>, Type)>,
    cast: &'static str,
    is_table: bool,
}

impl Call {
    pub fn of(function: &'static str) -> Call {
        Call {
            function,
            arguments: Vec::new(),
            values: Vec::new(),
            cast: "",
            is_table: false,
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

    /// Calls a function that returns one row.
    pub async fn row(self, client: &Client) -> Result<Row, Failure> {
        let row = self.rows(client).await?.into_iter().next();
        row.ok_or_else(|| Failure::failed("the server has returned no row"))
    }

    /// Calls a function that returns a table; its rows.
    pub async fn table(mut self, client: &Client) -> Result<Vec<Row>, Failure> {
        self.is_table = true;
        self.rows(client).await
    }

    async fn rows(self, client: &Client) -> Result<Vec<Row>, Failure> {
        let schema = query::schema_of_leaf(client).await?;
        let (function, cast) = (self.function, self.cast);
        let arguments = self.arguments.join(", ");
        let sql = match self.is_table {
            true => format!("SELECT * FROM {schema}.{function}({arguments})"),
            false => format!("SELECT {schema}.{function}({arguments}){cast}"),
        };
        let values: Vec<Param<'_>> = self
            .values
            .iter()
            .map(|(value, type_)| (&**value as &(dyn ToSql + Sync), type_.clone()))
            .collect();
        query::all(client, &sql, &values).await
    }
}
