//! What is looked for, a file for each subject.

mod columns;
mod rights;
mod server;
mod snowflake;
mod tags;
mod triggers;
mod upstream;

use tokio_postgres::Client;

use super::finding::Findings;
use crate::failure::Failure;
use crate::look::{Look, use_extension};

/// Looks for everything. What cannot be looked at is itself a finding, and does not stop the
/// other checks.
pub async fn all(client: &Client, findings: &mut Findings) -> Result<(), Failure> {
    if !server::has_leaf(client, findings).await? {
        return Ok(());
    }
    use_extension(client).await?;
    let look = Look::take(client).await?;
    server::check_look(&look, findings);
    tags::check(&look, findings);
    snowflake::check_look(&look, findings);
    let done = server::check(client, &look, findings).await;
    skipped("worker slots", done, findings);
    let done = rights::check(client, findings).await;
    skipped("rights", done, findings);
    let done = columns::check(client, findings).await;
    skipped("columns", done, findings);
    let done = snowflake::check(client, &look, findings).await;
    skipped("registry", done, findings);
    let done = triggers::check(client, findings).await;
    skipped("triggers", done, findings);
    let done = upstream::check(client, &look, findings).await;
    skipped("centre", done, findings);
    Ok(())
}

fn skipped(subject: &str, done: Result<(), Failure>, findings: &mut Findings) {
    if let Err(failure) = done {
        let text = format!("could not be checked: {}", failure.text());
        findings.notice(
            subject,
            text,
            "run doctor as a superuser, or as a member of pg_monitor",
        );
    }
}
