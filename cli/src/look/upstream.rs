//! `leaf.stat_upstream`: the server's requests to its centre.

use jiff::Timestamp;
use serde::Serialize;
use tokio_postgres::Client;

use super::value::timestamp;
use crate::failure::Failure;
use crate::query;

/// The row of `leaf.stat_upstream`, whose documentation says what the fields mean.
#[derive(Clone, Debug, Serialize)]
pub struct Upstream {
    pub host: Option<String>,
    pub connected_since: Option<Timestamp>,
    pub last_answer_at: Option<Timestamp>,
    pub feeds: i64,
    pub ids_fed: i64,
    pub failures: i64,
    pub last_error: Option<String>,
    pub last_error_at: Option<Timestamp>,
}

impl Upstream {
    /// `None` if nothing has been asked of a centre yet.
    pub(super) async fn look(client: &Client) -> Result<Option<Upstream>, Failure> {
        let sql = "SELECT host, connected_since, last_answer_at, feeds, ids_fed, failures, \
                          last_error, last_error_at \
                     FROM leaf.stat_upstream";
        let row = query::one(client, sql, &[]).await?;
        let instant = |n: usize| row.get::<_, Option<_>>(n).and_then(timestamp);
        let count = |n: usize| row.get::<_, Option<i64>>(n).unwrap_or_default();
        let upstream = Upstream {
            host: row.get(0),
            connected_since: instant(1),
            last_answer_at: instant(2),
            feeds: count(3),
            ids_fed: count(4),
            failures: count(5),
            last_error: row.get(6),
            last_error_at: instant(7),
        };
        let is_used = upstream.host.is_some() || upstream.feeds > 0 || upstream.failures > 0;
        Ok(is_used.then_some(upstream))
    }
}
