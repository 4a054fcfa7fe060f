//! `import`: creates tags that go on where another service has stopped, from dumps of its
//! tables.
//!
//! - [`dump`]: the rows of a table in a dump of MySQL or MariaDB.
//! - [`sources`]: what the tables of each service mean.
//! - [`store`]: the tags, written in one transaction.

mod dump;
mod sources;
mod store;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::connection::{self, Access, interruptible};
use crate::failure::Failure;
use crate::output::{Cell, Column, Format, Rows, progress};
use sources::Tag;

/// Create tags that continue the ids of another service
///
/// Reads dumps of mysqldump or mariadb-dump, plain or of several databases. Before they are
/// made, the table must be renamed or the old service stopped, so that it grants nothing more.
/// Either all tags are created or none.
#[derive(Debug, Args)]
pub struct ImportArgs {
    #[command(subcommand)]
    source: Source,

    #[command(flatten)]
    connection: connection::Args,
}

#[derive(Debug, Subcommand)]
enum Source {
    Leaf(LeafArgs),
    Tinyid(TinyidArgs),
    Tickets(TicketsArgs),
}

/// What the sources have in common.
#[derive(Debug, Args)]
struct Common {
    /// Dumps; - is standard input
    #[arg(required = true, value_name = "DUMP")]
    dumps: Vec<PathBuf>,

    /// Owner of the tags; by default the connected role
    #[arg(long, value_name = "ROLE")]
    owner: Option<String>,

    /// Show what would be created, without a server
    #[arg(long)]
    dry_run: bool,

    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
}

/// From the table leaf_alloc of Meituan Leaf
#[derive(Debug, Args)]
struct LeafArgs {
    /// Name of the table
    #[arg(long, value_name = "TABLE", default_values = ["leaf_alloc", "leaf_alloc_moved"])]
    table: Vec<String>,

    #[command(flatten)]
    common: Common,
}

/// From the table tiny_id_info of TinyID, of all its databases
#[derive(Debug, Args)]
struct TinyidArgs {
    /// Name of the table
    #[arg(long, value_name = "TABLE", default_values = ["tiny_id_info", "tiny_id_info_moved"])]
    table: Vec<String>,

    #[command(flatten)]
    common: Common,
}

/// From a ticket table with an AUTO_INCREMENT column, as Flickr's, of all its databases
#[derive(Debug, Args)]
struct TicketsArgs {
    /// Name of the tag to create
    #[arg(long, value_name = "TAG")]
    tag: String,

    /// Smallest number of ids granted at once
    #[arg(long, value_name = "IDS", default_value_t = 1_000)]
    step: i32,

    /// Name of the table
    #[arg(long, value_name = "TABLE", default_values = ["Tickets64", "Tickets64_moved"])]
    table: Vec<String>,

    /// Name of its AUTO_INCREMENT column
    #[arg(long, value_name = "COLUMN", default_value = "id")]
    column: String,

    #[command(flatten)]
    common: Common,
}

/// Creates the tags, and prints them.
pub async fn run(args: &ImportArgs) -> Result<(), Failure> {
    let (common, tags) = match &args.source {
        Source::Leaf(leaf) => {
            let tables = dump::read(&leaf.common.dumps, &leaf.table)?;
            (&leaf.common, sources::leaf(&tables)?)
        }
        Source::Tinyid(tinyid) => {
            let tables = dump::read(&tinyid.common.dumps, &tinyid.table)?;
            (&tinyid.common, sources::tinyid(&tables)?)
        }
        Source::Tickets(tickets) => {
            let tables = dump::read(&tickets.common.dumps, &tickets.table)?;
            let tag = sources::tickets(&tables, &tickets.column, &tickets.tag, tickets.step)?;
            (&tickets.common, vec![tag])
        }
    };
    if !common.dry_run {
        let connection = args.connection.open(Access::ReadWrite).await?;
        interruptible(connection, async |connection| {
            let stored = store::all(connection.client(), &tags, common.owner.as_deref());
            progress::waiting("creating tags", stored).await
        })
        .await?;
    }
    print(&tags, common.format)
}

fn print(tags: &[Tag], format: Format) -> Result<(), Failure> {
    let columns = ["tag", "next_id", "step", "description"];
    let columns = columns.map(|name| Column { name, title: name });
    let mut rows = Rows::new(&columns, format)?;
    for tag in tags {
        rows.push(&[
            Cell::Text(tag.name.clone()),
            Cell::Id(tag.next_id),
            Cell::Count(tag.step.into()),
            Cell::or_null(tag.description.clone(), Cell::Text),
        ])?;
    }
    rows.end()
}
