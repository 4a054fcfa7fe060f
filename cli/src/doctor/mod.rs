//! `doctor`: looks for what is wrong or will be soon, and names the cure.
//!
//! It reads, and changes nothing: what could take long is given up after
//! [`STATEMENT_TIMEOUT`].
//!
//! - [`finding`]: what was found.
//! - [`checks`]: what is looked for.

mod checks;
mod finding;

use clap::Args;
use leaf_sdk::Connection;

use crate::connection::{self, Access, interruptible};
use crate::failure::{Code, Failure};
use crate::output::{Cell, Column, Format, Rows, line, progress, styled_line};
use finding::{Findings, Level};

/// How long a statement may take.
const STATEMENT_TIMEOUT: &str = "10s";
/// How long it may wait for a lock.
const LOCK_TIMEOUT: &str = "2s";

/// Look for problems, and show how to cure them
///
/// Checks the server, worker slots, rights, tags and the columns that draw from them, the
/// clock and the lease of snowflake ids, leaf's triggers, and the centre. Changes nothing.
/// Superusers can run all checks; what another role may not see is reported as a notice. The exit
/// code is 4 if there is a warning or an error.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Do not show notices
    #[arg(short, long)]
    quiet: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,

    #[command(flatten)]
    connection: connection::Args,
}

/// Looks, and prints what was found.
pub async fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let connection = args.connection.open(Access::Any).await?;
    let mut findings = interruptible(connection, async |connection| {
        progress::waiting("examining", examine(connection)).await
    })
    .await?;
    if args.quiet {
        findings.leave_out_notices();
    }
    match print(&findings, args.format) {
        // The exit code counts although nobody reads to the end.
        Err(failure) if !failure.is_unread() => return Err(failure),
        _ => {}
    }
    match findings.worst() >= Some(Level::Warning) {
        true => Err(Failure::silent(Code::Found)),
        false => Ok(()),
    }
}

async fn examine(connection: &Connection) -> Result<Findings, Failure> {
    let client = connection.client();
    // Settings of the transaction: those of the session may be another client's soon.
    let begin = format!(
        "BEGIN READ ONLY; SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT}'; \
         SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"
    );
    client.batch_execute(&begin).await?;
    let mut findings = Findings::default();
    checks::all(client, &mut findings).await?;
    client.batch_execute("ROLLBACK").await?;
    findings.sort();
    Ok(findings)
}

fn print(findings: &Findings, format: Format) -> Result<(), Failure> {
    if format == Format::Table {
        return print_for_people(findings);
    }
    let columns = ["level", "subject", "finding", "cure"];
    let columns = columns.map(|name| Column { name, title: name });
    let mut rows = Rows::new(&columns, format)?;
    for finding in findings.iter() {
        rows.push(&[
            Cell::Text(finding.level.to_string()),
            Cell::Text(finding.subject.clone()),
            Cell::Text(finding.text.clone()),
            Cell::Text(finding.cure.clone()),
        ])?;
    }
    rows.end()
}

fn print_for_people(findings: &Findings) -> Result<(), Failure> {
    for finding in findings.iter() {
        let style = finding.level.style();
        let text = format!(" {}: {}", finding.subject, finding.text);
        styled_line(style, &finding.level.to_string(), &text)?;
        line(&format!("  cure: {}", finding.cure))?;
    }
    match findings.worst() {
        None => line("Nothing was found."),
        Some(_) => Ok(()),
    }
}
