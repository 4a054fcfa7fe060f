//! Snowflake ids: compared with the maximum of their layout, and one id per statement.

use std::time::Instant;

use leaf_tests::Draw;
use leaf_tests::postgres::Client;

use super::Line;
use crate::bench::Bench;
use crate::compare::{Comparison, in_turn};
use crate::pgbench::tps;
use crate::processor;
use crate::report::{Bound, Report, Unit};

/// Maximum of layout `leaf` for one worker id: 4,096 ids per millisecond.
const MAXIMUM: f64 = 4_096_000.0;

/// A database with layout `uid`, which allows 8,192 ids per second: callers wait nearly
/// all the time.
const SLOW_DATABASE: &str = "slow";

/// `leaf_snowflake_next` in one session.
pub fn against_maximum(bench: &mut Bench, report: &mut Report) {
    flat_out(bench, report, "`leaf_snowflake_next`, 1 session", 1, NEXT);
}

/// The same in two sessions, which share one worker id and its maximum.
pub fn two_sessions_against_maximum(bench: &mut Bench, report: &mut Report) {
    flat_out(bench, report, "`leaf_snowflake_next`, 2 sessions", 2, NEXT);
}

/// `leaf_snowflake_batch` in one session.
pub fn batch_against_maximum(bench: &mut Bench, report: &mut Report) {
    flat_out(bench, report, "`leaf_snowflake_batch`, 1 session", 1, BATCH);
}

/// `leaf_snowflake_batch` in two sessions.
pub fn two_batches_against_maximum(bench: &mut Bench, report: &mut Report) {
    flat_out(
        bench,
        report,
        "`leaf_snowflake_batch`, 2 sessions",
        2,
        BATCH,
    );
}

/// A query whose rows are not collected before the first id is drawn.
const NEXT: fn(u64) -> String = |rows| {
    format!("SELECT count(leaf_snowflake_next()) FROM (SELECT generate_series(1, {rows})) AS r")
};
const BATCH: fn(u64) -> String =
    |rows| format!("SELECT count(*) FROM (SELECT leaf_snowflake_batch({rows})) AS r");

fn flat_out(
    bench: &Bench,
    report: &mut Report,
    work: &'static str,
    sessions: usize,
    query: fn(u64) -> String,
) {
    let rows = bench.runs.size(10_000_000, 500_000) / sessions as u64;
    let query = query(rows);
    let rate = || {
        let took = bench.in_sessions(sessions, |client| {
            assert_eq!(client.number(&query), rows as i64);
        });
        (rows * sessions as u64) as f64 / took.as_secs_f64()
    };
    rate();
    let pairs: Vec<_> = (0..bench.runs.repetitions)
        .map(|_| (rate(), MAXIMUM))
        .collect();
    let line = Line {
        work,
        against: "4,096 ids per ms, the layout's maximum",
        bound: Bound::AtLeast(0.99),
    };
    line.report(report, Unit::PerSecond, &Comparison::of(&pairs));
}

/// `pgbench` with prepared statements in 8 sessions, against `nextval`.
pub fn single_against_nextval(bench: &mut Bench, report: &mut Report) {
    single(bench, report, "`SELECT nextval`", "SELECT nextval('s')");
}

/// `pgbench` with prepared statements in 8 sessions, against `gen_random_uuid`.
pub fn single_against_uuid(bench: &mut Bench, report: &mut Report) {
    let other = "SELECT gen_random_uuid()";
    single(bench, report, "`SELECT gen_random_uuid()`", other);
}

fn single(bench: &Bench, report: &mut Report, against: &'static str, other: &str) {
    let comparison = in_turn(
        bench.runs.repetitions,
        || tps(&bench.server, bench.runs, 8, "SELECT leaf_snowflake_next()"),
        || tps(&bench.server, bench.runs, 8, other),
    );
    let line = Line {
        work: "one snowflake id per statement, 8 sessions",
        against,
        bound: Bound::AtLeast(1.0),
    };
    line.report(report, Unit::PerSecond, &comparison);
}

/// The share of a processor that a session uses while it draws all ids of each tick.
pub fn processor_time(bench: &mut Bench, report: &mut Report) {
    let mut client = bench.server.connect();
    let rows = bench.runs.size(10_000_000, 500_000);
    let share = share_of_processor(&mut client, &NEXT(rows));
    report.fact(
        "processor time of a session that draws 4,096 ids per ms",
        format!("{:.0} %", share * 100.0),
    );

    client.run(&format!("CREATE DATABASE {SLOW_DATABASE}"));
    client.run(&format!(
        "ALTER DATABASE {SLOW_DATABASE} SET leaf.snowflake_layout = 'uid'"
    ));
    let mut slow = bench.server.connect_as("postgres", SLOW_DATABASE);
    slow.run("CREATE EXTENSION leaf");
    let share = share_of_processor(&mut slow, &BATCH(bench.runs.size(8, 2) * 8_192));
    report.fact(
        "processor time of a session that waits for ticks of 1 s",
        format!("{:.1} %", share * 100.0),
    );
    drop(slow);
    client.run(&format!("DROP DATABASE {SLOW_DATABASE}"));
}

/// Processor time of the session's process during a query, divided by the duration of
/// the query.
fn share_of_processor(client: &mut Client, query: &str) -> f64 {
    let pid = client.number("SELECT pg_backend_pid()::bigint") as i32;
    client.number(query);
    let (start, before) = (Instant::now(), processor::seconds(pid));
    client.number(query);
    (processor::seconds(pid) - before) / start.elapsed().as_secs_f64()
}
