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
use tokio_postgres::types::Type;

use crate::connection::{Access, close};
use crate::failure::{Code, Failure};
use crate::output;
use crate::query;
pub use arguments::BenchArgs;
use clients::Clients;
use summary::Summary;
use work::Work;

/// The tag of a run that is not told one; it is created before and dropped afterwards.
const OWN_TAG: &str = "leafctl_bench";

/// Draws ids, and prints the figures.
pub async fn run(args: &BenchArgs) -> Result<(), Failure> {
    let earlier = args.compare.as_deref().map(Summary::read).transpose()?;
    let (config, connection) = args.connection.open_for_many(Access::ReadWrite).await?;
    let schema = query::schema_of_leaf(connection.client()).await?;
    let is_own = args.needs_tag() && args.tag.is_none();
    let tag = args.tag.as_deref().unwrap_or(OWN_TAG);
    if is_own {
        create(&connection, &schema).await?;
    }
    let measured = measure(args, Work::of(args, tag, &schema), &config).await;
    if is_own {
        drop_own(&connection, &schema).await?;
    }
    close(connection).await;
    let (summary, is_interrupted) = measured?;
    let printed = output::write(summary.render(args.format, earlier.as_ref())?.as_bytes());
    if let Some(file) = &args.save {
        let saved = fs::write(file, summary.json()?);
        saved.map_err(|error| Failure::failed(error).about(file.display()))?;
    }
    match (summary.duplicates, is_interrupted) {
        (0, false) => printed,
        (0, true) => Err(Failure::silent(Code::Interrupted)),
        _ => Err(Failure::new(Code::Found, "an id came twice")),
    }
}

async fn measure(
    args: &BenchArgs,
    work: Work,
    config: &Config,
) -> Result<(Summary, bool), Failure> {
    let clients = Clients::start(&work, args, config).await?;
    let begun = Instant::now();
    let end = begun + Duration::from_secs_f64(args.time);
    let mut next = begun;
    let mut is_interrupted = false;
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        next = (next + Duration::from_secs_f64(args.progress.unwrap_or(args.time))).min(end);
        tokio::select! {
            () = tokio::time::sleep_until(next.into()) => {}
            () = clients.ended() => break,
            _ = &mut interrupted => { is_interrupted = true; break }
        }
        if next >= end {
            break;
        }
        output::note(&clients.progress(begun.elapsed()));
    }
    let lasted = begun.elapsed();
    let tally = clients.stop().await?;
    let summary = Summary::of(&work, args, lasted, tally);
    Ok((summary, is_interrupted))
}

async fn create(connection: &Connection, schema: &str) -> Result<(), Failure> {
    // It exists if an earlier run was killed.
    let sql = format!("SELECT {schema}.leaf_tag_create($1, if_not_exists => true)");
    let created = connection
        .client()
        .query_typed(&sql, &[(&OWN_TAG, Type::TEXT)])
        .await;
    created.map_err(|error| {
        Failure::from(error).hint("let it draw from a tag that exists, with --tag")
    })?;
    if std::io::stderr().is_terminal() {
        output::note(&format!("created tag \"{OWN_TAG}\"; it will be dropped"));
    }
    Ok(())
}

async fn drop_own(connection: &Connection, schema: &str) -> Result<(), Failure> {
    let sql = format!("SELECT {schema}.leaf_tag_drop($1)");
    connection
        .client()
        .query_typed(&sql, &[(&OWN_TAG, Type::TEXT)])
        .await?;
    Ok(())
}
