//! What a failover would do here, said before there is one.

use tokio_postgres::Client;

use crate::doctor::finding::Findings;
use crate::failure::Failure;
use crate::look::Look;
use crate::query;

/// How many failovers should be possible without anybody's help.
const FEW: i64 = 3;
/// How many failovers a tag should last.
const FEW_OF_TAG: i64 = 10;

pub async fn check(client: &Client, look: &Look, findings: &mut Findings) -> Result<(), Failure> {
    if look.server.is_plain || look.server.is_in_recovery {
        return Ok(());
    }
    let sql = "SELECT biz_tag::text, leaf.failovers_left(biz_tag::text) AS left FROM leaf.stat_segment \
                WHERE upstream_tag IS NULL AND used_percent < 80 ORDER BY biz_tag";
    for row in query::all(client, sql, &[]).await? {
        let left = row.get::<_, Option<i64>>(1);
        if let Some(left) = left.filter(|&left| left < FEW_OF_TAG) {
            findings.warning(
                &format!("tag \"{}\"", row.get::<_, &str>(0)),
                format!("{left} failovers are left: each skips leaf.history_skip times its last segment and its largest block"),
                "raise its max_value, or lower leaf.history_skip if a failover loses few grants",
            );
        }
    }
    let sql = "SELECT current_setting('leaf.lossless_failover')::boolean, \
                      current_setting('synchronous_standby_names') = '', \
                      current_setting('leaf.allow_unreplicated_centre')::boolean, \
                      current_setting('leaf.worker_id')::integer >= 0, \
                      leaf.failovers_left()";
    let row = query::one(client, sql, &[]).await?;
    let (is_lossless, is_alone, feeds, has_fixed_id): (bool, bool, bool, bool) =
        (row.get(0), row.get(1), row.get(2), row.get(3));
    let subject = "failover";
    if is_lossless && is_alone {
        let text = "leaf.lossless_failover is on, but synchronous_standby_names is empty: no standby confirms anything";
        let cure = "set synchronous_standby_names, or leaf.lossless_failover to off on all servers, and restart them";
        findings.error(subject, text, cure);
        return Ok(());
    }
    let Some(left) = row.get::<_, Option<i64>>(4) else {
        return Ok(());
    };
    let cure = "set leaf.lossless_failover on all servers, if only standbys that lack nothing are promoted";
    if feeds {
        let text = "a promoted standby feeds nothing until leaf_tag_vouch is called, or the tags are moved";
        findings.warning(subject, text, cure);
    }
    if has_fixed_id {
        let text = "after a promotion, snowflake ids fail with 55000 until leaf_worker_take_over is called, because leaf.worker_id is set";
        findings.warning(subject, text, cure);
    }
    if !feeds && !has_fixed_id {
        let text = format!(
            "a promoted standby leases another worker id, {left} times until none is left; each is kept for leaf.worker_reuse_after"
        );
        match left < FEW {
            true => findings.warning(subject, text, cure),
            false => findings.notice(subject, text, "none is needed"),
        }
    }
    Ok(())
}
