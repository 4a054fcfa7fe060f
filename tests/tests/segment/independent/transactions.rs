//! Drawing leaves no trace in the caller's transaction; a tag that is created in a
//! transaction lives and dies with it.

use leaf_tests::{Draw, Ledger, Server, Snowflake, draw_many, failed, refused};

#[test]
fn drawing_works_in_a_read_only_transaction() {
    let (server, mut client) = Server::with_orders(10);
    let mut ledger = Ledger::new();
    for mode in [
        "READ ONLY",
        "ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE",
    ] {
        client.run(&format!("BEGIN TRANSACTION {mode}"));
        ledger.add([client.next("orders").expect("an id")]);
        ledger.add(client.batch("orders", 500).expect("ids"));
        ledger.add(client.reserve("orders", 500).expect("a block").ids());
        client.run("COMMIT");
    }
    // The loader must not be read-only with the database, also for the first snowflake id.
    client.run("ALTER DATABASE postgres SET default_transaction_read_only = on");
    client.run("ALTER DATABASE postgres SET default_transaction_isolation = serializable");
    let mut client = server.connect();
    ledger.add(draw_many(&mut client, "orders", 3_000));
    let mut snowflakes = Ledger::new();
    snowflakes.add([client.snowflake().expect("an id")]);
    client.run("BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE");
    snowflakes.add(client.snowflakes(500).expect("ids"));
    client.run("COMMIT");
    snowflakes.add(client.snowflakes(500).expect("ids"));
}

#[test]
fn drawing_assigns_no_transaction_id_and_locks_nothing() {
    let (_server, mut client) = Server::with_orders(10);
    client.run("BEGIN");
    client.next("orders").expect("an id");
    client.batch("orders", 500).expect("ids");
    client.reserve("orders", 500).expect("a block");
    client.snowflake().expect("the very first id");
    client.snowflakes(500).expect("ids");
    let traces = client.number(
        "SELECT count(*) FROM pg_locks
          WHERE pid = pg_backend_pid()
            AND (locktype IN ('tuple', 'transactionid')
                 OR relation IN ('leaf.alloc'::regclass, 'leaf.worker'::regclass)
                    AND mode <> 'AccessShareLock')",
    );
    assert_eq!(traces, 0);
    let assigned = "SELECT count(pg_current_xact_id_if_assigned()::text)";
    assert_eq!(client.number(assigned), 0);
    client.run("COMMIT");
}

#[test]
fn drawing_writes_no_wal_in_the_caller() {
    let (server, mut client) = Server::with_orders(10);
    client.next("orders").expect("an id");
    // Whoever reads a system catalog first after the extension was created cleans its pages.
    server.connect().snowflake().expect("an id");
    for query in [
        "SELECT leaf_segment_next('orders') FROM generate_series(1, 2000)",
        "SELECT * FROM leaf_segment_batch('orders', 2000)",
        "SELECT * FROM leaf_segment_reserve('orders', 2000)",
        "SELECT leaf_snowflake_next() FROM generate_series(1, 2000)",
        "SELECT * FROM leaf_snowflake_batch(20000)",
    ] {
        client.writes_no_wal(query);
    }
}

#[test]
fn new_tag_is_seen_by_its_transaction_alone() {
    let server = Server::start();
    let (mut creator, mut other) = (server.connect(), server.connect());
    creator.run("BEGIN; SELECT leaf_tag_create('orders')");
    assert_eq!(creator.rows("orders", 3).expect("ids"), [1, 2, 3]);
    refused(other.next("orders"), "42704");
    creator.run("ROLLBACK");
    refused(other.next("orders"), "42704");
    refused(creator.next("orders"), "42704");

    creator.run("BEGIN; SELECT leaf_tag_create('orders', step => 2)");
    let mut ledger = Ledger::new();
    ledger.add(creator.rows("orders", 7).expect("ids"));
    ledger.add(creator.batch("orders", 7).expect("ids"));
    ledger.add(creator.reserve("orders", 7).expect("a block").ids());
    refused(other.next("orders"), "42704");
    creator.run("COMMIT");
    ledger.add(draw_many(&mut other, "orders", 100));
    ledger.add(draw_many(&mut creator, "orders", 100));
}

#[test]
fn new_tag_of_a_rolled_back_savepoint_is_gone() {
    let server = Server::start();
    let (mut creator, mut other) = (server.connect(), server.connect());
    creator.run("BEGIN; SAVEPOINT a; SELECT leaf_tag_create('orders')");
    assert_eq!(creator.rows("orders", 3).expect("ids"), [1, 2, 3]);
    creator.run("ROLLBACK TO a");
    refused(creator.next("orders"), "42704");
    // It ends the transaction's usefulness as any error does; a savepoint helps.
    creator.run("ROLLBACK TO a; SELECT leaf_tag_create('orders', start => 100)");
    assert_eq!(creator.rows("orders", 3).expect("ids"), [100, 101, 102]);
    creator.run("COMMIT");
    assert!(other.next("orders").expect("an id") >= 103);
}

#[test]
fn tag_dropped_in_a_transaction_is_gone_for_it_alone_until_commit() {
    let server = Server::start();
    let (mut dropper, mut other) = (server.connect(), server.connect());
    dropper.run("SELECT leaf_tag_create('orders', step => 100)");
    other.next("orders").expect("an id");
    dropper.run("BEGIN; SELECT leaf_tag_drop('orders')");
    other.next("orders").expect("others still draw");
    dropper.run("COMMIT");
    refused(other.next("orders"), "42704");
}

/// A batch hands out what it has drawn only while that is still right.
#[test]
fn open_batch_over_an_own_tag_ends_with_the_tag_and_the_role() {
    let (_server, mut client) = Server::with_orders(1000);
    client.run("CREATE ROLE joe");
    let begin = "BEGIN; SELECT leaf_tag_create('own', step => 100);
                 DECLARE c CURSOR FOR SELECT leaf_segment_batch('own', 1000)";
    let fetch = "FETCH 1 FROM c";

    client.run(begin);
    assert_eq!(client.number(fetch), 1);
    client.run("SELECT leaf_tag_drop('own')");
    client.fails(fetch, "42704");
    client.run("ROLLBACK");

    client.run(begin);
    assert_eq!(client.number(fetch), 1);
    client.run("SET LOCAL ROLE joe");
    client.fails(fetch, "42501");
    client.run("ROLLBACK");

    client.run(begin);
    assert_eq!(client.number(fetch), 1);
    client.run("SAVEPOINT s; SELECT leaf_tag_drop('own'), leaf_tag_create('own', start => 5000)");
    assert_eq!(client.number(fetch), 5_000);
    client.run("ROLLBACK TO s");
    let after = client.number(fetch);
    assert!((2..5_000).contains(&after), "{after}");
    let next = client.next("own").expect("an id");
    assert!(next > after, "{next}");
    client.run("ROLLBACK");

    // The same for a tag that the transaction has only changed.
    client.run("SELECT leaf_tag_create('old', step => 100)");
    client.next("old").expect("an id");
    client.run(
        "BEGIN; SELECT leaf_tag_alter('old', step => 200);
         DECLARE c CURSOR FOR SELECT leaf_segment_batch('old', 1000)",
    );
    assert_eq!(client.number(fetch), 2);
    client.run("SET LOCAL ROLE joe");
    client.fails(fetch, "42501");
    client.run("ROLLBACK");
}

#[test]
fn prepared_transaction_may_draw_but_not_change_tags() {
    let server = Server::options()
        .set("max_prepared_transactions", "5")
        .start();
    let (mut client, mut other) = (server.connect(), server.connect());
    client.run("SELECT leaf_tag_create('orders', step => 100); CREATE TABLE drawn (id bigint)");
    let mut ledger = Ledger::new();
    for end in ["COMMIT", "ROLLBACK"] {
        client.run("BEGIN; INSERT INTO drawn SELECT leaf_segment_next('orders')");
        ledger.add([client.next("orders").expect("an id")]);
        client.run("PREPARE TRANSACTION 'p'");
        ledger.add(draw_many(&mut other, "orders", 150));
        client.run(&format!("{end} PREPARED 'p'"));
        ledger.add(draw_many(&mut client, "orders", 150));
    }
    // What concerns nobody else may be prepared.
    client.run("BEGIN; UPDATE leaf.alloc SET description = 'x'; PREPARE TRANSACTION 'p'");
    client.run("COMMIT PREPARED 'p'");
    for change in [
        "SELECT leaf_tag_create('fresh')",
        "SELECT leaf_tag_alter('orders', advance_to => 1000000)",
        "SELECT leaf_tag_drop('orders')",
        "DELETE FROM leaf.alloc",
        "TRUNCATE leaf.alloc",
    ] {
        client.run(&format!("BEGIN; {change}"));
        let error = client
            .batch_execute("PREPARE TRANSACTION 'p'")
            .expect_err("a change to tags cannot be prepared");
        let error = error.as_db_error().expect("an error of the server");
        assert!(error.hint().is_some(), "{error:?}");
        client.run("ROLLBACK");
        ledger.add([client.next("orders").expect("the tag is as it was")]);
    }
    refused(client.next("fresh"), "42704");
}

#[test]
fn maximum_raised_by_a_rolled_back_savepoint_counts_no_more() {
    let server = Server::start();
    let mut creator = server.connect();
    creator.run(
        "BEGIN; SELECT leaf_tag_create('orders', max_value => 5); SAVEPOINT a;
         SELECT leaf_tag_alter('orders', max_value => 1000)",
    );
    assert_eq!(
        creator.rows("orders", 7).expect("ids"),
        (1..=7).collect::<Vec<_>>()
    );
    creator.run("ROLLBACK TO a");
    refused(creator.next("orders"), "2200H");
}

#[test]
fn tag_whose_creation_anew_was_rolled_back_is_everybodys_again() {
    let server = Server::start();
    let (mut changer, mut other) = (server.connect(), server.connect());
    changer.run("SELECT leaf_tag_create('orders', step => 1000)");
    let mut ledger = Ledger::new();
    ledger.add([changer.next("orders").expect("an id")]);
    changer.run(
        "BEGIN; SAVEPOINT a; SELECT leaf_tag_drop('orders');
         SELECT leaf_tag_create('orders', start => 1000000);
         SELECT leaf_segment_next('orders'); ROLLBACK TO a",
    );
    ledger.add(changer.rows("orders", 5).expect("what is in memory"));
    ledger.add(other.rows("orders", 5).expect("ids"));
    changer.run("ROLLBACK");
    ledger.add(draw_many(&mut other, "orders", 5_000));
    ledger.add(draw_many(&mut changer, "orders", 100));
    assert!(ledger.highest() < 1_000_000);
}

#[test]
fn new_tag_whose_drop_was_rolled_back_is_there_again() {
    let server = Server::start();
    let (mut creator, mut other) = (server.connect(), server.connect());
    let mut ledger = Ledger::new();
    creator.run("BEGIN; SELECT leaf_tag_create('orders', step => 2)");
    ledger.add(creator.rows("orders", 3).expect("ids"));
    creator.run("SAVEPOINT a; SELECT leaf_tag_drop('orders'); ROLLBACK TO a");
    ledger.add(creator.rows("orders", 5).expect("ids"));
    creator.run("COMMIT");
    ledger.add(draw_many(&mut other, "orders", 100));
}

#[test]
fn changes_after_a_grant_that_failed_under_a_savepoint_take_effect() {
    let server = Server::start();
    let (mut changer, mut other) = (server.connect(), server.connect());
    changer.run(
        "SELECT leaf_tag_create('orders', step => 1000);
         ALTER TABLE leaf.alloc ADD CONSTRAINT broken_by_test
         CHECK (biz_tag <> 'new' OR max_id <= 1)",
    );
    other.next("orders").expect("an id");
    changer.run("BEGIN; SELECT leaf_tag_create('new'); SAVEPOINT a");
    failed(changer.next("new"), "23514");
    changer.run("ROLLBACK TO a; SELECT leaf_tag_alter('orders', advance_to => 1000000); COMMIT");
    assert_eq!(other.next("orders").expect("an id"), 1_000_000);
}

#[test]
fn change_before_a_rolled_back_change_of_extensions_takes_effect() {
    let server = Server::start();
    let (mut changer, mut other) = (server.connect(), server.connect());
    changer.run("SELECT leaf_tag_create('orders', step => 1000)");
    other.next("orders").expect("an id");
    changer.run(
        "BEGIN; SELECT leaf_tag_alter('orders', advance_to => 1000000); SAVEPOINT a;
         DROP EXTENSION leaf; CREATE EXTENSION leaf; SELECT leaf_tag_create('fresh');
         ROLLBACK TO a; COMMIT",
    );
    assert_eq!(other.next("orders").expect("an id"), 1_000_000);
}

#[test]
fn rolled_back_change_leaves_the_rest_of_the_transaction_as_it_was() {
    let (_server, mut admin) = Server::with_orders(1000);
    admin.run("SELECT leaf_tag_create('other')");
    let first = admin.next("orders").expect("an id");
    admin.run(
        "BEGIN; SAVEPOINT s; SELECT leaf_tag_alter('orders', advance_to => 500000); TRUNCATE leaf.alloc;
         ROLLBACK TO s",
    );
    for tag in ["orders", "other"] {
        admin.reserve(tag, 10).expect("a block");
        admin.next(tag).expect("an id");
    }
    admin.run("COMMIT");
    let next = admin.next("orders").expect("an id");
    assert!(first < next && next < 500_000, "{next}");
}
