//! Calls on a client or transaction of the crate `tokio-postgres`.

use tokio_postgres::GenericClient;

use super::list::each_call;
use super::statement;
use crate::Error;

macro_rules! define {
    ($($(#[$meta:meta])* $name:ident($($arg:ident: $type:ty),*) -> $answer:ty,
        $example:literal, $source:ident $arguments:tt;)*) => {$(
        $(#[$meta])*
        ///
        /// ```no_run
        #[doc = "# async fn example(client: &tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {"]
        #[doc = concat!("let answer = leaf_sdk::asynchronous::", stringify!($name), "(client, ", $example, ").await?;")]
        #[doc = "# let _ = answer; Ok(()) }"]
        /// ```
        pub async fn $name(client: &impl GenericClient, $($arg: $type),*) -> Result<$answer, Error> {
            statement::$name("", $($arg),*).execute(client).await
        }
    )*};
}

each_call!(define);
