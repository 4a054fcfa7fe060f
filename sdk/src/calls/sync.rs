//! Calls on a client or transaction of the crate `postgres`.

use postgres::GenericClient;

use super::list::each_call;
use super::statement::{self, Statement};
use crate::Error;

fn query<T>(client: &mut impl GenericClient, statement: Statement<T>) -> Result<T, Error> {
    let is_plain = match statement.question() {
        Some(question) => {
            let rows = client.query_typed(&question, &[])?;
            rows.first().is_some_and(|row| row.get(0))
        }
        None => false,
    };
    let rows = client.query_typed(statement.text(is_plain), &statement.params())?;
    statement.answer(&rows)
}

macro_rules! define {
    ($($(#[$meta:meta])* $name:ident($($arg:ident: $type:ty),*) -> $answer:ty,
        $example:literal, $source:ident $arguments:tt;)*) => {$(
        $(#[$meta])*
        ///
        /// ```no_run
        #[doc = "# fn main() -> Result<(), Box<dyn std::error::Error>> {"]
        #[doc = "let mut client = postgres::Client::connect(\"host=/run/postgresql\", postgres::NoTls)?;"]
        #[doc = concat!("let answer = leaf_sdk::sync::", stringify!($name), "(&mut client, ", $example, ")?;")]
        #[doc = "# let _ = answer; Ok(()) }"]
        /// ```
        pub fn $name(client: &mut impl GenericClient, $($arg: $type),*) -> Result<$answer, Error> {
            query(client, statement::$name("", $($arg),*))
        }
    )*};
}

each_call!(define);
