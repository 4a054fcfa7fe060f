//! The server's clock against this machine's, and the registry of worker ids.

use std::time::SystemTime;

use jiff::{SignedDuration, Timestamp};
use tokio_postgres::Client;

use crate::doctor::finding::Findings;
use crate::failure::Failure;
use crate::human;
use crate::look::Look;
use crate::query;

/// How far two clocks may be apart.
const CLOCK: SignedDuration = SignedDuration::from_secs(1);
/// How far a node's clock may have been off at its registration, in milliseconds.
const OFFSET_MS: f64 = 1_000.0;
/// How many of the worker ids may be leased, in percent.
const LEASED: f64 = 80.0;

pub async fn check(client: &Client, look: &Look, findings: &mut Findings) -> Result<(), Failure> {
    check_clock(client, findings).await?;
    let layout: Option<String> = match (&look.snowflake, look.server.is_plain) {
        (Some(snowflake), _) => snowflake.layout.clone(),
        (None, true) => query::one(client, "SELECT max(layout) FROM leaf.worker", &[])
            .await?
            .get(0),
        (None, false) => None,
    };
    let Some(layout) =
        layout.and_then(|layout| layout.parse::<leaf_core::snowflake::Layout>().ok())
    else {
        return Ok(());
    };
    let sql = "SELECT count(*) FILTER (WHERE leased_until > now()), \
                      max(abs(clock_offset_ms)) FILTER (WHERE leased_until > now()) \
                 FROM leaf.worker";
    let row = query::one(client, sql, &[]).await?;
    let leased: i64 = row.get(0);
    let worker_ids = layout.worker_ids() as f64;
    let percent = 100.0 * leased as f64 / worker_ids;
    if percent >= LEASED {
        let text = format!("{leased} of the {worker_ids} worker ids of layout {layout} are leased");
        let cure = "let services release their worker ids, or shorten leaf.worker_lease";
        findings.warning("registry", text, cure);
    }
    if let Some(offset) = row.get::<_, Option<f64>>(1).filter(|ms| *ms > OFFSET_MS) {
        let text = format!("the clock of a node is {offset:.0} ms off");
        findings.warning(
            "registry",
            text,
            "SELECT node, clock_offset_ms FROM leaf.worker",
        );
    }
    Ok(())
}

/// The server's clock must lie between two looks at this machine's.
async fn check_clock(client: &Client, findings: &mut Findings) -> Result<(), Failure> {
    let before = Timestamp::now();
    let row = query::one(client, "SELECT clock_timestamp()", &[]).await?;
    let after = Timestamp::now();
    let Ok(server) = Timestamp::try_from(row.get::<_, SystemTime>(0)) else {
        return Ok(());
    };
    let off = match server {
        server if server < before => before.duration_since(server),
        server if server > after => server.duration_since(after),
        _ => SignedDuration::ZERO,
    };
    if off > CLOCK {
        let off = human::duration(off.as_secs_f64());
        let text = format!("the server's is {off} off this machine's");
        findings.warning(
            "clock",
            text,
            "find out which of them is wrong, and synchronise it",
        );
    }
    Ok(())
}
