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
use crate::human;
use crate::output::{Cell, Column, Format, Rows, line, progress, styled_line};
use crate::query;
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

    /// Examine all databases of the server that have leaf
    #[arg(short = 'A', long)]
    all_databases: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,

    #[command(flatten)]
    connection: connection::Args,
}

/// Looks, and prints what was found.
pub async fn run(args: &DoctorArgs) -> Result<(), Failure> {
    let (mut findings, examined) = match args.all_databases {
        true => of_all_databases(&args.connection).await?,
        false => {
            let findings = of_one(args.connection.open(Access::Any).await?).await?;
            (findings, None)
        }
    };
    if args.quiet {
        findings.leave_out_notices();
    }
    let printed = print(&findings, args.format).and_then(|()| match examined {
        Some(examined) if args.format == Format::Table => line(&examined),
        _ => Ok(()),
    });
    match printed {
        // The exit code counts although nobody reads to the end.
        Err(failure) if !failure.is_unread() => return Err(failure),
        _ => {}
    }
    match findings.worst() >= Some(Level::Warning) {
        true => Err(Failure::silent(Code::Found)),
        false => Ok(()),
    }
}

async fn of_one(connection: Connection) -> Result<Findings, Failure> {
    interruptible(connection, async |connection| {
        progress::waiting("examining", examine(connection)).await
    })
    .await
}

/// The findings in each database that has leaf, and which these are, in a sentence.
async fn of_all_databases(args: &connection::Args) -> Result<(Findings, Option<String>), Failure> {
    let (config, connection) = args.open_for_many(Access::Any).await?;
    let names = interruptible(connection, async |connection| {
        query::databases(connection.client()).await
    })
    .await?;
    let mut all = Findings::default();
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for name in names {
        let opened = args.open_config(&config.clone().database(&name)).await;
        let examined = match opened {
            Ok((_, connection)) => of_one_of_several(connection).await,
            Err(failure) => Err(failure),
        };
        match examined {
            Ok(None) => {
                without.push(name);
                continue;
            }
            Ok(Some(findings)) => all.of_database(&name, findings),
            Err(failure) if failure.is_interrupted() => return Err(failure),
            Err(failure) => {
                let text = format!("it could not be examined: {}", failure.text());
                let cure = format!("leafctl doctor -d {}", human::database_word(&name));
                all.warning(&format!("database {name}"), text, cure);
            }
        }
        with.push(name);
    }
    if with.is_empty() {
        return Err(query::no_database_has_leaf());
    }
    all.sort();
    let mut examined = format!("Examined: {}.", with.join(", "));
    if !without.is_empty() {
        examined += &format!(" Without leaf: {}.", without.join(", "));
    }
    Ok((all, Some(human::printable(&examined))))
}

/// The findings in a database; `None` if it does not have leaf.
async fn of_one_of_several(connection: Connection) -> Result<Option<Findings>, Failure> {
    interruptible(connection, async |connection| {
        let client = connection.client();
        let find = query::in_transaction(client, "BEGIN READ ONLY", async || {
            query::find_leaf(client).await
        });
        if find.await?.is_none() {
            return Ok(None);
        }
        progress::waiting("examining", examine(connection))
            .await
            .map(Some)
    })
    .await
}

async fn examine(connection: &Connection) -> Result<Findings, Failure> {
    let client = connection.client();
    // Settings of the transaction: those of the session may be another client's soon.
    let begin = format!(
        "BEGIN READ ONLY; SET LOCAL statement_timeout = '{STATEMENT_TIMEOUT}'; \
         SET LOCAL lock_timeout = '{LOCK_TIMEOUT}'"
    );
    query::begin(client, &begin).await?;
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
    let findings = findings.merged();
    for finding in findings.iter() {
        let style = finding.level.style();
        let text = format!(" {}: {}", finding.subject, finding.text);
        styled_line(style, &finding.level.to_string(), &text)?;
        line(&format!("  cure: {}", finding.cure))?;
    }
    match findings.worst() {
        None => line("No problem was found."),
        Some(_) => line(&findings.counts()),
    }
}
