//! What is looked for, a file for each subject.

mod columns;
mod failover;
mod rights;
mod server;
mod settings;
mod snowflake;
mod tags;
mod triggers;
mod upstream;

use tokio_postgres::Client;

use super::finding::Findings;
use crate::failure::Failure;
use crate::look::Look;
use crate::query::attempt;

/// Looks for everything. What cannot be looked at is itself a finding, and does not stop the
/// other checks.
pub async fn all(client: &Client, findings: &mut Findings) -> Result<(), Failure> {
    if !server::has_leaf(client, findings).await? {
        return Ok(());
    }
    let look = Look::within(client).await?;
    server::check_look(&look, findings);
    tags::check(&look, findings);
    snowflake::check_look(&look, findings);
    let failure = attempt(client, server::check_waits(client, findings)).await?;
    skipped("waits", failure, findings);
    let server = server::check(client, &look, findings);
    let failure = attempt(client, server).await?;
    skipped("worker slots", failure, findings);
    let failure = attempt(client, rights::check(client, findings)).await?;
    skipped("rights", failure, findings);
    // Without the library, no column draws.
    if !look.server.is_plain {
        let failure = attempt(client, columns::check(client, findings)).await?;
        skipped("columns", failure, findings);
    }
    let snowflake = snowflake::check(client, &look, findings);
    let failure = attempt(client, snowflake).await?;
    skipped("registry", failure, findings);
    let failure = attempt(client, settings::check(client, &look, findings)).await?;
    skipped("settings", failure, findings);
    let failure = attempt(client, triggers::check(client, &look, findings)).await?;
    skipped("triggers", failure, findings);
    let failover = failover::check(client, &look, findings);
    let failure = attempt(client, failover).await?;
    skipped("failover", failure, findings);
    let upstream = upstream::check(client, &look, findings);
    let failure = attempt(client, upstream).await?;
    skipped("centre", failure, findings);
    Ok(())
}

fn skipped(subject: &str, failure: Option<Failure>, findings: &mut Findings) {
    if let Some(failure) = failure {
        let cure = match failure.is_of_rights() {
            true => {
                "run doctor as a superuser or as the role that installed leaf, or grant the role pg_monitor and the columns that the manual of leafctl doctor names"
            }
            false => "remove the cause, and run doctor again",
        };
        findings.notice(
            subject,
            format!("could not be checked: {}", failure.text()),
            cure,
        );
    }
}
