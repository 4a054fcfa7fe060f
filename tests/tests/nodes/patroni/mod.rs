//! Servers that Patroni runs: whatever happens to them, no id is returned twice, and the
//! client library hands out what it has.
//!
//! - [`scenario`]: what happens to a cluster.
//! - [`asynchronous`]: what is lost with a leader whose standbys confirm nothing.
//!
//! The timelines, with a character for each tenth of a second and caller, are printed, and
//! written below `target/tmp`.

mod asynchronous;
mod scenario;

use leaf_tests::{BUFFERED, Callers, Cluster, Draw, SESSION, SPARING};
use scenario::Scenario;
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// A cluster that grants often. It skips nothing when a standby is promoted: what protects
/// is only what the standby has confirmed.
fn cluster() -> Cluster {
    let cluster = Cluster::start(&[
        ("leaf.max_step", "1000"),
        ("leaf.wait_timeout", "1s"),
        ("leaf.history_skip", "0"),
    ]);
    let leader = cluster.settles();
    cluster
        .connect(leader)
        .run("SELECT leaf_tag_create('orders', step => 100)");
    cluster
}

/// Prints the timeline of what has happened, and keeps it in a file.
fn report(name: &str, text: &str) {
    println!("{text}");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::write(&file, text).expect("a file below target");
    println!("This is also in {}.", file.display());
}

/// What happened since the last report, and the longest stall of each kind of caller.
fn account(scenario: Scenario, callers: &Callers, begin: Duration) -> String {
    let mut text = format!("\n{scenario:?}: longest stall of");
    for kind in [SESSION, SPARING, BUFFERED] {
        let stall = callers.timeline.longest_stall(kind, begin);
        write!(text, " a {kind} {:.1} s,", stall.as_secs_f64()).expect("a string");
    }
    text.pop();
    text.push('\n');
    text + &callers.timeline.text(begin)
}

/// How long random scenarios go on: `make test-long` asks for it.
fn duration() -> Duration {
    let seconds = std::env::var("LEAF_TEST_SECONDS").ok();
    let seconds = seconds.map_or(0, |seconds| seconds.parse().expect("a number of seconds"));
    Duration::from_secs(seconds)
}

#[test]
fn failovers_of_patroni_repeat_no_id_and_buffered_ids_go_on() {
    let mut cluster = cluster();
    let connection = cluster.connection_string();
    let seed = std::process::id().into();
    let mut random = fastrand::Rng::with_seed(seed);
    let more = std::iter::repeat_with(|| random.choice(Scenario::ALL).expect("one"));
    let mut text = format!("random scenarios of seed {seed}\n");
    Callers::run(&connection, |callers| {
        callers.are_served();
        for (number, scenario) in Scenario::ALL.into_iter().chain(more).enumerate() {
            if number >= Scenario::ALL.len() && callers.timeline.now() > duration() {
                break;
            }
            let begin = callers.timeline.now();
            scenario.happen(&mut cluster, callers);
            text += &account(scenario, callers, begin);
        }
        writeln!(text, "\n{} ids, none of them twice", callers.answers.len()).expect("a string");
    });
    report("patroni.txt", &text);
}
