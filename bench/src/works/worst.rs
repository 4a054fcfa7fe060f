//! The slowest calls there are, by their cause, and the gaps that causes leave.

use std::time::{Duration, Instant};

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Mode, Server, wait_until};

use crate::bench::{Bench, options};
use crate::latency::summary_of;
use crate::report::Report;

/// The step of the tags, which does not grow, so that what a segment is stays known.
const STEP: i64 = 1_000;

/// What stands before a cause in the report.
pub const WORST: &str = "worst case: ";

/// Measures single calls, each after what makes it slow.
pub fn cases(bench: &mut Bench, report: &mut Report) {
    let calls = bench.runs.size(20, 3);
    let mut server = options().set("leaf.max_tags", "16").start();
    let mut client = server.connect();
    create(&mut client, "t");
    let first = |client: &mut Client, n: u64| {
        let tag = format!("new{n}");
        create(client, &tag);
        let took = timed(client, &tag);
        client.run(&format!("SELECT leaf_tag_drop('{tag}')"));
        took
    };
    show(
        report,
        "the first id of a new tag",
        each(calls, |n| first(&mut client, n)),
    );

    server.reload("leaf.loader_idle_timeout", "100ms");
    show(
        report,
        "the same, and a loader has to be started",
        each(calls, |n| {
            wait_until("the loader has ended", || {
                server.loaders("postgres").is_empty()
            });
            first(&mut client, n)
        }),
    );
    server.reload("leaf.loader_idle_timeout", "1min");

    show(
        report,
        "no id in memory",
        each(calls, |_| {
            empty(&mut client, "t");
            timed(&mut client, "t")
        }),
    );
    show(
        report,
        "no id in memory, during a checkpoint",
        each(calls, |_| {
            client.run("CREATE TABLE IF NOT EXISTS dirty (n int); TRUNCATE dirty");
            client.run("INSERT INTO dirty SELECT generate_series(1, 1000000)");
            empty(&mut client, "t");
            std::thread::scope(|scope| {
                let mut other = server.connect();
                scope.spawn(move || other.run("CHECKPOINT"));
                timed(&mut client, "t")
            })
        }),
    );

    for n in 0..40 {
        create(&mut client, &format!("many{n}"));
    }
    show(
        report,
        "a tag that was evicted",
        each(calls, |_| {
            for n in 0..40 {
                client.next(&format!("many{n}")).expect("an id");
            }
            timed(&mut client, "t")
        }),
    );

    for (mode, cause) in [
        (Mode::Fast, "the first id after a restart"),
        (Mode::Immediate, "the first id after a crash"),
    ] {
        let mut gaps = Vec::new();
        let durations = each(calls, |_| {
            let before = server.connect().next("t").expect("an id");
            server.restart(mode);
            let mut client = server.connect();
            let took = timed(&mut client, "t");
            gaps.push(client.number("SELECT leaf_segment_last('t')") - before - 1);
            took
        });
        show(report, cause, durations);
        let largest = gaps.into_iter().max().unwrap_or(0);
        report.fact(
            &format!("largest gap, of segments of {STEP}: {cause}"),
            largest.to_string(),
        );
    }
    drop(server);
    behind_a_slow_standby(calls, report);
}

/// Grants wait for a synchronous standby that confirms after 100 ms.
fn behind_a_slow_standby(calls: u64, report: &mut Report) {
    let primary = options().set("synchronous_commit", "remote_apply").start();
    let mut client = primary.connect();
    create(&mut client, "t");
    let standby = Server::options()
        .set("recovery_min_apply_delay", "100ms")
        .start_standby_of(&primary);
    standby.catch_up_with(&primary);
    primary.reload("synchronous_standby_names", "*");
    let durations = each(calls, |_| {
        empty(&mut client, "t");
        timed(&mut client, "t")
    });
    show(
        report,
        "no id in memory, behind a synchronous standby that takes 100 ms",
        durations,
    );
}

fn show(report: &mut Report, cause: &str, durations: Vec<Duration>) {
    let took = durations.iter().sum();
    report.latency(&format!("{WORST}{cause}"), &summary_of(durations, took));
}

fn create(client: &mut Client, tag: &str) {
    client.run(&format!(
        "SELECT leaf_tag_create('{tag}', step => {STEP}, max_step => {STEP})"
    ));
}

/// Moves the tag, by which what is in memory is dropped.
fn empty(client: &mut Client, tag: &str) {
    client.run(&format!(
        "SELECT leaf_tag_alter('{tag}', advance_to => max_id + 10 * {STEP}) FROM leaf.alloc WHERE biz_tag = '{tag}'"
    ));
}

fn timed(client: &mut Client, tag: &str) -> Duration {
    let start = Instant::now();
    client.next(tag).expect("an id");
    start.elapsed()
}

fn each(calls: u64, mut call: impl FnMut(u64) -> Duration) -> Vec<Duration> {
    (0..calls).map(&mut call).collect()
}
