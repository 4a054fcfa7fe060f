//! The checks: the statements of `doctor.sql`, and those that need more than a statement.

mod columns;
mod server;
mod settings;
mod snowflake;

use tokio_postgres::Client;

use super::finding::{Findings, Level};
use crate::failure::Failure;
use crate::look::{Look, Tag};
use crate::query::{self, attempt};

const STATEMENTS: &str = include_str!("../doctor.sql");

/// A statement of the file.
struct Check<'a> {
    subject: &'a str,
    /// The words in brackets.
    needs: &'a str,
    sql: &'a str,
}

/// The statements: each begins below a line that names it, and ends with a semicolon.
fn checks() -> impl Iterator<Item = Check<'static>> {
    let parts = STATEMENTS.split("-- check: ").skip(1);
    parts.filter_map(|part| {
        let (title, rest) = part.split_once('\n')?;
        let (subject, needs) = title.split_once(" [").unwrap_or((title, "]"));
        Some(Check {
            subject,
            needs: needs.trim_end_matches(']'),
            sql: rest.split_once(";\n")?.0,
        })
    })
}

/// Looks for everything. What cannot be looked at is itself a finding, and does not stop the
/// other checks.
pub async fn all(client: &Client, findings: &mut Findings) -> Result<(), Failure> {
    if !server::has_leaf(client, findings).await? {
        return Ok(());
    }
    let look = Look::within(client).await?;
    let reads_files = reads_files(client).await?;
    let mut is_locked = false;
    for check in checks() {
        let has = |need: &str| match need {
            "extension" => !look.server.is_plain,
            "monitor" => look.server.is_monitor,
            "primary" => !look.server.is_in_recovery,
            _ => reads_files,
        };
        if !check.needs.split_whitespace().all(has) {
            continue;
        }
        if is_locked && ["tags", "roles"].contains(&check.subject) {
            continue;
        }
        let mut found = Findings::default();
        let failure = attempt(client, run(client, &check, &look, &mut found)).await?;
        is_locked |=
            found.iter().any(|it| it.subject == "table leaf.alloc") && check.subject == "waits";
        findings.append(found);
        skipped(check.subject, failure, findings);
    }
    if is_locked {
        findings.notice(
            "tags",
            "they and the columns that draw are not checked, because leaf.alloc is locked",
            "run doctor again when it is not",
        );
    }
    // Without the library, no column draws.
    if !look.server.is_plain && !is_locked {
        let failure = attempt(client, columns::check(client, findings)).await?;
        skipped("columns", failure, findings);
    }
    let snowflake = snowflake::check(client, &look, findings);
    let failure = attempt(client, snowflake).await?;
    skipped("registry", failure, findings);
    let failure = attempt(client, settings::check(client, &look, findings)).await?;
    skipped("settings", failure, findings);
    Ok(())
}

async fn run(
    client: &Client,
    check: &Check<'_>,
    look: &Look,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let sql = match look.server.is_plain {
        true => check.sql.replace("leaf.stat_segment AS s", Tag::OF_PLAIN),
        false => check.sql.to_owned(),
    };
    for row in query::all(client, &sql, &[]).await? {
        let level = match row.get(0) {
            "error" => Level::Error,
            "warning" => Level::Warning,
            _ => Level::Notice,
        };
        let (subject, text): (&str, String) = (row.get(1), row.get(2));
        findings.add(level, subject, text, row.get(3));
    }
    Ok(())
}

/// Whether the role may read what the files set.
async fn reads_files(client: &Client) -> Result<bool, Failure> {
    let sql = "SELECT has_table_privilege('pg_file_settings', 'SELECT') \
                  AND has_function_privilege('pg_show_all_file_settings()', 'EXECUTE')";
    Ok(query::one(client, sql, &[]).await?.get(0))
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
