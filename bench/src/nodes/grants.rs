//! How fast the centre grants.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::connection::Connection;
use super::{Nodes, TAGS, tag_name};
use crate::compare::Comparison;
use crate::latency::{Latency, of_calls, summary, summary_of};
use crate::processor::seconds_of_server;
use crate::report::{Bound, Report, Unit};

/// Connections, and of how many tags each asks for numbers in one call.
const CALLERS: [(usize, usize); 6] = [(1, 1), (1, 100), (8, 1), (8, 100), (64, 1), (64, 100)];

/// How many numbers a feed asks for.
const COUNT: i64 = 1_000_000;

/// `leaf_segment_feed` on a number of connections, for one tag or many.
pub fn at_the_centre(nodes: &mut Nodes, report: &mut Report) {
    let mut commits = Vec::new();
    let mut feeds: [Vec<Latency>; CALLERS.len()] = Default::default();
    let mut per_transaction = [0.0; CALLERS.len()];
    let mut processor: [Vec<f64>; CALLERS.len()] = Default::default();
    for _ in 0..nodes.runs.repetitions {
        commits.push(updates(nodes));
        for (i, (connections, tags)) in CALLERS.into_iter().enumerate() {
            let before = (nodes.transactions(), seconds_of_server(&nodes.centre.0));
            let latencies = feed(nodes, connections, tags);
            let transactions = nodes.transactions() - before.0;
            let seconds = seconds_of_server(&nodes.centre.0) - before.1;
            let fed = (latencies.len() * tags) as f64;
            per_transaction[i] = fed / transactions as f64;
            processor[i].push(seconds * 1e3 / fed);
            feeds[i].push(summary_of(latencies, nodes.runs.duration(2)));
        }
    }
    let [one, many, ..] = &processor;
    let pairs = many.iter().copied().zip(one.iter().copied());
    report.compared(
        "the centre's processor time for a feed, 100 tags a call",
        "1 tag a call",
        Unit::Milliseconds,
        &Comparison::of(&pairs.collect::<Vec<_>>()),
        Bound::AtMost(0.2),
    );
    report.latency("`UPDATE` of one row, 1 connection", &summary(&commits));
    for (i, (connections, tags)) in CALLERS.into_iter().enumerate() {
        let callers = format!("{tags} tags a call, {connections} connections");
        let callers = callers.replace("1 tags", "1 tag");
        let callers = callers.replace(" 1 connections", " 1 connection");
        report.latency(
            &format!("`leaf_segment_feed`, {callers}"),
            &summary(&feeds[i]),
        );
        report.fact(
            &format!("feeds in one transaction, {callers}"),
            format!("{:.1}", per_transaction[i]),
        );
    }
}

/// What a commit costs that the standby confirms.
fn updates(nodes: &Nodes) -> Latency {
    let mut client = nodes.centre.0.connect();
    client
        .batch_execute("CREATE TABLE IF NOT EXISTS counter AS SELECT 0::bigint AS n")
        .expect("a table");
    let update = "UPDATE counter SET n = n + 1 RETURNING n";
    of_calls(vec![client], update, nodes.runs.duration(2))
}

fn feed(nodes: &Nodes, count: usize, tags: usize) -> Vec<Duration> {
    let upstream = nodes.centre.upstream();
    let duration = nodes.runs.duration(2);
    Runtime::new().expect("a runtime").block_on(async {
        let mut connections = Vec::with_capacity(count);
        for _ in 0..count {
            connections.push(Connection::open(&upstream).await.expect("a connection"));
        }
        let end = Instant::now() + duration;
        let mut callers = JoinSet::new();
        for (i, connection) in connections.into_iter().enumerate() {
            callers.spawn(caller(connection, i, tags, end));
        }
        callers.join_all().await.concat()
    })
}

async fn caller(
    connection: Connection,
    first_tag: usize,
    tags: usize,
    end: Instant,
) -> Vec<Duration> {
    let mut latencies = Vec::new();
    let mut feeds = (first_tag..).map(|tag| (tag_name(tag % TAGS), COUNT));
    while Instant::now() < end {
        let mut feeds: Vec<_> = feeds.by_ref().take(tags).collect();
        let start = Instant::now();
        // As a shard does, it asks again for what was not granted in time.
        while !feeds.is_empty() {
            feeds = connection.feed(&feeds).await.expect("rows");
        }
        latencies.push(start.elapsed());
    }
    latencies
}
