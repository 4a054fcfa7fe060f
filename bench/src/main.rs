//! Compares leaf with what PostgreSQL offers, on one server; or measures a centre and the
//! shards that it feeds, ids over HTTP, or what a shared counter costs.
//!
//! Every comparison runs both sides in turn, several times, so that other activity on
//! the machine affects both. The result is the median of the ratios. The tables are
//! printed and, after a full run, written to a file.

mod bench;
mod compare;
mod cores;
mod latency;
mod limits;
mod machine;
mod nodes;
mod page;
mod pgbench;
mod plots;
mod processor;
mod report;
mod runs;
mod serve;
mod works;

use std::env;
use std::fs;
use std::path::Path;
use std::time::Instant;

use clap::{Parser, ValueEnum};

use bench::Bench;
use nodes::Nodes;
use report::Report;
use runs::Runs;
use serve::Http;

/// Compares leaf with sequences on a private server, or measures a centre and its shards.
#[derive(Parser)]
struct Arguments {
    /// What is measured.
    #[arg(value_enum, default_value_t = Subject::Sequences)]
    subject: Subject,

    /// Use short runs, to try the benchmark itself; the figures mean little.
    #[arg(long)]
    quick: bool,

    /// Run only the workloads whose name contains TEXT.
    #[arg(long, value_name = "TEXT")]
    only: Option<String>,

    /// Run each side of a comparison this often.
    #[arg(long, default_value_t = 7, value_parser = clap::value_parser!(u32).range(1..))]
    repetitions: u32,
}

#[derive(Clone, Copy, ValueEnum)]
enum Subject {
    /// leaf against sequences, written to bench/RESULTS.md.
    Sequences,
    /// A centre and its shards, written to bench/NODES.md.
    Nodes,
    /// Ids over HTTP, written to bench/SERVE.md.
    Serve,
    /// What a shared counter costs on this machine, written to bench/CORES.md. Needs no server.
    Cores,
}

/// The workloads of a subject and their names, for `--only`.
type Works<B> = [(&'static str, fn(&mut B, &mut Report))];

fn main() {
    let arguments = Arguments::parse();
    let mut runs = Runs {
        repetitions: arguments.repetitions,
        quick: arguments.quick,
    };
    match arguments.subject {
        Subject::Sequences => {
            let mut bench = Bench::start(runs);
            let about = machine::describe(&bench.server, &bench::SETTINGS, runs);
            let report = Report::new(works::TEXTS, about);
            measure(&arguments, &works::WORKS, &mut bench, report, "RESULTS.md");
        }
        Subject::Nodes => {
            let mut nodes = Nodes::start(runs);
            let about = machine::describe(&nodes.centre.0, &nodes::SETTINGS, runs);
            let report = Report::new(nodes::TEXTS, about);
            measure(&arguments, nodes::WORKS, &mut nodes, report, "NODES.md");
        }
        Subject::Serve => {
            let mut http = Http::start(runs);
            let about = machine::describe(&http.server, &serve::SETTINGS, http.runs);
            let report = Report::new(serve::TEXTS, about);
            measure(&arguments, serve::WORKS, &mut http, report, "SERVE.md");
        }
        Subject::Cores => {
            let mut about = machine::hardware();
            about.push(machine::repetitions(runs));
            let report = Report::new(cores::TEXTS, about);
            measure(&arguments, cores::WORKS, &mut runs, report, "CORES.md");
        }
    }
}

/// Runs the workloads that are wanted, prints the report and, if it is a full one, writes it
/// to `file`.
fn measure<B>(
    arguments: &Arguments,
    works: &Works<B>,
    bench: &mut B,
    mut report: Report,
    file: &str,
) {
    let start = Instant::now();
    let only = arguments.only.as_deref().unwrap_or_default();
    for (name, work) in works.iter().filter(|(name, _)| name.contains(only)) {
        eprintln!("{:4} s  {name}", start.elapsed().as_secs());
        work(bench, &mut report);
    }

    println!("{}", report.for_terminal());
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let file = here.join(file);
    let is_full = !arguments.quick && arguments.only.is_none();
    if is_full {
        let results = report.for_markdown();
        write(&file, &results);
        let page = here.join("../docs/comparison.md");
        let text = fs::read_to_string(&page).expect("the page");
        write(&page, &page::refreshed(&text, &results));
    } else {
        eprintln!("not a full run: {} is unchanged", file.display());
    }
    let plots = match is_full {
        true => here.join("../docs/plots"),
        false => env::temp_dir().join("leaf-plots"),
    };
    for plot in report.plots() {
        write(&plots.join(plot.file), &plot.drawing);
    }
}

fn write(file: &Path, text: &str) {
    fs::create_dir_all(file.parent().expect("a folder")).expect("a folder can be made");
    fs::write(file, text).expect("a file of results can be written");
    eprintln!("written to {}", file.display());
}
