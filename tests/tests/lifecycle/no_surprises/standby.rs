//! A standby draws nothing, until it is promoted.

use crate::never_twice::history::primary;
use leaf_tests::{Draw, Ledger, Server, Snowflake, draw_many, refused};

#[test]
fn standby_draws_nothing() {
    let primary = primary();
    let mut drawer = primary.connect();
    drawer.next("orders").expect("an id");
    let id = drawer.snowflake().expect("an id");
    let standby = Server::options().start_standby_of(&primary);
    standby.catch_up_with(&primary);
    let mut client = standby.connect();
    refused(client.next("orders"), "25006");
    refused(client.batch("orders", 5), "25006");
    refused(client.reserve("orders", 5), "25006");
    client.run("SELECT * FROM leaf.alloc");
    refused(client.next("others"), "25006");
    refused(
        client.query("SELECT leaf_segment_last('orders')", &[]),
        "25006",
    );
    for call in [
        "leaf_tag_create('others', if_not_exists => true)",
        "leaf_tag_align('orders')",
        "leaf_tag_alter('orders', step => 5)",
        "leaf_tag_grant('orders', 'public')",
        "leaf_tag_drop('orders')",
    ] {
        refused(client.batch_execute(&format!("SELECT {call}")), "25006");
    }
    refused(client.snowflake(), "25006");
    refused(client.snowflakes(5), "25006");
    assert_eq!(client.parts(id), drawer.parts(id));
    // Statistics are those of this server.
    assert_eq!(client.snowflake_stat::<i32>("worker_id"), None);
    assert_eq!(client.stat("orders", "ids_drawn"), 0);
    client.run("SELECT leaf_stat_reset(), leaf_stat_reset('orders')");
    client.run("SELECT * FROM leaf.stat_snowflake");
    client.run("SELECT leaf_snowflake_time(leaf_snowflake_floor(now()))");
}

#[test]
fn session_that_was_refused_on_the_standby_draws_after_promotion() {
    let primary = primary();
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut primary.connect(), "orders", 500));
    let standby = Server::options().start_standby_of(&primary);
    standby.catch_up_with(&primary);
    drop(primary);
    let mut client = standby.connect();
    refused(client.next("orders"), "25006");
    standby.promote();
    ledger.add(draw_many(&mut client, "orders", 500));
}
