//! `leaf.stat_segment`: a row per tag.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::Client;

use super::value::{as_string, timestamp};
use crate::failure::Failure;
use crate::query;

/// A row of `leaf.stat_segment`, whose documentation says what the fields mean.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Tag {
    pub tag: String,
    #[serde(serialize_with = "as_string")]
    pub position: Option<i64>,
    #[serde(serialize_with = "as_string")]
    pub granted_up_to: Option<i64>,
    #[serde(serialize_with = "as_string")]
    pub max_value: Option<i64>,
    #[serde(serialize_with = "as_string")]
    pub ids_left: Option<i64>,
    pub used_percent: Option<f64>,
    pub time_left_seconds: Option<f64>,
    pub upstream_tag: Option<String>,
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

impl Tag {
    pub(super) async fn look(client: &Client) -> Result<Vec<Tag>, Failure> {
        let sql = "SELECT biz_tag::text, position, granted_up_to, max_value, ids_left, used_percent, \
                          extract(epoch FROM time_left)::float8, upstream_tag::text, current_left, \
                          next_left, step, loads, ids_drawn, ids_per_second, waits, total_wait_ms, \
                          longest_wait_ms, timeouts, last_error, last_error_at \
                     FROM leaf.stat_segment ORDER BY biz_tag";
        let rows = query::all(client, sql, &[]).await?;
        let read = |row: &tokio_postgres::Row| Tag {
            tag: row.get(0),
            position: row.get(1),
            granted_up_to: row.get(2),
            max_value: row.get(3),
            ids_left: row.get(4),
            used_percent: row.get(5),
            time_left_seconds: row.get(6),
            upstream_tag: row.get(7),
            current_left: row.get(8),
            next_left: row.get(9),
            step: row.get(10),
            loads: row.get(11),
            ids_drawn: row.get(12),
            ids_per_second: row.get(13),
            waits: row.get(14),
            total_wait_ms: row.get(15),
            longest_wait_ms: row.get(16),
            timeouts: row.get(17),
            last_error: row.get(18),
            last_error_at: row.get::<_, Option<_>>(19).and_then(timestamp),
        };
        Ok(rows.iter().map(read).collect())
    }

    /// Ids in both buffers.
    pub fn buffered(&self) -> i64 {
        self.current_left + self.next_left
    }
}
