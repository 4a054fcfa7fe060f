//! Single-user mode, in which there is no loader.

use leaf_tests::{Ledger, Mode, Order, Server, Snowflake, draw_many};
use std::time::Duration;

/// The ids that a statement in single-user mode has returned.
fn returned(output: &str, function: &str) -> Vec<i64> {
    let ids = output.lines().filter_map(|line| {
        let (_, value) = line.split_once(&format!("{function} = \""))?;
        value.split('"').next()?.parse().ok()
    });
    ids.collect()
}

#[test]
fn single_user_mode_draws_and_never_repeats_a_snowflake_id() {
    let mut server = Server::options().clock().start();
    let order = Order::new();
    order
        .ascending(|| server.connect().snowflakes(1_000))
        .expect("ids");
    for round in 1..=3 {
        server.stop(Mode::Fast);
        let ids = order.ascending(|| {
            let statement = "SELECT leaf_snowflake_next() FROM generate_series(1, 55)";
            let output = server.single_user(statement);
            let ids = returned(&output, "leaf_snowflake_next");
            (ids.len() == 55).then_some(ids).ok_or(output)
        });
        ids.expect("55 ids");
        server.clock().behind(Duration::from_secs(round));
        server.start_again();
        let mut client = server.connect();
        let ids = order.ascending(|| client.snowflakes(1_000)).expect("ids");
        assert_eq!(client.parts(ids[0]).worker_id, 0, "it kept its lease");
    }
}

#[test]
fn single_user_mode_draws_and_never_repeats_an_id() {
    let (mut server, mut client) = Server::with_orders(10);
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut client, "orders", 100));
    drop(client);
    server.stop(Mode::Fast);
    let output =
        server.single_user("SELECT leaf_segment_next('orders') FROM generate_series(1, 55)");
    ledger.add(returned(&output, "leaf_segment_next"));
    assert_eq!(ledger.len(), 155, "{output}");
    server.start_again();
    ledger.add(draw_many(&mut server.connect(), "orders", 100));
}

#[test]
fn single_user_mode_repeats_nothing_that_a_rolled_back_change_of_the_tag_drew() {
    let (mut server, client) = Server::with_orders(10);
    drop(client);
    server.stop(Mode::Fast);
    let draw = "SELECT leaf_segment_next('orders') FROM generate_series(1, 55)";
    let drop = "SELECT leaf_tag_drop('orders')";
    let rename = "UPDATE leaf.alloc SET biz_tag = 'renamed'";
    let output = server.single_user(&format!(
        "BEGIN; {draw}; {drop}; ROLLBACK\nBEGIN; {draw}; {rename}; COMMIT\n\
         UPDATE leaf.alloc SET biz_tag = 'orders'\n{draw}"
    ));
    let mut ledger = Ledger::new();
    ledger.add(returned(&output, "leaf_segment_next"));
    assert_eq!(ledger.len(), 165, "{output}");
    server.start_again();
    ledger.add(draw_many(&mut server.connect(), "orders", 100));
}
