//! `leaf.stat_snowflake`: the snowflake ids of the database.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::Client;

use super::value::timestamp;
use crate::failure::Failure;
use crate::query;

/// The row of `leaf.stat_snowflake`, whose documentation says what the fields mean, and
/// that of the server's own worker id in `leaf.worker`, if the role may read it.
#[derive(Clone, Debug, Serialize)]
pub struct Snowflake {
    pub worker_id: Option<i32>,
    pub layout: Option<String>,
    pub epoch: Option<Timestamp>,
    pub ceiling: Option<Timestamp>,
    pub last_issued_at: Option<Timestamp>,
    pub clock_lead_ms: Option<f64>,
    pub clock_offset_ms: Option<f64>,
    pub rollbacks: i64,
    pub waits: i64,
    pub longest_wait_ms: f64,
    pub timeouts: i64,
    pub runs_out_at: Option<Timestamp>,
    pub used_percent: Option<f64>,
    pub last_error: Option<String>,
    pub last_error_at: Option<Timestamp>,
}

impl Snowflake {
    pub(super) async fn look(client: &Client) -> Result<Snowflake, Failure> {
        let sql = "SELECT worker_id, layout, epoch, ceiling, last_issued_at, clock_lead_ms, \
                          clock_offset_ms, rollbacks, waits, longest_wait_ms, timeouts, \
                          runs_out_at, used_percent, last_error, last_error_at \
                     FROM leaf.stat_snowflake";
        let row = query::one(client, sql, &[]).await?;
        let instant = |n: usize| row.get::<_, Option<_>>(n).and_then(timestamp);
        Ok(Snowflake {
            worker_id: row.get(0),
            layout: row.get(1),
            epoch: instant(2),
            ceiling: instant(3),
            last_issued_at: instant(4),
            clock_lead_ms: row.get(5),
            clock_offset_ms: row.get(6),
            rollbacks: row.get::<_, Option<i64>>(7).unwrap_or_default(),
            waits: row.get::<_, Option<i64>>(8).unwrap_or_default(),
            longest_wait_ms: row.get::<_, Option<f64>>(9).unwrap_or_default(),
            timeouts: row.get::<_, Option<i64>>(10).unwrap_or_default(),
            runs_out_at: instant(11),
            used_percent: row.get(12),
            last_error: row.get(13),
            last_error_at: instant(14),
        })
    }
}
