//! How fast the centre grants.

use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use super::link::Link;
use super::{Nodes, TAGS, tag_name};
use crate::latency::{Latency, of_calls, summary, summary_of};
use crate::report::Report;

/// Connections, and how many feeds each has under way.
const CALLERS: [(usize, usize); 6] = [(1, 1), (1, 16), (8, 1), (8, 16), (64, 1), (64, 16)];

/// How many numbers a feed asks for.
const COUNT: i64 = 1_000_000;

/// `leaf_segment_feed` on a number of connections, with and without a pipeline.
pub fn at_the_centre(nodes: &mut Nodes, report: &mut Report) {
    let mut commits = Vec::new();
    let mut feeds: [Vec<Latency>; CALLERS.len()] = Default::default();
    let mut per_transaction = [0.0; CALLERS.len()];
    for _ in 0..nodes.runs.repetitions {
        commits.push(updates(nodes));
        for (i, (connections, depth)) in CALLERS.into_iter().enumerate() {
            let before = nodes.transactions();
            let latencies = feed(nodes, connections, depth);
            let transactions = nodes.transactions() - before;
            per_transaction[i] = latencies.len() as f64 / transactions as f64;
            feeds[i].push(summary_of(latencies, nodes.runs.duration(2)));
        }
    }
    report.latency("`UPDATE` of one row, 1 connection", &summary(&commits));
    for (i, (connections, depth)) in CALLERS.into_iter().enumerate() {
        let pipeline = match depth {
            1 => String::new(),
            depth => format!(", {depth} in a pipeline"),
        };
        let callers = format!("{connections} connections{pipeline}");
        let callers = callers.replace("1 connections", "1 connection");
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

fn feed(nodes: &Nodes, connections: usize, depth: usize) -> Vec<Duration> {
    let upstream = nodes.centre.upstream();
    let duration = nodes.runs.duration(2);
    Runtime::new().expect("a runtime").block_on(async {
        let mut links = Vec::with_capacity(connections);
        for _ in 0..connections {
            links.push(Link::open(&upstream).await.expect("a connection"));
        }
        let end = Instant::now() + duration;
        let mut callers = JoinSet::new();
        for (i, link) in links.iter().enumerate() {
            for place in 0..depth {
                callers.spawn(caller(link.clone(), i * depth + place, end));
            }
        }
        callers.join_all().await.concat()
    })
}

async fn caller(link: Link, first_tag: usize, end: Instant) -> Vec<Duration> {
    let mut latencies = Vec::new();
    let mut tags = (first_tag..).map(|tag| tag_name(tag % TAGS));
    while Instant::now() < end {
        let tag = tags.next().expect("there is always another one");
        let start = Instant::now();
        link.feed(&tag, COUNT).await.expect("numbers");
        latencies.push(start.elapsed());
    }
    latencies
}
