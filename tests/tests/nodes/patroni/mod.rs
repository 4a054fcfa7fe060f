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

/// What happened once, and the longest stall of each kind of caller.
struct Account {
    scenario: Scenario,
    stalls: [Duration; 3],
    timeline: String,
}

const KINDS: [&str; 3] = [SESSION, SPARING, BUFFERED];

impl Account {
    fn since(begin: Duration, scenario: Scenario, callers: &Callers) -> Account {
        Account {
            scenario,
            stalls: KINDS.map(|kind| callers.timeline.longest_stall(kind, begin)),
            timeline: callers.timeline.text(begin),
        }
    }
}

/// All timelines, and a table of the longest stalls.
fn text(accounts: &[Account]) -> String {
    let mut text = String::new();
    for account in accounts {
        write!(text, "\n{:?}\n{}", account.scenario, account.timeline).expect("a string");
    }
    write!(text, "\n{:>24} {:>5}", "longest stall", "times").expect("a string");
    for kind in KINDS {
        write!(text, " {kind:>9}").expect("a string");
    }
    for scenario in Scenario::ALL {
        let same = accounts.iter().filter(|it| it.scenario == scenario);
        let name = format!("{scenario:?}");
        write!(text, "\n{name:>24} {:>5}", same.clone().count()).expect("a string");
        for kind in 0..KINDS.len() {
            let longest = same.clone().map(|it| it.stalls[kind]).max();
            let seconds = longest.unwrap_or_default().as_secs_f64();
            write!(text, " {seconds:>7.1} s").expect("a string");
        }
    }
    text + "\n"
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
    println!("random scenarios of seed {seed}");
    let mut accounts = Vec::new();
    let mut ids = 0;
    Callers::run(&connection, |callers| {
        callers.are_served();
        for (number, scenario) in Scenario::ALL.into_iter().chain(more).enumerate() {
            if number >= Scenario::ALL.len() && callers.timeline.now() > duration() {
                break;
            }
            let begin = callers.timeline.now();
            scenario.happen(&mut cluster, callers);
            accounts.push(Account::since(begin, scenario, callers));
        }
        ids = callers.answers.len();
    });
    let text = text(&accounts);
    report(
        "patroni.txt",
        &format!("{text}{ids} ids, none of them twice\n"),
    );
}
