//! The cluster is a centre: its shards go on while another node takes the leader's place.

use super::{History, Scenario, cluster};
use leaf_tests::{BUFFERED, Cluster, Draw, Group, Query, SESSION, Server, wait_until};
use std::cell::OnceCell;
use std::time::Duration;

/// Ids of a shard that lie in its buffers.
const BIG: [Query; 4] = [
    ("orders", "SELECT leaf_segment_next('orders')"),
    ("orders", "SELECT leaf_segment_batch('orders', 10)"),
    ("snowflakes", "SELECT leaf_snowflake_next()"),
    ("snowflakes", "SELECT leaf_snowflake_batch(10)"),
];

/// A tag with segments so small that each of them lasts for less than a second.
const SMALL: [Query; 1] = [("orders", "SELECT leaf_segment_batch('small', 5)")];

/// What the centre itself grants its sessions.
const CENTRE: [Query; 3] = [
    ("orders", "SELECT leaf_segment_next('orders')"),
    ("orders", "SELECT leaf_segment_batch('orders', 25)"),
    ("snowflakes", "SELECT leaf_snowflake_batch(25)"),
];

/// How long the buffers of a shard last: longer than any of the outages.
const SEGMENT_DURATION: &str = "25s";

/// A shard whose tags are all fed from the tag `orders` of the cluster.
fn shard(cluster: &Cluster) -> Server {
    let server = Server::options()
        .fresh()
        .set("leaf.upstream", &cluster.upstream("shard"))
        .set("leaf.upstream_timeout", "1s")
        .set("leaf.segment_duration", SEGMENT_DURATION)
        .start();
    server.connect().run(
        "SELECT leaf_tag_create('orders'), leaf_tag_create('blocks'),
                leaf_tag_create('small', step => 20, max_step => 40);
         SELECT leaf_tag_attach('orders'), leaf_tag_attach('blocks', 'orders'),
                leaf_tag_attach('small', 'orders')",
    );
    server
}

/// Waits and errors of callers of the tag, and of snowflake ids, at a shard.
fn waits(shard: &Server) -> [i64; 2] {
    let mut client = shard.connect();
    [
        client.stat("orders", "waits + timeouts"),
        client.number("SELECT timeouts FROM leaf.stat_snowflake"),
    ]
}

/// Waits until the shard can go on alone for as long as it is to.
fn has_filled_its_buffers(shard: &Server) {
    let mut client = shard.connect();
    let lasts = format!(
        "SELECT count(*) FROM leaf.stat_segment
          WHERE biz_tag = 'orders' AND time_left >= interval '{SEGMENT_DURATION}' * 0.8"
    );
    wait_until("the buffers of the shard last", || {
        client.number(&lasts) == 1
    });
}

#[test]
fn shards_of_a_centre_that_fails_over_repeat_no_id_and_go_on() {
    let mut cluster = cluster();
    let leader = cluster.settles();
    cluster.connect(leader).run(
        "CREATE ROLE shard LOGIN;
         SELECT leaf_tag_grant('orders', 'shard');
         GRANT EXECUTE ON FUNCTION leaf_worker_register, leaf_worker_renew TO shard",
    );
    let shards = [shard(&cluster), shard(&cluster)];
    let centre = cluster.connection_string();
    let [first, second] = shards.each_ref().map(Server::connection_string);
    let long = Duration::from_secs(600);
    let history = History {
        scenarios: &Scenario::OF_A_CENTRE,
        groups: vec![
            Group::sessions(SESSION, &centre, 2, &CENTRE),
            Group::service(BUFFERED, &centre, "orders", 20_000)
                .with_lease(long)
                .never_waits(),
            Group::sessions("shard 1", &first, 2, &BIG).never_waits(),
            Group::sessions("shard 2", &second, 2, &BIG).never_waits(),
            Group::sessions("small 1", &first, 1, &SMALL),
            Group::sessions("small 2", &second, 1, &SMALL),
            Group::service("service 1", &first, "blocks", 20_000).never_waits(),
            Group::service("service 2", &second, "blocks", 50),
        ],
        shown: &[
            SESSION,
            BUFFERED,
            "shard",
            "small",
            "service 1",
            "service 2",
        ],
        file: "patroni-centre.txt",
    };
    // The first segments are small, and callers wait for them.
    let before = OnceCell::new();
    history.happen(&mut cluster, || {
        shards.iter().for_each(has_filled_its_buffers);
        before.get_or_init(|| shards.each_ref().map(waits));
    });
    let before = before.into_inner();
    assert_eq!(Some(shards.each_ref().map(waits)), before, "calls waited");
    for shard in &shards {
        let mut client = shard.connect();
        assert!(
            client.stat("orders", "loads") > 2,
            "fed while the centre fails over"
        );
        assert!(client.number("SELECT failures FROM leaf.stat_upstream") > 0);
    }
}
