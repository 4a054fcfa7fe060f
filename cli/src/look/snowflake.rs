//! `leaf.stat_snowflake`: the snowflake ids of the database.

use jiff::Timestamp;
use leaf_sdk::calls::rows::row;
use leaf_sdk::calls::statement::Statement;
use serde::Serialize;
use tokio_postgres::Client;

use crate::failure::Failure;

row! {
    /// The row of `leaf.stat_snowflake`, whose documentation says what the fields mean.
    #[derive(Clone, Debug, Serialize)]
    pub struct Snowflake {
        pub worker_id: Option<i32>,
        pub layout: Option<String>,
        pub epoch: Option<Timestamp>,
        pub ceiling: Option<Timestamp>,
        pub last_issued_at: Option<Timestamp>,
        pub clock_lead_ms: Option<f64>,
        pub clock_offset_ms: Option<f64>,
        pub rollbacks: i64 = "coalesce(rollbacks, 0)",
        pub waits: i64 = "coalesce(waits, 0)",
        pub longest_wait_ms: f64 = "coalesce(longest_wait_ms, 0)",
        pub timeouts: i64 = "coalesce(timeouts, 0)",
        /// Not after the last year that is written in four digits.
        pub runs_out_at: Option<Timestamp> = "CASE WHEN runs_out_at < '9999-12-30' THEN runs_out_at END",
        pub used_percent: Option<f64>,
        pub last_error: Option<String>,
        pub last_error_at: Option<Timestamp>,
    }
}

impl Snowflake {
    pub(super) async fn look(client: &Client) -> Result<Snowflake, Failure> {
        let row = Statement::<Snowflake>::select("leaf.stat_snowflake", vec![]);
        Ok(row.execute(client).await?)
    }
}
