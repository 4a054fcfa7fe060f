//! The centre, for servers that have fed tags or lease their worker id from one.

use tokio_postgres::Client;

use crate::doctor::finding::Findings;
use crate::failure::Failure;
use crate::human;
use crate::look::Look;
use crate::query;

pub async fn check(client: &Client, look: &Look, findings: &mut Findings) -> Result<(), Failure> {
    let has_fed = look.tags.iter().any(|tag| tag.upstream_tag.is_some());
    let sql = "SELECT count(*) FILTER (WHERE setting = ''), count(*) FROM pg_settings \
                WHERE name = 'leaf.upstream'";
    let row = query::one(client, sql, &[]).await?;
    let (is_empty, is_visible): (i64, i64) = (row.get(0), row.get(1));
    if has_fed && is_visible > 0 && is_empty > 0 {
        findings.error(
            "centre",
            "there are fed tags, but leaf.upstream is not set: they get no ids",
            "set leaf.upstream in postgresql.conf, and reload",
        );
        return Ok(());
    }
    let Some(upstream) = &look.upstream else {
        if has_fed && look.server.is_monitor {
            findings.notice(
                "centre",
                "it has not been asked since the server started, so whether it answers is not known",
                "draw from a fed tag, and run doctor again",
            );
        }
        return Ok(());
    };
    // Unless the role may see the setting, it may be set.
    if !has_fed && is_empty > 0 {
        return Ok(());
    }
    let is_failing = upstream.last_error_at > upstream.last_answer_at;
    if let (true, Some(error)) = (is_failing, &upstream.last_error) {
        let since = upstream.last_answer_at.map(human::instant);
        let since = since.map_or("has never answered".into(), |at| {
            format!("last answered at {at}")
        });
        findings.error(
            "centre",
            format!("it {since}: {error}"),
            "check that it runs, that leaf.upstream names it, and that it lets this server in",
        );
    }
    Ok(())
}
