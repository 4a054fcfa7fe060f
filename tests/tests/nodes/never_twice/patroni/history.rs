//! One thing after another happens to a cluster, while callers draw; and an account of it.

use super::Scenario;
use leaf_tests::{Callers, Cluster, Group};
use std::fmt::Write;
use std::path::Path;
use std::time::Duration;

/// Who draws, and what is told about it.
pub struct History {
    /// What happens, each once; random scenarios follow for as long as `make test-long`
    /// asks for.
    pub scenarios: &'static [Scenario],
    /// Who draws.
    pub groups: Vec<Group>,
    /// The callers, by the beginning of their names, whose longest stalls are told.
    pub shown: &'static [&'static str],
    /// Where the account is kept, below `target/tmp`.
    pub file: &'static str,
}

/// What happened once, and the longest stall of each kind of caller.
struct Account {
    scenario: Scenario,
    stalls: Vec<Duration>,
    timeline: String,
}

impl History {
    /// Lets it happen. `ready` is called before each scenario, to wait for what it needs.
    pub fn happen(self, cluster: &mut Cluster, ready: impl Fn()) {
        let seed = std::process::id().into();
        let mut random = fastrand::Rng::with_seed(seed);
        let more = std::iter::repeat_with(|| random.choice(Scenario::ALL).expect("one"));
        println!("random scenarios of seed {seed}");
        let mut accounts = Vec::new();
        let mut ids = 0;
        Callers::run(&self.groups, |callers| {
            callers.are_served();
            for (number, scenario) in self.scenarios.iter().copied().chain(more).enumerate() {
                if number >= self.scenarios.len() && callers.timeline.now() > duration() {
                    break;
                }
                ready();
                let begin = callers.timeline.now();
                scenario.happen(cluster, callers);
                let stall = |callers_named| callers.timeline.longest_stall(callers_named, begin);
                accounts.push(Account {
                    scenario,
                    stalls: self.shown.iter().map(|&it| stall(it)).collect(),
                    timeline: callers.timeline.text(begin),
                });
            }
            ids = callers.answers.len();
        });
        let text = text(self.shown, &accounts);
        self.report(&format!("{text}{ids} ids, none of them twice\n"));
    }

    /// Prints it, and keeps it in the file.
    fn report(&self, text: &str) {
        println!("{text}");
        let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(self.file);
        std::fs::write(&file, text).expect("a file below target");
        println!("This is also in {}.", file.display());
    }
}

/// All timelines, and a table of the longest stalls.
fn text(shown: &[&str], accounts: &[Account]) -> String {
    let mut text = String::new();
    for account in accounts {
        write!(text, "\n{:?}\n{}", account.scenario, account.timeline).expect("a string");
    }
    write!(text, "\n{:>24} {:>5}", "longest stall", "times").expect("a string");
    for callers in shown {
        write!(text, " {callers:>9}").expect("a string");
    }
    for scenario in Scenario::ALL {
        let same = accounts.iter().filter(|it| it.scenario == scenario);
        let times = same.clone().count();
        if times == 0 {
            continue;
        }
        let name = format!("{scenario:?}");
        write!(text, "\n{name:>24} {times:>5}").expect("a string");
        for callers in 0..shown.len() {
            let longest = same.clone().map(|it| it.stalls[callers]).max();
            let seconds = longest.unwrap_or_default().as_secs_f64();
            write!(text, " {seconds:>7.1} s").expect("a string");
        }
    }
    text + "\n"
}

/// How long random scenarios go on.
fn duration() -> Duration {
    let seconds = std::env::var("LEAF_TEST_SECONDS").ok();
    let seconds = seconds.map_or(0, |seconds| seconds.parse().expect("a number of seconds"));
    Duration::from_secs(seconds)
}
