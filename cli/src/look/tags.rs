//! `leaf.stat_segment`: a row per tag.

use jiff::Timestamp;
use leaf_sdk::calls::rows::row;
use leaf_sdk::calls::statement::Statement;
use serde::Serialize;
use tokio_postgres::Client;

use super::value::as_string;
use crate::failure::Failure;

row! {
    /// A row of `leaf.stat_segment`, whose documentation says what the fields mean.
    #[derive(Clone, Debug, Default, Serialize)]
    pub struct Tag {
        pub tag: String = "biz_tag::text",
        #[serde(serialize_with = "as_string")]
        pub position: Option<i64>,
        #[serde(serialize_with = "as_string")]
        pub granted_up_to: Option<i64>,
        #[serde(serialize_with = "as_string")]
        pub max_value: Option<i64>,
        #[serde(serialize_with = "as_string")]
        pub ids_left: Option<i64>,
        pub used_percent: Option<f64>,
        pub time_left_seconds: Option<f64> = "extract(epoch FROM time_left)::float8",
        pub upstream_tag: Option<String> = "upstream_tag::text",
        pub current_left: i64,
        pub next_left: i64,
        pub step: i64,
        pub loads: i64,
        pub ids_drawn: i64,
        pub ids_per_second: f64,
        pub waits: i64,
        pub total_wait_ms: f64,
        pub longest_wait_ms: f64,
        pub timeouts: i64,
        pub last_error: Option<String>,
        pub last_error_at: Option<Timestamp>,
    }
}

impl Tag {
    pub(super) async fn look(client: &Client) -> Result<Vec<Tag>, Failure> {
        let rows = Statement::<Vec<Tag>>::select("leaf.stat_segment ORDER BY biz_tag", vec![]);
        Ok(rows.execute(client).await?)
    }

    /// Ids in both buffers.
    pub fn buffered(&self) -> i64 {
        self.current_left + self.next_left
    }
}
