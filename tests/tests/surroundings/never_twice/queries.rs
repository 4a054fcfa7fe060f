//! Ids in queries, views, cursors and functions: each row that is computed draws,
//! and what is kept stays as it was drawn.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Server};
use std::io::Read;

#[test]
fn views_draw_anew_and_materialized_views_keep_what_they_drew() {
    let (_server, mut client) = Server::with_orders(10);
    client.run(
        "CREATE VIEW v AS SELECT leaf_segment_next('orders') AS id FROM generate_series(1, 5);
         CREATE MATERIALIZED VIEW m AS SELECT n, leaf_segment_next('orders') AS id
                                         FROM generate_series(1, 5) AS n;
         CREATE UNIQUE INDEX ON m (n)",
    );
    let mut ledger = Ledger::new();
    let kept = client.numbers("SELECT id FROM m");
    assert_eq!(client.numbers("SELECT id FROM m"), kept);
    ledger.add(kept);
    for refresh in ["", "CONCURRENTLY"] {
        ledger.add(client.numbers("SELECT id FROM v"));
        client.run(&format!("REFRESH MATERIALIZED VIEW {refresh} m"));
        ledger.add(client.numbers("SELECT id FROM m"));
    }
    assert_eq!((ledger.len(), ledger.highest()), (25, 25));
}

#[test]
fn copy_out_draws_what_it_writes() {
    let (_server, mut client) = Server::with_orders(10);
    let mut ledger = Ledger::new();
    for query in [
        "SELECT leaf_segment_next('orders') FROM generate_series(1, 1000)",
        "SELECT leaf_segment_batch('orders', 1000)",
    ] {
        let mut text = String::new();
        client
            .copy_out(&format!("COPY ({query}) TO STDOUT"))
            .expect("COPY")
            .read_to_string(&mut text)
            .expect("text");
        ledger.add(text.lines().map(|line| line.parse().expect("an id")));
    }
    assert_eq!((ledger.len(), ledger.highest()), (2_000, 2_000));
}

/// As volatile functions are in any query: what a cursor computes again is drawn
/// again, and what it has stored stays.
#[test]
fn cursors_that_go_back_repeat_no_id_but_those_they_keep() {
    let (_server, mut client) = Server::with_orders(10);
    let declare = "SELECT leaf_segment_next('orders') FROM generate_series(1, 50)";
    let mut ledger = Ledger::new();
    client.run(&format!("BEGIN; DECLARE c SCROLL CURSOR FOR {declare}"));
    for fetch in [
        "FETCH 20 FROM c",
        "FETCH BACKWARD 10 FROM c",
        "FETCH 30 FROM c",
    ] {
        ledger.add(client.numbers(fetch));
    }
    client.run("COMMIT");

    client.run(&format!(
        "BEGIN; DECLARE c SCROLL CURSOR WITH HOLD FOR {declare}; COMMIT"
    ));
    let kept = client.numbers("FETCH 20 FROM c");
    ledger.add(kept.clone());
    let back = client.numbers("FETCH BACKWARD 10 FROM c");
    assert!(
        back.iter().rev().eq(&kept[9..19]),
        "{back:?} after {kept:?}"
    );
    // The others of the cursor were drawn when it was stored.
    assert_eq!(client.next("orders").expect("an id"), kept[0] + 50);
}

/// The last statements of a transaction run while it commits.
#[test]
fn what_draws_at_commit_repeats_no_id_of_a_new_tag() {
    let (server, mut client) = Server::with_orders(10);
    client.run(
        "CREATE TABLE t (id bigint, n int);
         CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO t VALUES (leaf_segment_next('new'), -1); RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER late AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW WHEN (new.n > 0) EXECUTE FUNCTION late();
         BEGIN; SELECT leaf_tag_create('new', step => 3);
         INSERT INTO t SELECT leaf_segment_next('new'), n FROM generate_series(1, 20) AS n;
         DECLARE c CURSOR WITH HOLD FOR SELECT leaf_segment_next('new') FROM generate_series(1, 20);
         COMMIT",
    );
    let mut ledger = Ledger::new();
    ledger.add(client.numbers("SELECT id FROM t"));
    ledger.add(client.numbers("FETCH ALL FROM c"));
    assert_eq!(ledger.len(), 60);
    ledger.add([server.connect().next("new").expect("an id")]);
    ledger.add(client.rows("new", 50).expect("ids"));
}

#[test]
fn loops_with_exception_blocks_repeat_no_id() {
    let (_server, mut client) = Server::with_orders(10);
    // Every second id is drawn in a subtransaction that fails.
    client.run(
        "CREATE FUNCTION draw(tag text, count int) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
         DECLARE id bigint;
         BEGIN
             FOR i IN 1..count LOOP
                 BEGIN
                     id := leaf_segment_next(tag);
                     RETURN NEXT id;
                     IF i % 2 = 0 THEN RAISE EXCEPTION 'never mind'; END IF;
                     IF i % 97 = 0 THEN PERFORM leaf_segment_next('nosuch'); END IF;
                 EXCEPTION WHEN raise_exception OR undefined_object THEN NULL;
                 END;
             END LOOP;
         END $$;
         CREATE PROCEDURE draw_and_commit(count int) LANGUAGE plpgsql AS $$
         BEGIN
             FOR i IN 1..count LOOP
                 INSERT INTO drawn VALUES (leaf_segment_next('orders'));
                 IF i % 3 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
             END LOOP;
         END $$;
         CREATE TABLE drawn (id bigint)",
    );
    let mut ledger = Ledger::new();
    let draw = |client: &mut Client, tag| client.numbers(&format!("SELECT draw('{tag}', 2000)"));
    let drawn = draw(&mut client, "orders");
    assert!(drawn.is_sorted());
    ledger.add(drawn);
    assert_eq!((ledger.len(), ledger.highest()), (2_000, 2_000));
    client.run("CALL draw_and_commit(99)");
    ledger.add(client.numbers("SELECT id FROM drawn"));
    assert_eq!((ledger.len(), ledger.highest()), (2_066, 2_098));

    // The same with a tag that the transaction has created.
    client.run("BEGIN; SELECT leaf_tag_create('new', step => 7)");
    let mut ledger = Ledger::new();
    ledger.add(draw(&mut client, "new"));
    ledger.add(draw(&mut client, "new"));
    client.run("COMMIT");
    ledger.add(draw(&mut client, "new"));
    assert_eq!(ledger.len(), 6_000);
}
