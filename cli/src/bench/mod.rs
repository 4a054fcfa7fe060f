//! `bench`: draws ids for some time, and says how fast, how evenly, and whether one came twice.
//!
//! - [`arguments`]: what is drawn, and for how long.
//! - [`work`]: one call, through the server or from the client library's buffers.
//! - [`clients`]: who calls, until the time is over.
//! - [`tally`]: what came of the calls.
//! - [`summary`]: the figures, for people, for programs and for comparisons.

mod arguments;
mod clients;
mod summary;
mod tally;
mod work;

use std::fs;
use std::io::IsTerminal;
use std::time::{Duration, Instant};

use leaf_sdk::{Config, Connection};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio_postgres::types::{ToSql, Type};

use crate::connection::{Access, close};
use crate::failure::{Code, Failure};
use crate::output;
use crate::query;
pub use arguments::BenchArgs;
use clients::Clients;
use summary::Summary;
use work::Work;

/// The tag of a run without `--tag`, which is created before and dropped afterwards. No other
/// run on this machine has it.
fn own_tag() -> String {
    format!("leafctl_bench_{}", std::process::id())
}

/// How long the server may take to answer the last calls, or to drop the tag.
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
/// How long it may take to drop the tag if the calls have failed.
const LAST_LIMIT: Duration = Duration::from_secs(1);

/// Draws ids, and prints the figures.
pub async fn run(args: &BenchArgs) -> Result<(), Failure> {
    let earlier = args.compare.as_deref().map(Summary::read).transpose()?;
    let (config, connection) = args.connection.open_for_many(Access::ReadWrite).await?;
    let schema = query::require_leaf(connection.client()).await?;
    let is_own = args.needs_tag() && args.tag.is_none();
    let tag = args.tag.clone().unwrap_or_else(own_tag);
    // Before there is a tag: an interrupted run drops it.
    let interrupts = signal(SignalKind::interrupt()).map_err(Failure::failed)?;
    if is_own {
        create(&connection, &schema).await?;
    }
    let measured = measure(args, Work::of(args, &tag, &schema), &config, interrupts).await;
    // A server that has not answered the calls is not waited for again.
    let limit = match measured {
        Ok(_) => ANSWER_LIMIT,
        Err(_) => LAST_LIMIT,
    };
    let dropped = match is_own {
        true => drop_own(&connection, &schema, limit).await,
        false => Ok(()),
    };
    close(connection).await;
    let (summary, is_interrupted) = match &dropped {
        Ok(()) => measured?,
        Err(_) => measured.map_err(about_left)?,
    };
    let printed = output::write(summary.render(args.format, earlier.as_ref())?.as_bytes());
    if let Some(file) = &args.save {
        let saved = fs::write(file, summary.json()?);
        saved.map_err(|error| Failure::failed(error).about(file.display()))?;
    }
    match (summary.duplicates, is_interrupted) {
        (0, false) => dropped.map_err(about_left).and(printed),
        (0, true) => {
            let interrupted = Failure::silent(Code::Interrupted);
            Err(dropped.err().map_or(interrupted, |failure| {
                about_left(failure.with_code(Code::Interrupted))
            }))
        }
        _ => Err(Failure::new(Code::Found, "an id was drawn twice")),
    }
}

async fn measure(
    args: &BenchArgs,
    work: Work,
    config: &Config,
    mut interrupts: Signal,
) -> Result<(Summary, bool), Failure> {
    let clients = tokio::select! {
        clients = Clients::start(&work, args, config) => clients?,
        _ = interrupts.recv() => return Err(Failure::silent(Code::Interrupted)),
    };
    let begun = Instant::now();
    let end = begun + Duration::from_secs_f64(args.time);
    let mut next = begun;
    let mut is_interrupted = false;
    loop {
        next = (next + Duration::from_secs_f64(args.progress.unwrap_or(args.time))).min(end);
        tokio::select! {
            () = tokio::time::sleep_until(next.into()) => {}
            () = clients.ended() => break,
            _ = interrupts.recv() => { is_interrupted = true; break }
        }
        if next >= end {
            break;
        }
        output::note(&clients.progress(begun.elapsed()));
    }
    let lasted = begun.elapsed();
    let stopped = tokio::time::timeout(ANSWER_LIMIT, clients.stop()).await;
    let tally = stopped.map_err(|_| match is_interrupted {
        true => no_answer().with_code(Code::Interrupted),
        false => no_answer(),
    })??;
    let summary = Summary::of(&work, args, lasted, tally);
    Ok((summary, is_interrupted))
}

async fn create(connection: &Connection, schema: &str) -> Result<(), Failure> {
    let tag = own_tag();
    let sql = format!("SELECT {schema}.leaf_tag_create($1)");
    let created = connection
        .client()
        .query_typed(&sql, &[(&tag, Type::TEXT)])
        .await;
    created.map_err(|error| Failure::from(error).hint("use --tag to draw from an existing tag"))?;
    if std::io::stderr().is_terminal() {
        output::note(&format!("created tag \"{tag}\"; it will be dropped"));
    }
    Ok(())
}

/// Why the run has failed, if its tag has not been dropped.
fn about_left(failure: Failure) -> Failure {
    failure.hint(format!(
        "the tag of the run may be left: leafctl tags drop {}",
        own_tag()
    ))
}

fn no_answer() -> Failure {
    Failure::new(Code::Unreachable, "the server does not answer")
}

async fn drop_own(connection: &Connection, schema: &str, limit: Duration) -> Result<(), Failure> {
    let sql = format!("SELECT {schema}.leaf_tag_drop($1)");
    let tag = own_tag();
    let values = [(&tag as &(dyn ToSql + Sync), Type::TEXT)];
    let dropped = connection.client().query_typed(&sql, &values);
    let dropped = tokio::time::timeout(limit, dropped).await;
    dropped.map_err(|_| no_answer())??;
    Ok(())
}
