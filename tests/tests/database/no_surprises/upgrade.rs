//! `pg_upgrade`, from the version that `LEAF_PG_BINDIR_OLD` stands for to the one
//! under test; without it, to another cluster of the same version.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Mode, Order, Server, Snowflake, draw_many, refused};

/// The server that is to be upgraded.
fn old() -> Server {
    Server::options().old().start()
}

/// A new server with what the old one has, which is stopped.
fn upgraded(mut old: Server) -> Server {
    old.stop(Mode::Fast);
    let mut new = Server::options().fresh().bare().start();
    new.stop(Mode::Fast);
    new.upgrade_from(&old);
    new.start_again();
    new
}

/// All that the catalog and the registry of a database say.
fn rows(client: &mut Client) -> String {
    client.text(
        "SELECT (SELECT string_agg(a::text, E'\\n' ORDER BY biz_tag) FROM leaf.alloc AS a) || E'\\n' ||
                (SELECT string_agg(w::text, E'\\n' ORDER BY worker_id) FROM leaf.worker AS w)",
    )
}

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
fn upgraded_cluster_keeps_tags_owners_and_grants() {
    let mut old = old();
    let mut admin = old.connect();
    admin.run(
        "CREATE ROLE owner LOGIN; CREATE ROLE grantee LOGIN; CREATE ROLE stranger LOGIN; CREATE ROLE leaver;
         GRANT EXECUTE ON FUNCTION leaf_tag_create TO owner;
         GRANT SET ON PARAMETER leaf.clock_policy TO owner;
         ALTER ROLE owner SET leaf.wait_timeout = '7s';
         SET ROLE owner;
         SELECT leaf_tag_create('orders', step => 10, start => 1000, max_value => 1000000, description => 'kept');
         SELECT leaf_tag_grant('orders', 'grantee'), leaf_tag_grant('orders', 'leaver');
         SELECT leaf_tag_create('open'), leaf_tag_grant('open', 'PUBLIC');
         RESET ROLE;
         DROP ROLE leaver",
    );
    let drawn = draw_many(&mut admin, "orders", 500).pop().expect("an id");
    admin.snowflakes(10).expect("ids");
    drop(admin);
    // Nobody asks for ids any more, so the rows stay as they are.
    old.restart(Mode::Fast);
    let mut admin = old.connect();
    let before = rows(&mut admin);
    let highest = admin.number(
        "SELECT max_id + current_setting('leaf.history_skip')::bigint * (last_grant + largest_reserve)
           FROM leaf.alloc WHERE biz_tag = 'orders'",
    );
    drop(admin);
    let new = upgraded(old);
    assert_eq!(rows(&mut new.connect()), before);

    let [mut owner, mut grantee, mut stranger] =
        ["owner", "grantee", "stranger"].map(|role| new.connect_as(role, "postgres"));
    let next = grantee.next("orders").expect("an id");
    // As far as the first grant in another history skips, and no farther.
    assert!(next > drawn, "{drawn}, then {next}");
    assert!(next <= highest, "{next} instead of {highest} at most");
    stranger.next("open").expect("an id");
    refused(stranger.next("orders"), "42501");
    let grant = "SELECT leaf_tag_grant('orders', 'stranger')";
    refused(grantee.batch_execute(grant), "42501");
    owner.run(grant);
    stranger.next("orders").expect("an id");
    owner.run("SET leaf.clock_policy = 'wait'; SELECT leaf_tag_create('another')");
    assert_eq!(owner.text("SHOW leaf.wait_timeout"), "7s");
    for statement in [
        "SET leaf.clock_policy = 'wait'",
        "SELECT leaf_tag_create('mine')",
    ] {
        stranger.fails(statement, "42501");
    }
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
