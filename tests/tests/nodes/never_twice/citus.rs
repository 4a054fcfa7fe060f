//! A database of Citus, which evaluates defaults on every node: what no other node can grant is
//! granted, and nothing else. The catalogs of Citus are imitated.

use leaf_tests::postgres::Client;
use leaf_tests::{
    Centre, Draw, Ledger, Server, Snowflake, attach, draw_many, join_citus, refused, wait_until,
};

/// Moves it into another group, as a clone of the node is.
fn regroup(client: &mut Client, group: i32) {
    client.run(&format!(
        "UPDATE pg_catalog.pg_dist_local_group SET groupid = {group}"
    ));
}

#[test]
fn coordinator_grants_as_any_server_does() {
    let (_server, mut client) = Server::with_orders(10);
    let mut ids = draw_many(&mut client, "orders", 15);
    join_citus(&mut client, 0);
    ids.extend(draw_many(&mut client, "orders", 100));
    assert_eq!(ids, (1..=115).collect::<Vec<_>>());
    client.reserve("orders", 5).expect("a block");
    client.run("SELECT leaf_snowflake_next(); SELECT FROM leaf_worker_register('service')");
}

#[test]
fn table_of_others_with_that_name_means_nothing() {
    let (_server, mut client) = Server::with_orders(10);
    join_citus(&mut client, 3);
    client.run("DELETE FROM pg_depend WHERE refobjid = 99999");
    draw_many(&mut client, "orders", 15);
    client.run("SELECT leaf_snowflake_next()");
}

/// In whatever way they are asked for, by a session that has not drawn before.
#[test]
fn worker_grants_no_ids_that_other_nodes_grant() {
    let (server, mut client) = Server::with_orders(10);
    join_citus(&mut client, 1);
    client.run("CREATE TABLE t (id bigint DEFAULT leaf_segment_next('orders'), n int)");
    for statement in [
        "SELECT leaf_segment_next('orders')",
        "SELECT leaf_segment_batch('orders', 3)",
        "SELECT leaf_segment_reserve('orders', 3)",
        "INSERT INTO t (n) VALUES (1)",
        "BEGIN; SELECT leaf_tag_create('own'), leaf_segment_next('own')",
    ] {
        let mut session = server.connect();
        session.fails(statement, "55000");
    }
    assert_eq!(client.feed("orders", 3).expect_err("no numbers"), "55000");
    assert_eq!(
        client.number("SELECT max_id FROM leaf.alloc WHERE biz_tag = 'orders'"),
        1
    );
    let error = client.next("orders").expect_err("an error");
    let error = error.as_db_error().expect("an error of the server");
    assert!(
        error
            .hint()
            .is_some_and(|hint| hint.contains("leaf_tag_attach")),
        "{error:?}"
    );
}

/// Sessions that draw from memory go on until the next grant for any tag.
#[test]
fn ids_in_memory_end_when_the_loader_sees_that_the_database_is_a_worker() {
    let (server, mut client) = Server::with_orders(1_000);
    client.run("SELECT leaf_tag_create('striped', stripes => 4, stripe => 1)");
    client.next("orders").expect("an id");
    join_citus(&mut server.connect(), 2);
    server.connect().next("striped").expect("an id");
    wait_until("the session is refused", || client.next("orders").is_err());
    refused(server.connect().next("orders"), "55000");
    client.next("striped").expect("an id");
}

#[test]
fn stripe_belongs_to_the_group_for_which_it_was_made() {
    let server = Server::start();
    let mut client = server.connect();
    join_citus(&mut client, 1);
    client.run("SELECT leaf_tag_create('striped', step => 10, stripes => 4, stripe => 1, stripe_width => 100)");
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut client, "striped", 250));
    regroup(&mut client, 4);
    let mut clone = server.connect();
    refused(clone.next("striped"), "55000");
    refused(clone.reserve("striped", 1), "55000");
    clone.run("SELECT leaf_tag_vouch('striped')");
    ledger.add(draw_many(&mut clone, "striped", 250));
    regroup(&mut client, 1);
    refused(server.connect().next("striped"), "55000");
}

/// A stripe that was made before the server joined belongs to the group in which it grants first.
#[test]
fn stripe_of_before_belongs_to_the_first_group() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('striped', step => 10, stripes => 4, stripe => 1, stripe_width => 100)");
    client.next("striped").expect("an id");
    join_citus(&mut client, 1);
    draw_many(&mut client, "striped", 50);
    regroup(&mut client, 4);
    refused(server.connect().next("striped"), "55000");
}

#[test]
fn fed_tags_and_leases_of_the_coordinator_are_for_workers() {
    let centre = Centre::start();
    centre.create("orders", ", step => 10");
    let shard = centre.shard();
    let mut client = shard.connect();
    join_citus(&mut client, 1);
    attach(&shard, "orders", 10);
    draw_many(&mut client, "orders", 55);
    client.run("SELECT leaf_snowflake_next()");
}

#[test]
fn worker_leases_no_worker_id_of_its_own_registry() {
    let server = Server::start();
    let mut client = server.connect();
    join_citus(&mut client, 1);
    for statement in [
        "SELECT leaf_snowflake_next()",
        "SELECT FROM leaf_worker_register('service')",
    ] {
        client.fails(statement, "55000");
    }
    // Citus repeats this on all nodes.
    client.run("ALTER DATABASE postgres SET leaf.worker_id = 5");
    server
        .connect()
        .fails("SELECT leaf_snowflake_next()", "55000");
    client.run("ALTER DATABASE postgres RESET leaf.worker_id");
    server.reload("leaf.worker_id", "5");
    let mut session = server.connect();
    wait_until("the worker id is leased", || session.snowflakes(1).is_ok());
    assert_eq!(
        session.number("SELECT worker_id::bigint FROM leaf.stat_snowflake"),
        5
    );
}

#[test]
fn lease_of_before_is_not_renewed() {
    let (server, mut client) = Server::with_orders(10);
    client.run("SELECT leaf_snowflake_next()");
    join_citus(&mut server.connect(), 1);
    wait_until("no id is issued", || client.snowflakes(1).is_err());
    server
        .connect()
        .fails("SELECT leaf_snowflake_next()", "55000");
}

/// Their rows are in shards, which have other names.
#[test]
fn tables_of_citus_are_not_taken_for_empty() {
    let (_server, mut client) = Server::with_orders(10);
    join_citus(&mut client, 0);
    client.run(
        "CREATE TABLE invoices (id bigint NOT NULL);
         CREATE TABLE items (id bigint DEFAULT leaf_segment_next('orders'));
         INSERT INTO pg_dist_partition VALUES ('invoices'), ('items')",
    );
    client.fails("SELECT leaf_column_adopt('invoices', 'id')", "0A000");
    let aligned = "SELECT concat_ws(' ', highest, moved, ignored ~ 'not all rows') FROM leaf_tag_align('orders')";
    assert_eq!(client.text(aligned), "f t");
}
