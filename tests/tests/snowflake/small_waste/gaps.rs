//! What a caller does not read is not lost, and a crash costs little.

use crate::drawing::server;
use crate::never_twice::clock_restart::draw;
use leaf_tests::{Order, Server, Snowflake, refused, wait_until};
use std::time::Duration;

#[test]
fn batch_draws_only_what_is_read() {
    let (_server, mut client) = server();
    let first = client.snowflake().expect("an id");
    let read = client
        .query("SELECT leaf_snowflake_batch(2147483647) LIMIT 10", &[])
        .expect("ten ids");
    assert_eq!(read.len(), 10);
    let last = client.snowflake().expect("an id");
    assert!(first < last);
    // Whoever built the whole set first would have needed nine minutes.
    let took = client.parts(last).created_at - client.parts(first).created_at;
    assert!(took < 60_000, "{took} ms");
}

#[test]
fn lead_over_the_clock_after_restarts_is_bounded() {
    let mut server = Server::options()
        .clock()
        .set("leaf.ceiling_ahead", "5s")
        .set("leaf.max_clock_lead", "2s")
        .start();
    let order = Order::new();
    draw(&server, &order);
    server.kill_postmaster();
    server.clock().behind(Duration::from_secs(2));
    server.start_again();
    let mut client = server.connect();
    let ceiling = client.ceiling(0);
    refused(client.snowflake(), "58000");
    // Two seconds before the ceiling it may count on from there.
    wait_until("the clock has come near", || {
        client.clock() > ceiling - 1_900
    });
    let ids = order.ascending(|| client.snowflakes(100)).expect("ids");
    assert!(client.parts(ids[0]).created_at >= ceiling);
}

/// The ceiling is the end of a tick: one tick after a crash, ids go on, and two ticks after
/// one if the server crashed again in the meantime.
#[test]
fn crashed_server_with_long_ticks_issues_again_within_two_of_them() {
    for (tick, seconds) in [("60s", 60), ("3600s", 3_600)] {
        let mut server = Server::options()
            .clock()
            .set("leaf.snowflake_layout", &format!("custom:30,10,12,{tick}"))
            .set("leaf.ceiling_ahead", "100ms")
            .set("leaf.wait_timeout", "300ms")
            .start();
        let order = Order::new();
        let mut ahead = 0;
        for crashes in [1, 1, 2, 2] {
            let mut client = server.connect();
            let ids = order.ascending(|| client.snowflakes(10)).expect("ids");
            let lead = client.parts(ids[9]).created_at - client.clock();
            assert!(lead <= 0, "{lead} ms ahead of the clock");
            drop(client);
            for _ in 1..crashes {
                server.kill_postmaster();
                server.start_again();
                let mut tried = server.connect();
                let _ = order.ascending(|| tried.snowflakes(10));
            }
            server.kill_postmaster();
            ahead += crashes * seconds;
            server.clock().ahead(Duration::from_secs(ahead));
            server.start_again();
        }
        order
            .ascending(|| server.connect().snowflakes(10))
            .expect("ids");
    }
}
