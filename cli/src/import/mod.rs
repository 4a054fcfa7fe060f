//! `import`: creates tags that go on where another service has stopped, from what a query
//! prints of its tables.
//!
//! - [`table`]: the output of the query.
//! - [`sources`]: what the tables of each service mean.
//! - [`store`]: the tags, written in one transaction.

mod sources;
mod store;
mod table;

use std::path::PathBuf;

use clap::{Args, Subcommand};

use crate::connection::{self, Access, interruptible};
use crate::failure::Failure;
use crate::output::{Cell, Column, Format, Rows, progress};
use sources::Tag;

/// Create tags that continue the ids of another service
///
/// Reads what `mysql --batch` or `mariadb --batch` prints of the query that the help of each
/// source shows. Before that, the table must be renamed or the old service stopped, so that it
/// grants nothing more. Either all tags are created or none.
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
    /// Files with what the query has printed; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,

    /// Owner of the tags; by default the present role
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
///
/// SELECT biz_tag, max_id, step, description,
///        (SELECT COUNT(*) FROM leaf_alloc_moved) AS total FROM leaf_alloc_moved
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
struct LeafArgs {
    #[command(flatten)]
    common: Common,
}

/// From the table tiny_id_info of TinyID, of all its databases
///
/// SELECT biz_type, max_id, step, delta, remainder,
///        (SELECT COUNT(*) FROM tiny_id_info_moved) AS total FROM tiny_id_info_moved
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
struct TinyidArgs {
    #[command(flatten)]
    common: Common,
}

/// From a ticket table with an AUTO_INCREMENT column, as Flickr's, of all its databases
///
/// After ANALYZE TABLE Tickets64_moved, because MySQL 8 shows a next number of a day ago:
///
/// SELECT GREATEST(COALESCE(AUTO_INCREMENT, 1),
///                 (SELECT COALESCE(MAX(id), 0) + 1 FROM Tickets64_moved)) AS next_id, 1 AS total
///   FROM information_schema.TABLES
///  WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'Tickets64_moved'
#[derive(Debug, Args)]
#[command(verbatim_doc_comment)]
struct TicketsArgs {
    /// Name of the tag to create
    #[arg(long, value_name = "TAG")]
    tag: String,

    /// Smallest number of ids granted at once
    #[arg(long, value_name = "IDS", default_value_t = 1_000)]
    step: i32,

    #[command(flatten)]
    common: Common,
}

/// Creates the tags, and prints them.
pub async fn run(args: &ImportArgs) -> Result<(), Failure> {
    let (common, tags) = match &args.source {
        Source::Leaf(LeafArgs { common }) => (common, sources::leaf(&common.files)?),
        Source::Tinyid(TinyidArgs { common }) => (common, sources::tinyid(&common.files)?),
        Source::Tickets(tickets) => {
            let common = &tickets.common;
            let tag = sources::tickets(&common.files, &tickets.tag, tickets.step)?;
            (common, vec![tag])
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
