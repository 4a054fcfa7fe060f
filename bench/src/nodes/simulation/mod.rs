//! A thousand shards with a hundred tags each: their calls at a real centre, and what others
//! who draw there notice.

mod demand;
mod others;

use std::time::{Duration, Instant};

use leaf_tests::Draw;
use tokio::runtime::Builder;

use super::Nodes;
use super::connection::PATIENCE;
use crate::compare::Comparison;
use crate::latency::{Latency, summary_of};
use crate::processor;
use crate::report::{Bound, Report, Unit};
use demand::Fed;
use others::{Observed, while_others_draw};

/// How many shards there are.
const SHARDS: usize = 1_000;

/// How long a segment lasts.
const SEGMENT: Duration = Duration::from_secs(900);

/// What the shards do, with the name in the report.
#[derive(Clone, Copy)]
enum Phase {
    /// Each fetches the next segment of each of its tags once in that time.
    Steady(Duration, &'static str),
    /// As many as are started in the storm connect, ask for nothing, and go.
    Connects,
    /// All are started again within a few seconds.
    Storm,
}

/// What was measured in one phase.
struct Measured {
    name: &'static str,
    /// For those who draw meanwhile.
    bound: Bound,
    took: Duration,
    fed: Fed,
    observed: Observed,
    quiet: Observed,
    /// Transactions of the centre that have written.
    transactions: i64,
}

/// Phases, each after a quiet time. The simulated shards run only when nothing else wants a
/// processor: they would not be on the machine of a real centre.
pub fn of_a_thousand_shards(nodes: &mut Nodes, report: &mut Report) {
    nodes.centre.create("others", "");
    let mut client = nodes.centre.0.connect();
    client.run("SELECT leaf_snowflake_next()");
    let phases = [
        Phase::Steady(SEGMENT, "111 feeds a second"),
        Phase::Steady(SEGMENT / 10, "1,111 feeds a second"),
        Phase::Connects,
        Phase::Storm,
    ];
    for phase in phases {
        measure(nodes, phase).report(report);
    }
}

fn measure(nodes: &Nodes, phase: Phase) -> Measured {
    let duration = nodes.runs.duration(15);
    let (_, quiet) = while_others_draw(nodes, || std::thread::sleep(duration));
    let transactions = nodes.transactions();
    let start = Instant::now();
    let upstream = nodes.centre.upstream();
    let runtime = Builder::new_multi_thread()
        .enable_all()
        .on_thread_start(processor::step_back)
        .build()
        .expect("a runtime");
    let shards = nodes.runs.size(SHARDS as u64, 100) as usize;
    let (fed, observed) = while_others_draw(nodes, || {
        runtime.block_on(async {
            match phase {
                Phase::Steady(segment, _) => demand::steady(&upstream, segment, duration).await,
                Phase::Connects => demand::connects(&upstream, shards).await,
                Phase::Storm => demand::storm(&upstream, shards).await,
            }
        })
    });
    Measured {
        bound: match phase {
            Phase::Steady(..) | Phase::Storm => Bound::AtMost(2.0),
            Phase::Connects => Bound::None,
        },
        name: match phase {
            Phase::Steady(_, name) => name,
            Phase::Connects => "all shards only connect",
            Phase::Storm => "all shards start",
        },
        took: start.elapsed(),
        fed,
        observed,
        quiet,
        transactions: nodes.transactions() - transactions,
    }
}

impl Measured {
    fn report(self, report: &mut Report) {
        let name = self.name;
        let sides = [
            ("id", &self.observed.draws, &self.quiet.draws),
            ("block", &self.observed.blocks, &self.quiet.blocks),
        ];
        for (what, busy, quiet) in sides {
            report.compared(
                &format!("p99 of others at the centre, one {what} per statement: {name}"),
                "the same without feeds",
                Unit::Milliseconds,
                &Comparison::of(&[(busy.p99, quiet.p99)]),
                self.bound,
            );
            report.latency(&format!("others, one {what}: {name}"), busy);
            report.latency(&format!("others, one {what}: before that"), quiet);
        }
        let feeds = self.fed.feeds.len() as f64;
        let per_second = self.transactions as f64 / self.took.as_secs_f64();
        let fact = |report: &mut Report, what: &str, figure: String| {
            report.fact(&format!("{what}: {name}"), figure);
        };
        fact(
            report,
            "transactions that write",
            format!("{per_second:.0}/s"),
        );
        if self.fed.feeds.is_empty() {
            return;
        }
        let Observed { waiting, .. } = &self.observed;
        fact(
            report,
            "feeds that wait for the loader at one moment",
            format!("{:.1}, at most {}", waiting.mean, waiting.max),
        );
        fact(
            report,
            "feeds that failed and were repeated",
            self.fed.failures.to_string(),
        );
        report.latency(
            &format!("feed: {name}"),
            &self.latency(self.fed.feeds.clone()),
        );
        if self.fed.shards.is_empty() {
            return;
        }
        fact(
            report,
            "feeds, and the time they took",
            format!("{feeds:.0}, {:.1} s", self.took.as_secs_f64()),
        );
        let is_late = |shard: &&Duration| **shard > PATIENCE;
        let late = self.fed.calls.iter().filter(is_late).count();
        fact(
            report,
            &format!("shards whose feeds took more than {} s", PATIENCE.as_secs()),
            late.to_string(),
        );
        report.latency(
            &format!("a shard, until it has connected, a worker id and ids of all tags: {name}"),
            &self.latency(self.fed.shards.clone()),
        );
    }

    fn latency(&self, durations: Vec<Duration>) -> Latency {
        summary_of(durations, self.took)
    }
}
