//! `leaf.stat_upstream`: the server's requests to its centre.

use jiff::Timestamp;
use leaf_sdk::calls::rows::row;
use leaf_sdk::calls::statement::Statement;
use serde::Serialize;
use tokio_postgres::Client;

use crate::failure::Failure;

row! {
    /// The row of `leaf.stat_upstream`, whose documentation says what the fields mean.
    #[derive(Clone, Debug, Serialize)]
    pub struct Upstream {
        pub host: Option<String>,
        pub connected_since: Option<Timestamp>,
        pub last_answer_at: Option<Timestamp>,
        pub feeds: i64 = "coalesce(feeds, 0)",
        pub ids_fed: i64 = "coalesce(ids_fed, 0)",
        pub failures: i64 = "coalesce(failures, 0)",
        pub last_error: Option<String>,
        pub last_error_at: Option<Timestamp>,
    }
}

impl Upstream {
    /// `None` if nothing has been asked of a centre yet.
    pub(super) async fn look(client: &Client) -> Result<Option<Upstream>, Failure> {
        let row = Statement::<Upstream>::select("leaf.stat_upstream", vec![]);
        let upstream = row.execute(client).await?;
        let is_used = upstream.host.is_some() || upstream.feeds > 0 || upstream.failures > 0;
        Ok(is_used.then_some(upstream))
    }
}
