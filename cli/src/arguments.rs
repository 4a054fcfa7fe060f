//! The command line.

use clap::{ArgAction, CommandFactory, Parser, Subcommand};

use crate::{connection, doctor, ids, manual, plain, serve, status, tags, top};

/// Inspect and manage leaf, and serve its ids over HTTP
///
/// leaf is a PostgreSQL extension that hands out unique 64-bit ids. Commands that need a
/// server connect as psql does: with the same environment variables, password file and
/// service file, and with its options -h, -p, -U, -d, -w and -W, which stand before the
/// command or after it: leafctl -d shop status
#[derive(Debug, Parser)]
#[command(
    name = "leafctl",
    version,
    disable_help_flag = true,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong command line, 3 no server reached, \
                  4 problems found by doctor, 130 interrupted."
)]
pub struct Cli {
    #[command(flatten)]
    pub color: colorchoice_clap::Color,

    /// Print help
    // -h is the host, as in psql.
    #[arg(short = '?', long, action = ArgAction::Help, global = true)]
    help: Option<bool>,

    /// The commands that connect have the same options, which clap fills from these.
    #[command(flatten)]
    _connection: connection::Args,

    #[command(subcommand)]
    pub command: Command,
}

impl Cli {
    /// The definition of the command line. The help of each command that connects shows the
    /// options of a connection, and that of the others does not.
    pub fn definition() -> clap::Command {
        const HEADING: Option<&str> = Some(connection::HEADING);
        Cli::command().mut_args(|arg| match arg.get_help_heading() == HEADING {
            true => arg.hide(true),
            false => arg,
        })
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Status(status::StatusArgs),
    Top(top::TopArgs),
    Tags(tags::TagsArgs),
    Doctor(doctor::DoctorArgs),
    Plain(plain::PlainArgs),
    Decode(ids::DecodeArgs),
    Encode(ids::EncodeArgs),
    Serve(Box<serve::Args>),
    Completions(manual::CompletionsArgs),
    Man(manual::PagesArgs),
}
