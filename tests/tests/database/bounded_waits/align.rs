//! `leaf_tag_align` beside locks.

use leaf_tests::{Draw, Server};

#[test]
fn alignment_waits_for_the_catalog_no_longer_than_other_calls() {
    let (server, mut client) = Server::with_orders(1000);
    client.run(
        "CREATE TABLE t (id bigint DEFAULT leaf_segment_next('orders')); INSERT INTO t VALUES (5000);
         SET leaf.wait_timeout = '300ms'; SET statement_timeout = '30s'",
    );
    let mut locker = server.connect();
    for mode in ["ACCESS EXCLUSIVE", "SHARE"] {
        locker.run(&format!("BEGIN; LOCK leaf.alloc IN {mode} MODE"));
        for call in ["leaf_tag_align()", "leaf_tag_align('orders')"] {
            let call = format!("SELECT * FROM {call}");
            client.fails(&call, "55P03");
        }
        locker.run("ROLLBACK");
    }
    client.run("SELECT * FROM leaf_tag_align()");
    assert_eq!(client.next("orders").expect("an id"), 5001);
}

/// Whoever may draw can have a table, and keep it locked.
#[test]
fn alignment_waits_for_no_locked_table() {
    let (server, mut client) = Server::with_orders(100);
    client.run(
        "CREATE TABLE here (id bigint DEFAULT leaf_segment_next('orders'));
         CREATE TABLE one (LIKE here INCLUDING ALL); CREATE TABLE two (LIKE here INCLUDING ALL);
         INSERT INTO here VALUES (5000)",
    );
    let mut holder = server.connect();
    holder.run("BEGIN; LOCK TABLE one, two");
    client.run("SET leaf.wait_timeout = '200ms'");
    let ignored = "SELECT string_agg(used_in, ', ' ORDER BY used_in) FROM leaf_tag_align() WHERE ignored ~ 'lock timeout'";
    assert_eq!(client.text(ignored), "public.one.id, public.two.id");
    assert_eq!(client.text("SHOW lock_timeout"), "0");
    assert_eq!(client.next("orders").expect("an id"), 5_001);
}
