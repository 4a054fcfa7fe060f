//! `leafctl`: inspects and manages leaf, and serves its ids over HTTP.
//!
//! - [`arguments`]: the command line as a whole; each command has its own arguments.
//! - [`status`]: what the views show.
//! - [`top`]: the same, live.
//! - [`tags`]: creates, changes and drops tags.
//! - [`doctor`]: looks for problems.
//! - [`mod@plain`]: installs leaf where no library can be installed.
//! - [`ids`]: `decode` and `encode`.
//! - [`serve`]: `serve`, ids over HTTP.
//! - [`manual`]: `completions` and `man`.
//! - [`connection`]: options and environment of `psql`, and how a statement is interrupted.
//! - [`look`]: what leaf's views show of a database.
//! - [`query`]: statements without traces.
//! - [`human`]: short numbers and durations, and texts that a terminal can show.
//! - [`output`]: tables, JSON and CSV.
//! - [`failure`]: errors of one line, and exit codes.
//!
//! No command uses another.

mod arguments;
mod connection;
mod doctor;
mod failure;
mod human;
mod ids;
mod look;
mod manual;
mod output;
mod plain;
mod query;
mod serve;
mod statements;
mod status;
mod tags;
mod top;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::FromArgMatches;

use arguments::{Cli, Command};
use failure::Failure;

fn main() -> ExitCode {
    let matches = Cli::definition().try_get_matches();
    let done = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => {
            cli.color.write_global();
            run(cli.command)
        }
        Err(wrong) if wrong.use_stderr() => wrong.exit(),
        Err(help) => help
            .print()
            .and_then(|()| io::stdout().flush())
            .map_err(Failure::from),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.report(),
    }
}

fn run(command: Command) -> Result<(), Failure> {
    match command {
        Command::Status(args) => online(status::run(&args)),
        Command::Top(args) => online(top::run(&args)),
        Command::Tags(args) => online(tags::run(&args)),
        Command::Doctor(args) => online(doctor::run(&args)),
        Command::Plain(args) => online(plain::run(&args)),
        Command::Decode(args) => ids::decode(&args),
        Command::Encode(args) => ids::encode(&args),
        Command::Completions(args) => manual::completions(&args, Cli::definition()),
        Command::Serve(args) => online(serve::run(*args)),
        Command::Man(args) => manual::pages(&args, Cli::definition()),
    }
}

/// Runs a command that uses connections.
fn online(command: impl Future<Output = Result<(), Failure>>) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build();
    let runtime = runtime.map_err(Failure::failed)?;
    let done = runtime.block_on(command);
    // A look-up of a name, or a read from a terminal, may take long and is not waited for.
    runtime.shutdown_background();
    done
}
