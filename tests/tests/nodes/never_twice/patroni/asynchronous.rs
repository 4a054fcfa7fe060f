//! Standbys that confirm nothing: what a leader granted on its own is lost with it.

use leaf_tests::{Answers, Cluster, Draw, OF_THE_TEST, wait_until};
use serde_json::json;
use std::time::Instant;

/// Draws ids of a tag, in more than one grant.
fn draw(cluster: &Cluster, node: usize, tag: &'static str, answers: &Answers) {
    for _ in 0..5 {
        let ids = cluster.connect(node).batch(tag, 150).expect("ids");
        answers.enter(tag, OF_THE_TEST, ids);
    }
}

/// Has the servers skip nothing after a promotion, the loader that runs included.
fn skip_nothing(cluster: &Cluster, node: usize) {
    let mut client = cluster.connect(node);
    client.run("ALTER SYSTEM SET leaf.history_skip = 0");
    client.run("SELECT pg_reload_conf()");
    wait_until("the setting is there", || {
        client.text("SHOW leaf.history_skip") == "0"
    });
    client.run("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_type = 'leaf loader'");
}

#[test]
fn asynchronous_failover_repeats_no_id_that_the_skip_covers() {
    let mut cluster = Cluster::start(&[("leaf.max_step", "100")]);
    cluster.configure(&json!({"synchronous_mode": false}));
    let leader = cluster.leader().expect("a leader");
    let mut client = cluster.connect(leader);
    wait_until("the leader waits for no standby", || {
        client.text("SHOW synchronous_standby_names").is_empty()
    });
    client
        .run("SELECT leaf_tag_create(tag, step => 100) FROM unnest('{covered,bare}'::text[]) tag");
    let answers = Answers::since(Instant::now());
    let draw_both = |node| {
        draw(&cluster, node, "covered", &answers);
        draw(&cluster, node, "bare", &answers);
    };
    draw_both(leader);
    let behind = "SELECT count(*) FROM pg_stat_replication WHERE replay_lsn < pg_current_wal_lsn()";
    wait_until("the standbys have it all", || client.number(behind) == 0);
    cluster.hold_back_standbys(leader);
    draw_both(leader);
    drop(client);

    cluster.nodes[leader].kill();
    let next = cluster.leads_instead_of(leader);
    let mut client = cluster.connect(next);
    wait_until("it takes writes", || {
        client.number("SELECT pg_is_in_recovery()::int::bigint") == 0
    });
    draw(&cluster, next, "covered", &answers);
    answers.assert_no_repetition();
    // Without the skip, the same failover repeats ids: the account finds them.
    skip_nothing(&cluster, next);
    draw(&cluster, next, "bare", &answers);
    let repeated = answers.repeated();
    assert!(repeated.len() > 100, "{repeated:?}");
    assert!(
        repeated.iter().all(|it| it.starts_with("bare: ")),
        "{repeated:?}"
    );
}
