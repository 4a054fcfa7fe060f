//! Tags that are changed, dropped and created: what was drawn before never comes back.

use crate::changes::warm;
use leaf_tests::{Draw, Ledger, Server, draw_many, refused};

#[test]
fn rolled_back_changes_have_no_effect() {
    let (_server, mut admin, mut warm) = warm();
    let mut ledger = Ledger::new();
    ledger.add([warm.next("orders").expect("an id")]);
    for change in [
        "SELECT leaf_tag_alter('orders', advance_to => 1000000000000)",
        "SELECT leaf_tag_drop('orders')",
        "UPDATE leaf.alloc SET max_id = max_id + 1000000000000",
        "DELETE FROM leaf.alloc",
        "TRUNCATE leaf.alloc",
        "SELECT leaf_tag_drop('orders'); SELECT leaf_tag_create('orders')",
    ] {
        admin.run(&format!("BEGIN; {change}; ROLLBACK"));
        ledger.add(draw_many(&mut warm, "orders", 500));
        admin.run(&format!(
            "BEGIN; SAVEPOINT s; {change}; ROLLBACK TO s; COMMIT"
        ));
        ledger.add(draw_many(&mut warm, "orders", 500));
    }
    assert!(ledger.highest() < 1_000_000_000_000);
}

#[test]
fn tag_that_becomes_another_one_has_no_ids_before_the_commit() {
    let (_server, mut admin, mut warm) = warm();
    let mut ledger = Ledger::new();
    ledger.add([warm.next("orders").expect("an id")]);
    let replace = "UPDATE leaf.alloc SET incarnation = gen_random_uuid() WHERE biz_tag = 'orders'";
    admin.run(&format!("BEGIN; {replace}"));
    refused(admin.next("orders"), "55P03");
    admin.run("ROLLBACK");
    // Nor has the attempt cost other sessions the ids that they had.
    let next = warm.next("orders").expect("an id");
    assert_eq!(next, ledger.highest() + 1);
    ledger.add([next]);
    admin.run(replace);
    ledger.add(draw_many(&mut warm, "orders", 5_000));
}

#[test]
fn changes_under_the_replica_role_take_effect_and_never_rewind() {
    let (_server, mut admin, mut warm) = warm();
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut warm, "orders", 2_500));
    admin.run("SET session_replication_role = replica");
    admin.run("UPDATE leaf.alloc SET max_id = 1 WHERE biz_tag = 'orders'");
    ledger.add(draw_many(&mut warm, "orders", 5_000));
    admin.run("UPDATE leaf.alloc SET max_id = 4000000 WHERE biz_tag = 'orders'");
    assert_eq!(warm.next("orders").expect("an id"), 4_000_000);
    admin.run("INSERT INTO leaf.alloc (biz_tag, max_id, step) VALUES ('applied', 3, 10)");
    assert_eq!(warm.next("applied").expect("an id"), 3);
    admin.run("DELETE FROM leaf.alloc WHERE biz_tag = 'orders'");
    refused(warm.next("orders"), "42704");
    admin.run("TRUNCATE leaf.alloc");
    refused(warm.next("applied"), "42704");
}

/// New statements see that the table was truncated; what is open already is told
/// by the trigger alone.
#[test]
fn truncate_under_the_replica_role_reaches_an_open_cursor() {
    let (_server, mut admin, mut warm) = warm();
    warm.run(
        "BEGIN;
         DECLARE c CURSOR FOR SELECT leaf_segment_next('orders') FROM generate_series(1, 50);
         FETCH 2 FROM c",
    );
    admin.run("SET session_replication_role = replica; TRUNCATE leaf.alloc");
    refused(warm.batch_execute("FETCH 1 FROM c"), "42704");
}

/// A cursor holds on to the place of its tag in shared memory, which serves another
/// tag by the time it is read on.
#[test]
fn open_cursor_of_a_dropped_tag_gets_no_ids_of_another() {
    let server = Server::options().set("leaf.max_tags", "16").start();
    let (mut admin, mut reader) = (server.connect(), server.connect());
    admin.run("SELECT leaf_tag_create('orders', step => 1000)");
    reader.run(
        "BEGIN;
         DECLARE c CURSOR FOR SELECT leaf_segment_next('orders') FROM generate_series(1, 50);
         FETCH 2 FROM c",
    );
    admin.run("SELECT leaf_tag_drop('orders')");
    // So many others that every place is taken.
    for n in 0..16 {
        let other = format!("other{n}");
        admin.run(&format!("SELECT leaf_tag_create('{other}')"));
        admin.next(&other).expect("an id");
    }
    refused(reader.batch_execute("FETCH 1 FROM c"), "42704");
}

#[test]
fn open_batch_cursor_hands_out_nothing_of_a_tag_that_was_dropped() {
    let (server, mut admin) = Server::with_orders(1000);
    admin.run("CREATE ROLE joe LOGIN; SELECT leaf_tag_grant('orders', 'joe')");
    let mut joe = server.connect_as("joe", "postgres");
    joe.run("BEGIN; DECLARE c CURSOR FOR SELECT leaf_segment_batch('orders', 5000)");
    assert_eq!(joe.number("FETCH c"), 1);
    admin.run("SELECT leaf_tag_drop('orders'); SELECT leaf_tag_create('orders')");
    assert_eq!(admin.batch("orders", 3).expect("ids"), [1, 2, 3]);
    refused(joe.query_one("FETCH c", &[]), "42501");
}

/// By less than a segment: the tag stands at the end of the last one, not at its beginning.
#[test]
fn row_lowered_into_its_last_segment_repeats_no_id() {
    let server = Server::options().set("leaf.history_skip", "0").start();
    let mut admin = server.connect();
    admin.run("SELECT leaf_tag_create('orders', step => 1000)");
    let mut ledger = Ledger::new();
    let mut client = server.connect();
    ledger.add(draw_many(&mut client, "orders", 2_500));
    admin.run(
        "BEGIN; ALTER TABLE leaf.alloc DISABLE TRIGGER ALL; UPDATE leaf.alloc SET max_id = max_id - 100;
         ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_check;
         ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_changed;
         ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_truncated; COMMIT",
    );
    client.run("SET leaf.wait_timeout = '1s'");
    let error = loop {
        match client.batch("orders", 100) {
            Ok(ids) => ledger.add(ids),
            refusal => break refused(refusal, "55P03"),
        }
    };
    let detail = error.detail().unwrap_or_default();
    assert!(detail.contains("below"), "{error:?}");
}
