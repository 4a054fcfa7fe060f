//! Calls on a client or transaction of the crate `tokio-postgres`.

use tokio_postgres::GenericClient;

use super::list::each_call;
use super::statement::{self, Statement};
use crate::Error;

async fn query<T>(client: &impl GenericClient, statement: Statement<'_, T>) -> Result<T, Error> {
    let rows = client.query_typed(statement.sql, &statement.params).await?;
    statement.answer(&rows)
}

macro_rules! define {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $type:ty),*) -> $out:ty, $example:literal;)*) => {$(
        $(#[$doc])*
        ///
        /// ```no_run
        #[doc = "# async fn example(client: &tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {"]
        #[doc = concat!("let answer = leaf_sdk::asynchronous::", stringify!($name), "(client, ", $example, ").await?;")]
        #[doc = "# let _ = answer; Ok(()) }"]
        /// ```
        pub async fn $name(client: &impl GenericClient, $($arg: $type),*) -> Result<$out, Error> {
            query(client, statement::$name($(&$arg),*)).await
        }
    )*};
}

each_call!(define);
