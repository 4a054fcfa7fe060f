//! The command line.

use clap::{ArgAction, Parser, Subcommand};

use crate::{bench, doctor, ids, import, manual, serve, status, tags, top};

/// Inspect and manage leaf, and serve its ids over HTTP
///
/// leaf is a PostgreSQL extension that hands out unique 64-bit ids. Commands that need a
/// server connect as psql does: with the same options, environment variables, password
/// file and service file. The options follow the command: leafctl status -d shop
#[derive(Debug, Parser)]
#[command(
    name = "leafctl",
    version,
    disable_help_flag = true,
    max_term_width = 100,
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong command line, 3 no server reached, \
                  4 problems found by doctor or bench, 130 interrupted."
)]
pub struct Cli {
    #[command(flatten)]
    pub color: colorchoice_clap::Color,

    /// Print help
    // -h is the host, as in psql.
    #[arg(short = '?', long, action = ArgAction::Help, global = true)]
    help: Option<bool>,

    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    Status(status::StatusArgs),
    Top(top::TopArgs),
    Tags(tags::TagsArgs),
    Doctor(doctor::DoctorArgs),
    Bench(bench::BenchArgs),
    Import(import::ImportArgs),
    Decode(ids::DecodeArgs),
    Encode(ids::EncodeArgs),
    Serve(Box<serve::Args>),
    Completions(manual::CompletionsArgs),
    Man(manual::PagesArgs),
}
