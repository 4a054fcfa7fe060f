//! The leader of three servers that Patroni runs is killed while sessions and a service draw.

use std::thread;
use std::time::Duration;

use leaf_tests::{BUFFERED, Callers, Cluster, Group, SESSION};

use crate::bench::Bench;
use crate::plots::{self, Line};
use crate::report::{Plot, Report};

/// Before the leader is killed, and after all are served again.
const QUIET: u64 = 5;

/// What a point of the plot stands for.
const BUCKET: Duration = Duration::from_millis(250);

/// Draws the ids per second of both.
pub fn timeline(bench: &mut Bench, report: &mut Report) {
    let quiet = bench.runs.duration(QUIET);
    let mut cluster = Cluster::start(&[]);
    let leader = cluster.settles();
    let connection = cluster.connection_string();
    cluster
        .connect(leader)
        .batch_execute("SELECT leaf_tag_create('orders')")
        .expect("a tag");
    let groups = [
        Group::sessions(
            SESSION,
            &connection,
            4,
            &[("orders", "SELECT leaf_segment_next('orders')")],
        ),
        Group::service(BUFFERED, &connection, "orders", 20_000).never_waits(),
    ];
    Callers::run(&groups, |callers| {
        callers.are_served();
        let begin = callers.timeline.now();
        thread::sleep(quiet);
        callers.timeline.mark("the leader is killed");
        cluster.nodes[leader].kill();
        cluster.leads_instead_of(leader);
        callers.timeline.mark("another node leads");
        callers.are_served();
        callers.timeline.mark("all sessions have ids");
        thread::sleep(quiet);

        let per_second = |group: &str| Line {
            name: name_of(group).to_owned(),
            points: rates(callers, group, begin),
        };
        let lines = [per_second(BUFFERED), per_second(SESSION)];
        let since = |at: Duration| at.saturating_sub(begin).as_secs_f64();
        let marks = callers.timeline.marks();
        let marks: Vec<_> = marks
            .into_iter()
            .map(|(at, what)| (since(at), what))
            .collect();
        report.plot(Plot {
            file: "failover.svg",
            title: "Ids per second while a leader is killed",
            drawing: plots::timeline(&lines, &marks),
        });
        for (group, what) in [
            (SESSION, "a session waits"),
            (BUFFERED, "the client library waits"),
        ] {
            let longest = callers.timeline.longest_stall(group, begin).as_secs_f64();
            report.fact(
                &format!("leader killed: longest time that {what}"),
                format!("{longest:.1} s"),
            );
        }
        report.fact(
            "leader killed: ids handed out twice",
            callers.answers.repeated().len().to_string(),
        );
    });
}

fn name_of(group: &str) -> &str {
    match group {
        SESSION => "4 sessions, 50 calls a second each",
        _ => "a service with the client library",
    }
}

/// The ids per second in each bucket since `begin`.
fn rates(callers: &Callers, group: &str, begin: Duration) -> Vec<(f64, f64)> {
    let of_group = callers.timeline.numbers(group);
    let counts = callers.answers.per(BUCKET, &of_group);
    // The last one is not over.
    let whole = counts.len().saturating_sub(1);
    let buckets = counts.into_iter().take(whole).enumerate();
    let timed = buckets.map(|(number, ids)| (BUCKET * number as u32, ids));
    let recent = timed.filter(|(at, _)| *at >= begin);
    let rate = |ids: usize| ids as f64 / BUCKET.as_secs_f64();
    recent
        .map(|(at, ids)| ((at - begin).as_secs_f64(), rate(ids)))
        .collect()
}
