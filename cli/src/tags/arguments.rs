//! The commands of `tags` and what they take.

use std::fmt;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};

use crate::connection;
use crate::human;
use crate::output::Format;

/// Create, change and drop tags, and make columns draw from them
///
/// A tag names ids that are counted by themselves. Each command calls the function of leaf that
/// has its name, as the connected role.
#[derive(Debug, Args)]
pub struct TagsArgs {
    #[command(subcommand)]
    pub command: Command,

    #[command(flatten)]
    pub connection: connection::Args,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    List(List),
    Create(Create),
    Alter(Alter),
    Drop(Drop),
    Grant(Grant),
    Revoke(Revoke),
    Adopt(Adopt),
    Release(Release),
    Align(Align),
    Attach(Attach),
}

impl Command {
    /// The name of the work, for a person who waits for it.
    pub fn name(&self) -> &'static str {
        match self {
            Command::List(_) => "reading the catalog",
            Command::Create(_) => "creating the tag",
            Command::Alter(_) => "altering the tag",
            Command::Drop(_) => "dropping the tag",
            Command::Grant(_) => "granting",
            Command::Revoke(_) => "revoking",
            Command::Adopt(_) => "adopting the column",
            Command::Release(_) => "releasing the column",
            Command::Align(_) => "comparing tags and columns",
            Command::Attach(_) => "attaching the tag",
        }
    }
}

impl Command {
    /// The tag that has to exist.
    pub fn tag(&self) -> Option<&str> {
        match self {
            Command::Alter(args) => Some(&args.tag),
            Command::Drop(args) => Some(&args.tag),
            Command::Grant(args) => Some(&args.tag),
            Command::Revoke(args) => Some(&args.tag),
            Command::Align(args) => args.tag.as_deref(),
            Command::Attach(args) => Some(&args.tag),
            Command::List(_) | Command::Create(_) | Command::Adopt(_) | Command::Release(_) => None,
        }
    }
}

/// List the tags of the catalog, with owners and limits
#[derive(Debug, Args)]
pub struct List {
    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,
}

/// Create a tag
#[derive(Debug, Args)]
pub struct Create {
    /// Name of the tag
    pub tag: String,

    /// Smallest number of ids granted at once [default: 1000]
    #[arg(long, value_name = "IDS")]
    pub step: Option<i32>,

    /// First id [default: 1]
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    pub start: Option<i64>,

    /// Largest id [default: 2^63-1]
    #[arg(long, value_name = "ID", allow_negative_numbers = true)]
    pub max_value: Option<i64>,

    /// Description, up to 256 characters
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,

    /// Leave a tag that exists as it is
    #[arg(long)]
    pub if_not_exists: bool,

    /// Largest segment, instead of leaf.max_step
    #[arg(long, value_name = "IDS")]
    pub max_step: Option<i32>,

    /// Number of nodes that divide the numbers among them
    #[arg(long, value_name = "COUNT", requires = "stripe")]
    pub stripes: Option<i32>,

    /// Which of them this database is, from 0 on
    #[arg(long, value_name = "NUMBER", requires = "stripes")]
    pub stripe: Option<i32>,

    /// Numbers in a block of a stripe [default: 1000000]
    #[arg(long, value_name = "IDS", requires = "stripes")]
    pub stripe_width: Option<i64>,

    /// Number of ids that a session takes at once [default: 1]
    #[arg(long, value_name = "IDS")]
    pub cache: Option<i32>,
}

/// Change a tag; what is not given stays as it is
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("change").required(true).multiple(true))]
pub struct Alter {
    /// Name of the tag
    pub tag: String,

    /// Smallest number of ids granted at once
    #[arg(long, value_name = "IDS", group = "change")]
    pub step: Option<i32>,

    /// The next id; never below what was granted
    #[arg(
        long,
        value_name = "ID",
        group = "change",
        allow_negative_numbers = true
    )]
    pub advance_to: Option<i64>,

    /// Largest id
    #[arg(
        long,
        value_name = "ID",
        group = "change",
        allow_negative_numbers = true
    )]
    pub max_value: Option<i64>,

    /// Description
    #[arg(long, value_name = "TEXT", group = "change")]
    pub description: Option<String>,

    /// Largest segment; with 0, leaf.max_step applies
    #[arg(long, value_name = "IDS", group = "change")]
    pub max_step: Option<i32>,

    /// Number of ids that a session takes at once
    #[arg(long, value_name = "IDS", group = "change")]
    pub cache: Option<i32>,
}

/// Drop a tag
#[derive(Debug, Args)]
pub struct Drop {
    /// Name of the tag
    pub tag: String,

    /// Drop the tag even if the default of a column draws from it
    #[arg(long)]
    pub force: bool,

    /// Do nothing if there is no such tag
    #[arg(long)]
    pub if_exists: bool,
}

/// Allow roles to draw from a tag
#[derive(Debug, Args)]
pub struct Grant {
    /// Name of the tag
    pub tag: String,

    /// Names of roles; PUBLIC is all of them
    #[arg(required = true)]
    pub roles: Vec<String>,
}

/// Revoke what grant has allowed
#[derive(Debug, Args)]
pub struct Revoke {
    /// Name of the tag
    pub tag: String,

    /// Names of roles; PUBLIC is all of them
    #[arg(required = true)]
    pub roles: Vec<String>,
}

/// Make the default of a column draw from a new tag, while inserts go on
#[derive(Debug, Args)]
pub struct Adopt {
    /// Table, with its schema if it is not on the search path
    pub table: String,

    /// Column: serial, identity or plain
    pub column: String,

    /// Name of the tag; by default it is made of table and column
    pub tag: Option<String>,

    /// Kind of ids
    #[arg(long, value_enum, default_value_t)]
    pub kind: Kind,

    #[command(flatten)]
    pub lock: Lock,
}

/// The arguments of commands that change a table.
#[derive(Debug, Args)]
pub struct Lock {
    /// How long to wait for the locks of the table
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = human::time)]
    pub lock_timeout: Duration,
}

/// Which ids a column has.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Kind {
    /// Ids of a tag
    #[default]
    Segment,
    /// Snowflake ids
    Snowflake,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Segment => "segment",
            Kind::Snowflake => "snowflake",
        })
    }
}

/// Give an adopted column its sequence or identity back, and drop the tag
#[derive(Debug, Args)]
pub struct Release {
    /// Table
    pub table: String,

    /// Column
    pub column: String,

    #[command(flatten)]
    pub lock: Lock,
}

/// Move tags past the largest ids in the columns that draw from them
#[derive(Debug, Args)]
pub struct Align {
    /// Name of the tag; without it, all tags
    pub tag: Option<String>,

    /// Output format
    #[arg(short, long, value_enum, default_value_t, value_name = "FORMAT")]
    pub format: Format,
}

/// Make a tag fed: its ids come from a tag of the centre that leaf.upstream names
#[derive(Debug, Args)]
pub struct Attach {
    /// Name of the tag
    pub tag: String,

    /// Name of the tag at the centre, if it is another one
    pub upstream_tag: Option<String>,
}
