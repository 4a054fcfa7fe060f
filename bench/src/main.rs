//! Compares leaf with what PostgreSQL offers, on one server.
//!
//! Every comparison runs both sides in turn, several times, so that other activity on
//! the machine affects both. The result is the median of the ratios. The tables are
//! printed and, after a full run, written to `RESULTS.md`.

mod bench;
mod compare;
mod constant;
mod machine;
mod pgbench;
mod report;
mod works;

use std::fs;
use std::time::Instant;

use clap::Parser;

use bench::Bench;
use report::Report;
use works::WORKS;

const RESULTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/RESULTS.md");

/// Compares leaf with sequences on a private server.
#[derive(Parser)]
struct Arguments {
    /// Use short runs, to try the benchmark itself; the figures mean little.
    #[arg(long)]
    quick: bool,

    /// Run only the workloads whose name contains TEXT.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    /// Run each side of a comparison this often.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
}

fn main() {
    let arguments = Arguments::parse();
    let wanted = |name: &str| {
        arguments
            .only
            .as_ref()
            .is_none_or(|only| name.contains(only))
    };
    let start = Instant::now();

    let mut bench = Bench::start(arguments.repetitions, arguments.quick);
    let mut report = Report::new(machine::describe(&bench));
    for (name, work) in WORKS.iter().filter(|(name, _)| wanted(name)) {
        eprintln!("{:4} s  {name}", start.elapsed().as_secs());
        work(&mut bench, &mut report);
    }

    println!("{}", report.for_terminal());
    if arguments.quick || arguments.only.is_some() {
        eprintln!("not a full run: {RESULTS} is unchanged");
        return;
    }
    fs::write(RESULTS, report.for_markdown()).expect("RESULTS.md can be written");
    eprintln!("written to {RESULTS}");
}
