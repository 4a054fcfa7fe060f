//! `status`: what leaf's views show of a database, once.

use std::time::Duration;

use clap::Args;
use leaf_sdk::Connection;

use crate::connection::{self, Access};
use crate::failure::Failure;
use crate::human;
use crate::look::{Look, Snowflake, Tag, Upstream};
use crate::output::{Cell, Column, Format, Rows, line, write};

/// Show tags, buffers and worker id of a database
///
/// Members of pg_monitor see all tags and the snowflake ids, other roles the tags that they
/// own. CSV has the tags only, JSON everything.
#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Show only these tags
    tags: Vec<String>,

    /// Show it again and again, until Ctrl-C
    #[arg(long, value_name = "TIME", num_args = 0..=1, require_equals = true,
          default_missing_value = "2s", value_parser = human::time)]
    watch: Option<Duration>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,

    #[command(flatten)]
    connection: connection::Args,
}

/// Shows the state of a database.
pub async fn run(args: &StatusArgs) -> Result<(), Failure> {
    let connection = args.connection.open(Access::Any).await?;
    connection::interruptible(connection, async |connection| {
        show(args, connection).await?;
        while let Some(pause) = args.watch {
            tokio::time::sleep(pause).await;
            if args.format == Format::Table {
                line("")?;
            }
            show(args, connection).await?;
        }
        Ok(())
    })
    .await
}

async fn show(args: &StatusArgs, connection: &Connection) -> Result<(), Failure> {
    let mut look = Look::take(connection.client()).await?;
    if !args.tags.is_empty() {
        look.tags.retain(|tag| args.tags.contains(&tag.tag));
        let is_missing = |name: &&String| look.tags.iter().all(|tag| tag.tag != **name);
        if let Some(missing) = args.tags.iter().find(is_missing) {
            // It may have a password.
            if missing.contains("://") || missing.contains("password=") {
                return Err(Failure::usage("a connection string was given as a tag")
                    .hint("put -d before it"));
            }
            return Err(
                Failure::failed(format!("there is no tag \"{missing}\"")).hint(
                    match look.server.is_monitor || look.server.is_plain {
                        true => "leafctl status lists all tags",
                        false => "only members of pg_monitor see the tags of other roles",
                    },
                ),
            );
        }
    }
    match args.format {
        Format::Json => {
            let json = serde_json::to_string_pretty(&look).map_err(Failure::failed)?;
            write(format!("{json}\n").as_bytes())
        }
        Format::Csv => csv(&look.tags),
        Format::Table => table(&look),
    }
}

fn table(look: &Look) -> Result<(), Failure> {
    line(&about_server(look))?;
    match &look.snowflake {
        _ if look.server.is_plain => {
            line("Buffers, rates and snowflake ids are those of the services: see their metrics.")?;
        }
        Some(snowflake) => line(&about_snowflake(snowflake))?,
        None => {}
    }
    if let Some(upstream) = &look.upstream {
        line(&about_upstream(upstream))?;
    }
    if let Some(evictions) = Tag::about_evictions(&look.tags) {
        line(&evictions)?;
    }
    if look.tags.is_empty() {
        return line(match look.server.is_monitor || look.server.is_plain {
            true => "There are no tags.",
            false => "There are no tags that this role owns.",
        });
    }
    write(b"\n")?;
    let titles = [
        "tag",
        "position",
        "ids/s",
        "buffers",
        "time left",
        "used %",
        "waits",
    ];
    let columns = titles.map(|title| Column { name: title, title });
    let mut rows = Rows::new(&columns, Format::Table)?;
    for tag in &look.tags {
        let counted = |cell: Cell| match look.server.is_plain {
            true => Cell::Null,
            false => cell,
        };
        let waits = match tag.timeouts {
            0 => tag.waits.to_string(),
            timeouts => format!("{}, {}", tag.waits, human::counted(timeouts, "timeout")),
        };
        rows.push(&[
            Cell::Text(tag.tag.clone()),
            Cell::or_null(tag.position, Cell::Id),
            counted(Cell::Short(human::count(tag.ids_per_second))),
            counted(Cell::Short(human::count(tag.buffered() as f64))),
            Cell::or_null(tag.time_left_seconds, |left| {
                Cell::Short(human::duration(left))
            }),
            Cell::or_null(tag.used_percent, Cell::Float),
            counted(Cell::Short(waits)),
        ])?;
    }
    rows.end()?;
    let failing = look
        .tags
        .iter()
        .filter_map(|tag| Some((&tag.tag, tag.last_error.as_ref()?)));
    for (tag, error) in failing {
        let text = format!("Last error of tag \"{tag}\": {error}");
        line(&human::printable(&text))?;
    }
    Ok(())
}

fn csv(tags: &[Tag]) -> Result<(), Failure> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    for tag in tags {
        writer.serialize(tag).map_err(Failure::failed)?;
    }
    if !tags.is_empty() {
        return write(&writer.into_inner().map_err(Failure::failed)?);
    }
    // The names come with the first row.
    writer.serialize(Tag::default()).map_err(Failure::failed)?;
    let rows = writer.into_inner().map_err(Failure::failed)?;
    write(
        rows.split_inclusive(|byte| *byte == b'\n')
            .next()
            .unwrap_or_default(),
    )
}

fn about_server(look: &Look) -> String {
    let server = &look.server;
    let role = match server.is_in_recovery {
        true => "standby: ids are drawn at the primary",
        false => "takes writes",
    };
    let loader = match (server.loader_pid, server.is_monitor) {
        _ if server.is_plain => " (plain)".into(),
        (Some(pid), _) => format!(", loader {pid}"),
        (None, true) => match look.lacks_loader() {
            true => ", no loader: the last try to start one failed".into(),
            false => ", no loader: nothing has been drawn lately".into(),
        },
        // The role does not see which processes are loaders.
        (None, false) => String::new(),
    };
    let (database, version, leaf) = (&server.database, &server.version, &server.leaf_version);
    format!("Database {database}: PostgreSQL {version} ({role}), leaf {leaf}{loader}")
}

fn about_snowflake(snowflake: &Snowflake) -> String {
    let Some(worker_id) = snowflake.worker_id else {
        let error = snowflake.last_error.as_deref();
        let error = error
            .map(|error| format!("; last error: {error}"))
            .unwrap_or_default();
        return format!("Snowflake ids: none drawn since the server started{error}");
    };
    let mut parts = vec![format!("worker id {worker_id}")];
    parts.extend(
        snowflake
            .layout
            .as_ref()
            .map(|layout| format!("layout {layout}")),
    );
    let ceiling = snowflake.ceiling.map(human::instant);
    parts.extend(ceiling.map(|ceiling| format!("ceiling {ceiling}")));
    parts.push(human::counted(snowflake.rollbacks, "rollback"));
    parts.push(human::counted(snowflake.waits, "wait"));
    parts.push(human::counted(snowflake.timeouts, "timeout"));
    parts.extend(
        snowflake
            .last_error
            .as_ref()
            .map(|error| format!("last error: {error}")),
    );
    format!("Snowflake ids: {}", parts.join(", "))
}

fn about_upstream(upstream: &Upstream) -> String {
    let state = match (upstream.connected_since, &upstream.last_error) {
        (Some(since), _) => format!("connected since {}", human::instant(since)),
        (None, Some(error)) => format!("not connected; last error: {error}"),
        (None, None) => "not connected".into(),
    };
    let host = upstream.host.as_deref().unwrap_or("none yet");
    format!(
        "Centre: {host}, {state}, {}, {}, {}",
        human::counted(upstream.feeds, "feed"),
        human::counted(upstream.ids_fed, "id"),
        human::counted(upstream.failures, "failure")
    )
}
