//! `leaf.stat_segment`: a row per tag.

use jiff::Timestamp;
use leaf_sdk::calls::rows::row;
use leaf_sdk::calls::statement::Statement;
use serde::Serialize;
use tokio_postgres::Client;

use super::value::as_string;
use crate::failure::Failure;
use crate::human;

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
        /// Of all tags and databases of the server.
        pub evictions: i64,
        pub last_error: Option<String>,
        pub last_error_at: Option<Timestamp>,
    }
}

impl Tag {
    /// A table expression that is the same where there is no view, and no memory whose counters it would show.
    pub const OF_PLAIN: &str = "(SELECT biz_tag, max_id AS position, nullif(max_id, -9223372036854775808) - 1 AS granted_up_to, max_value, \
                least(ids_left, 9223372036854775807)::bigint AS ids_left, \
                (100 * (all_ids - least(ids_left, all_ids)) / nullif(all_ids, 0))::float8 AS used_percent, \
                NULL::interval AS time_left, upstream_tag, 0::bigint AS current_left, 0::bigint AS next_left, \
                step::bigint AS step, 0::bigint AS loads, 0::bigint AS ids_drawn, 0::float8 AS ids_per_second, \
                0::bigint AS waits, 0::float8 AS total_wait_ms, 0::float8 AS longest_wait_ms, \
                0::bigint AS timeouts, 0::bigint AS evictions, NULL::text AS last_error, NULL::timestamptz AS last_error_at \
           FROM leaf.alloc, \
                LATERAL (SELECT least(max_value, 9223372036854775806)::numeric AS last) AS l, \
                LATERAL (SELECT greatest(last - max_id + 1, 0) AS ids_left, greatest(last, 0) AS all_ids) AS i) AS s";

    pub(super) async fn look(client: &Client, is_plain: bool) -> Result<Vec<Tag>, Failure> {
        let from = match is_plain {
            true => Self::OF_PLAIN,
            false => "leaf.stat_segment",
        };
        let rows = Statement::<Vec<Tag>>::select(&format!("{from} ORDER BY biz_tag"), vec![]);
        Ok(rows.execute(client).await?)
    }

    /// A line about tags that evict each other, if they do.
    pub fn about_evictions(tags: &[Tag]) -> Option<String> {
        let evictions = tags.iter().map(|tag| tag.evictions).max().unwrap_or(0);
        (evictions > 0).then(|| {
            let evictions = human::grouped(evictions);
            format!("Evictions of tags from shared memory since the server started: {evictions}")
        })
    }

    /// Ids in both buffers.
    pub fn buffered(&self) -> i64 {
        self.current_left + self.next_left
    }
}
