//! `pg_upgrade`: nothing goes back, and worker ids stay with their holders.

use crate::no_surprises::upgrade::{old, upgraded};
use leaf_tests::{Draw, Ledger, Order, Server, Snowflake, refused};

#[test]
fn upgraded_cluster_never_repeats_an_id() {
    let old = old();
    old.connect().run("CREATE DATABASE work");
    old.connect_as("postgres", "work").run(
        "CREATE EXTENSION leaf;
         SELECT leaf_tag_create('orders', step => 10);
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'));
         CREATE TABLE events (id bigint PRIMARY KEY DEFAULT leaf_snowflake_next())",
    );
    old.connect().run("SELECT leaf_tag_create('orders')");
    let databases = ["postgres", "work"];
    let mut ledgers = databases.map(|_| Ledger::new());
    let segments = databases.map(|_| Order::new());
    let snowflakes = databases.map(|_| Order::new());
    let draw = |server: &Server, ledgers: &mut [Ledger]| {
        for (i, database) in databases.iter().enumerate() {
            let mut client = server.connect_as("postgres", database);
            let block = segments[i].above(|| client.reserve("orders", 500));
            ledgers[i].add(block.expect("a block").ids());
            let ids = segments[i].ascending(|| client.batch("orders", 1_000));
            ledgers[i].add(ids.expect("ids"));
            let ids = snowflakes[i].ascending(|| client.snowflakes(1_000));
            ledgers[i].add(ids.expect("ids"));
        }
        // The primary keys refuse what was there before.
        server.connect_as("postgres", "work").run(
            "INSERT INTO orders SELECT FROM generate_series(1, 1000);
             INSERT INTO events SELECT FROM generate_series(1, 1000)",
        );
    };
    draw(&old, &mut ledgers);
    let new = upgraded(old);
    draw(&new, &mut ledgers);
    let mut work = new.connect_as("postgres", "work");
    let kept = "SELECT (SELECT count(*) FROM orders) + (SELECT count(*) FROM events)";
    assert_eq!(work.number(kept), 4_000);
    work.run("SELECT leaf_tag_create('fresh')");
    assert_eq!(work.next("fresh").expect("an id"), 1);
}

#[test]
fn upgraded_registry_keeps_its_leases_and_its_layout() {
    let old = old();
    old.reload("leaf.snowflake_layout", "js53");
    let mut client = old.connect();
    let id = client.snowflake().expect("an id");
    assert_eq!(client.parts(id).worker_id, 0);
    let mut lease = client.register("'service'").expect("a lease");
    assert_eq!(lease.worker_id, 1);
    drop(client);

    // The new server has the settings of its own.
    let new = upgraded(old);
    let mut client = new.connect();
    refused(client.snowflake(), "55000");
    new.reload("leaf.snowflake_layout", "js53");
    let after = client.snowflake().expect("an id");
    assert!(after > id);
    let worker = client.parts(after).worker_id;
    assert!(worker > 1, "{worker}: the old cluster may be alive");
    client.renew(&mut lease).expect("a renewal");
    for i in 0..5 {
        let other = client.register(&format!("'node {i}'")).expect("a lease");
        assert!(![0, 1, worker].contains(&other.worker_id), "{other:?}");
    }
}
