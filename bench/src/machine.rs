//! The machine and the server that were measured.

use std::fs;
use std::process::Command;

use leaf_tests::{Draw, Server};

use crate::runs::Runs;

/// Pairs of a name and a description: machine, versions, settings, date. `settings` are those
/// that differ from the server's defaults.
pub fn describe(
    server: &Server,
    settings: &[(&str, &str)],
    runs: Runs,
) -> Vec<(&'static str, String)> {
    let mut client = server.connect();
    let version = "SELECT extversion FROM pg_extension WHERE extname = 'leaf'";
    let settings: Vec<String> = settings
        .iter()
        .map(|(name, value)| format!("{name} = {value}"))
        .collect();
    let mut about = hardware();
    about.extend([
        ("PostgreSQL", client.text("SHOW server_version")),
        ("leaf", client.text(version)),
        ("compiler", said_by("rustc", "--version")),
        ("settings", settings.join(", ")),
        ("leaf's settings", "defaults".to_owned()),
        repetitions(runs),
    ]);
    about
}

/// How often a comparison is repeated.
pub fn repetitions(runs: Runs) -> (&'static str, String) {
    let count = runs.repetitions;
    let text = format!("{count} of each side, in turn, after a warm-up");
    ("repetitions", text)
}

/// The date, and the machine.
pub fn hardware() -> Vec<(&'static str, String)> {
    let cores = std::thread::available_parallelism().map_or(0, |cores| cores.get());
    let gigabytes = after("/proc/meminfo", "MemTotal")
        .split(' ')
        .next()
        .and_then(|kilobytes| kilobytes.parse::<f64>().ok())
        .map_or(0.0, |kilobytes| kilobytes / 1024.0 / 1024.0);
    vec![
        ("date", said_by("date", "+%F")),
        (
            "processor",
            format!("{}, {cores} cores", after("/proc/cpuinfo", "model name")),
        ),
        ("memory", format!("{gigabytes:.0} GB")),
        (
            "kernel",
            format!("Linux {}", read("/proc/sys/kernel/osrelease").trim()),
        ),
        ("automatic scheduling groups", autogroup().to_owned()),
    ]
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

/// The text after `name` and a colon, on the first line of the file that starts with
/// `name`.
fn after(path: &str, name: &str) -> String {
    read(path)
        .lines()
        .find(|line| line.starts_with(name))
        .and_then(|line| line.split_once(':'))
        .map_or("unknown".to_owned(), |(_, value)| value.trim().to_owned())
}

/// Whether the kernel groups processes by their session (autogroup). If it does, single calls
/// may show waits for a processor.
fn autogroup() -> &'static str {
    match read("/proc/sys/kernel/sched_autogroup_enabled").trim() {
        "1" => "on: a busy machine keeps single sessions waiting for a processor",
        _ => "off",
    }
}

fn said_by(program: &str, argument: &str) -> String {
    let output = Command::new(program).arg(argument).output();
    output.map_or("unknown".to_owned(), |output| {
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    })
}
