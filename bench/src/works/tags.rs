//! Thousands of tags, as with one for each tenant.

use std::thread;
use std::time::Instant;

use leaf_tests::Draw;
use leaf_tests::postgres::{Client, Statement};

use super::Line;
use crate::bench::Bench;
use crate::compare::in_turn;
use crate::report::{Bound, Report, Unit};

const SESSIONS: usize = 20;
const MANY: usize = 5_000;
const FEW: usize = 100;

/// How many ids each session draws in a round.
const DRAWS: usize = 5_000;

/// A session, and the statement that it draws with.
type Session = (Client, Statement);

/// Sessions that draw from many tags in turn, against as many that draw from few.
pub fn many_against_few(bench: &mut Bench, report: &mut Report) {
    bench.server.connect().run(&format!(
        "SELECT leaf_tag_create('tenant' || n) FROM generate_series(1, {MANY}) AS n"
    ));
    let draws = bench.runs.size(DRAWS as u64, DRAWS as u64 / 10) as usize;
    let mut sessions = [MANY, FEW].map(|tags| (tags, sessions(bench)));
    let cold = sessions
        .each_mut()
        .map(|(tags, sessions)| per_second(sessions, *tags, draws));
    let [many, few] = &mut sessions;
    let comparison = in_turn(
        bench.runs.repetitions,
        || per_second(&mut many.1, many.0, draws),
        || per_second(&mut few.1, few.0, draws),
    );
    let line = Line {
        work: "one id per statement, 20 sessions, of 5,000 tags in turn",
        against: "of 100 tags in turn",
        bound: Bound::AtLeast(0.8),
    };
    line.report(report, Unit::PerSecond, &comparison);
    for ((tags, _), cold) in sessions.iter().zip(cold) {
        report.fact(
            &format!(
                "one id per statement, 20 sessions, of {tags} tags in turn, for the first time"
            ),
            Unit::PerSecond.text(cold),
        );
    }
}

fn sessions(bench: &Bench) -> Vec<Session> {
    let session = |_| {
        let mut client = bench.server.connect();
        let statement = client.prepare("SELECT leaf_segment_next($1)");
        (client, statement.expect("a statement"))
    };
    (0..SESSIONS).map(session).collect()
}

/// Ids per second of all sessions, each of which walks the tags from another one on.
fn per_second(sessions: &mut [Session], tags: usize, draws: usize) -> f64 {
    let start = Instant::now();
    thread::scope(|scope| {
        for (number, (client, statement)) in sessions.iter_mut().enumerate() {
            scope.spawn(move || {
                for draw in 0..draws {
                    let tag = (number * tags / SESSIONS + draw) % tags + 1;
                    let tag = format!("tenant{tag}");
                    client.query_one(&*statement, &[&tag]).expect("an id");
                }
            });
        }
    });
    (SESSIONS * draws) as f64 / start.elapsed().as_secs_f64()
}
