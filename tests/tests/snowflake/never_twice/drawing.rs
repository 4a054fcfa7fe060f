//! Many sessions at once, and the extension made anew.

use crate::drawing::server;
use leaf_tests::{Draw, Load, Order, Server, Snowflake};
use std::time::Duration;

#[test]
fn sixteen_sessions_never_share_an_id() {
    let (server, mut client) = server();
    Load::of_snowflakes(&server.config("postgres", "postgres"), 16, |load| {
        load.goes_on(300_000);
        // However late a session is scheduled, its clock was never set back.
        assert_eq!(load.refusals(), 0);
        assert_eq!(load.lost(), 0);
    });
    assert_eq!(client.snowflake_stat::<i64>("rollbacks::bigint"), Some(0));
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 1);
}

#[test]
fn extension_of_an_open_transaction_draws_at_once() {
    let server = Server::options()
        .bare()
        .clock()
        .set("leaf.clock_policy", "borrow")
        .start();
    let mut client = server.connect();
    let order = Order::new();
    for (round, end) in ["ROLLBACK", "ROLLBACK", "COMMIT"].into_iter().enumerate() {
        // Nothing but memory of what was issued keeps ids from coming twice.
        server.clock().behind(Duration::from_secs(round as u64));
        client.run("BEGIN; CREATE EXTENSION leaf");
        order.ascending(|| client.snowflakes(5_000)).expect("ids");
        order.ascending(|| client.snowflake_rows(50)).expect("ids");
        client.run(end);
    }
    order.ascending(|| client.snowflakes(5_000)).expect("ids");
    let mut other = server.connect();
    order.ascending(|| other.snowflakes(5_000)).expect("ids");
}

/// Drops the extension and creates it after `between`, with the clock set back.
fn drop_and_create(between: impl Fn(&mut Server)) {
    let mut server = Server::options()
        .clock()
        .set("leaf.clock_policy", "borrow")
        .start();
    let order = Order::new();
    for round in 1..=3 {
        let mut client = server.connect();
        order.ascending(|| client.snowflakes(5_000)).expect("ids");
        client.run("DROP EXTENSION leaf");
        drop(client);
        server.clock().behind(Duration::from_secs(round));
        between(&mut server);
        server.connect().run("CREATE EXTENSION leaf");
    }
    order
        .ascending(|| server.connect().snowflakes(5_000))
        .expect("ids");
}

#[test]
fn extension_dropped_and_created_never_repeats_an_id() {
    drop_and_create(|_| {});
}

#[test]
fn extension_dropped_and_created_around_a_crash_never_repeats_an_id() {
    drop_and_create(|server| {
        server.kill_postmaster();
        server.start_again();
    });
}
