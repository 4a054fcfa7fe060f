//! Servers that Patroni runs: whatever happens to them, no id is returned twice, and the
//! client library hands out what it has.
//!
//! - [`scenario`]: what happens to a cluster.
//! - [`history`]: one thing after another happens, while callers draw.
//! - [`centre`]: the cluster feeds shards.
//! - [`asynchronous`]: what is lost with a leader whose standbys confirm nothing.
//!
//! The timelines, with a character for each tenth of a second and caller, are printed, and
//! written below `target/tmp`.

mod asynchronous;
mod centre;
mod history;
mod scenario;

use history::History;
use leaf_tests::{BUFFERED, Cluster, Draw, Group, SESSION, SPARING};
use scenario::Scenario;

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

#[test]
fn failovers_of_patroni_repeat_no_id_and_buffered_ids_go_on() {
    let mut cluster = cluster();
    let history = History {
        scenarios: &Scenario::ALL,
        groups: Group::of_cluster(&cluster.connection_string()).into(),
        shown: &[SESSION, SPARING, BUFFERED],
        file: "patroni.txt",
    };
    history.happen(&mut cluster, || ());
}
