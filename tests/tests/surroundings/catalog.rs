//! What administrators do to any table and any database, done to leaf's.

use leaf_tests::{Draw, Server, Signal, Snowflake, draw_many, signal, wait_until, waiting_loaders};

#[test]
fn catalog_stays_small_however_much_is_granted() {
    let server = Server::options()
        .set("autovacuum_naptime", "1s")
        .set("autovacuum_vacuum_threshold", "10")
        .set("autovacuum_vacuum_scale_factor", "0")
        .start();
    let mut client = server.connect();
    client.run(
        "ALTER TABLE leaf.alloc SET (autovacuum_enabled = off); SELECT leaf_tag_create('orders')",
    );
    let size = "SELECT pg_total_relation_size('leaf.alloc')";
    client.reserve("orders", 1).expect("a block");
    let before = client.number(size);
    for _ in 0..2_000 {
        client.reserve("orders", 1).expect("a block");
    }
    // The old versions of a row make room for the new ones.
    let after = client.number(size);
    assert!(after <= before + 8 * 8_192, "{before} bytes became {after}");
    client.run("ALTER TABLE leaf.alloc RESET (autovacuum_enabled)");
    wait_until("autovacuum has been there", || {
        client.reserve("orders", 20).expect("a block");
        client.number(
            "SELECT autovacuum_count FROM pg_stat_all_tables WHERE relid = 'leaf.alloc'::regclass",
        ) > 0
    });
}

/// Somebody holds a snapshot, and no version of a row can be removed.
#[test]
fn old_snapshot_does_not_make_each_grant_read_all_versions_of_a_row() {
    let (server, mut client) = Server::with_orders(10);
    let mut holder = server.connect();
    holder.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM leaf.alloc");
    let grants = 2_000;
    for _ in 0..grants {
        client.reserve("orders", 1).expect("a block");
    }
    let pages = client.number("SELECT pg_relation_size('leaf.alloc') / 8192");
    assert!(pages > 30, "{pages} pages");
    // The loader and the session count what they have read when they count what they have done.
    client.run("SELECT pg_stat_force_next_flush()");
    wait_until("the grants are counted", || {
        client
            .number("SELECT n_tup_upd FROM pg_stat_all_tables WHERE relid = 'leaf.alloc'::regclass")
            >= grants
    });
    let read = client.number(
        "SELECT heap_blks_hit + heap_blks_read FROM pg_statio_all_tables WHERE relid = 'leaf.alloc'::regclass",
    );
    assert!(read < 25 * grants, "{read} pages read by {grants} grants");
}

/// Sessions take them from the database when they begin, and so would the loader.
#[test]
fn settings_of_the_database_do_not_reach_grants() {
    let server = Server::start();
    let (mut admin, mut client) = (server.connect(), server.connect());
    admin.run(
        "CREATE ROLE joe; SELECT leaf_tag_create('orders', step => 10);
         CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN PERFORM pg_sleep(0.05); RETURN new; END $$;
         CREATE TRIGGER slow BEFORE UPDATE ON leaf.alloc FOR EACH ROW EXECUTE FUNCTION slow();
         CREATE TRIGGER slow BEFORE UPDATE ON leaf.worker FOR EACH ROW EXECUTE FUNCTION slow()",
    );
    let mut ids = draw_many(&mut client, "orders", 15);
    let mut flakes = client.snowflakes(5).expect("ids");
    // New sessions are under these settings, too.
    let loaders = server.loaders("postgres");
    for (name, value) in [
        ("role", "joe"),
        ("session_replication_role", "replica"),
        ("statement_timeout", "10ms"),
        ("lock_timeout", "10ms"),
        ("idle_in_transaction_session_timeout", "10ms"),
        // Since PostgreSQL 17.
        ("transaction_timeout", "10ms"),
        ("default_transaction_isolation", "serializable"),
        ("default_transaction_read_only", "on"),
        ("default_transaction_deferrable", "on"),
        ("search_path", "nowhere"),
        ("enable_indexscan", "off"),
        ("transform_null_equals", "on"),
        ("array_nulls", "off"),
        ("datestyle", "German"),
        ("intervalstyle", "iso_8601"),
        ("timezone", "Asia/Kathmandu"),
        ("bytea_output", "escape"),
        ("plan_cache_mode", "force_generic_plan"),
    ] {
        let known = format!("SELECT count(*) FROM pg_settings WHERE lower(name) = '{name}'");
        // The role is no setting that pg_settings shows.
        if name == "role" || admin.number(&known) == 1 {
            admin.run(&format!("ALTER DATABASE postgres SET {name} = '{value}'"));
        }
    }
    for loader in loaders {
        signal(loader, Signal::SIGTERM);
        let alive = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {loader}");
        wait_until("the loader has gone", || admin.number(&alive) == 0);
    }
    ids.extend(draw_many(&mut client, "orders", 500));
    ids.extend(client.reserve("orders", 10).expect("a block").ids());
    client.run("UPDATE leaf.worker SET ceiling = ceiling + interval '1 s'");
    flakes.extend(client.snowflakes(5).expect("ids"));
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    assert!(flakes.is_sorted_by(|a, b| a < b), "{flakes:?}");
    assert_eq!(client.stat("orders", "timeouts"), 0);
}

/// The loader has begun when the table is locked, and goes on when the tag is
/// another: what it would be granted now, it would throw away.
#[test]
fn change_under_a_locked_table_loses_none_of_the_new_ids() {
    let server = Server::start();
    let (mut admin, mut client) = (server.connect(), server.connect());
    for (change, expected) in [
        ("SELECT leaf_tag_alter('orders', advance_to => 5000)", 5_000),
        (
            "SELECT leaf_tag_drop('orders'); SELECT leaf_tag_create('orders', start => 700)",
            700,
        ),
    ] {
        admin.run("SELECT leaf_tag_create('orders', step => 1000)");
        client.next("orders").expect("an id");
        admin.run("BEGIN; LOCK TABLE leaf.alloc IN ACCESS EXCLUSIVE MODE");
        // So many that the next segment is due.
        client.batch("orders", 200).expect("what is in memory");
        wait_until("the loader waits for the table", || {
            waiting_loaders(&mut admin, "Lock") == 1
        });
        admin.run(&format!("{change}; COMMIT"));
        assert_eq!(client.next("orders").expect("an id"), expected);
        admin.run("SELECT leaf_tag_drop('orders')");
    }
}
