//! Changes to tags take effect at commit, at once and everywhere; what was drawn
//! before never comes back.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Server, draw_many, refused, wait_until};

/// A server with the tag `orders` from which `warm` has drawn already.
fn warm() -> (Server, Client, Client) {
    let (server, admin) = Server::with_orders(1000);
    let mut warm = server.connect();
    warm.next("orders").expect("an id");
    (server, admin, warm)
}

#[test]
fn created_tag_is_usable_at_once_by_all() {
    let (server, mut admin, mut warm) = warm();
    refused(warm.next("fresh"), "42704");
    admin.run("SELECT leaf_tag_create('fresh', start => 42)");
    assert_eq!(warm.next("fresh").expect("an id"), 42);
    assert_eq!(admin.next("fresh").expect("an id"), 43);
    assert_eq!(server.connect().next("fresh").expect("an id"), 44);
}

#[test]
fn advance_takes_effect_at_commit() {
    let (_server, mut admin, mut warm) = warm();
    admin.run("BEGIN; SELECT leaf_tag_alter('orders', advance_to => 1000000)");
    assert!(warm.next("orders").expect("an id") < 1_000_000);
    admin.run("COMMIT");
    assert_eq!(warm.next("orders").expect("an id"), 1_000_000);
    assert_eq!(admin.next("orders").expect("an id"), 1_000_001);
}

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
fn plain_sql_takes_effect_at_commit() {
    let (_server, mut admin, mut warm) = warm();
    admin.run("UPDATE leaf.alloc SET max_id = 2000000 WHERE biz_tag = 'orders'");
    assert_eq!(warm.next("orders").expect("an id"), 2_000_000);

    admin.run("INSERT INTO leaf.alloc (biz_tag, max_id, step) VALUES ('plain', 7, 10)");
    assert_eq!(warm.next("plain").expect("an id"), 7);

    admin.run("DELETE FROM leaf.alloc WHERE biz_tag = 'plain'");
    refused(warm.next("plain"), "42704");

    admin.run("TRUNCATE leaf.alloc");
    refused(warm.next("orders"), "42704");
}

#[test]
fn merge_and_upsert_take_effect_at_commit() {
    let (_server, mut admin, mut warm) = warm();
    admin.run(
        "INSERT INTO leaf.alloc (biz_tag, max_id, step) VALUES ('orders', 1, 10)
         ON CONFLICT (biz_tag) DO UPDATE SET max_id = 3000000",
    );
    assert_eq!(warm.next("orders").expect("an id"), 3_000_000);
    admin.run(
        "MERGE INTO leaf.alloc USING (VALUES ('orders')) AS v (tag) ON biz_tag = v.tag
          WHEN MATCHED THEN DELETE",
    );
    refused(warm.next("orders"), "42704");
}

#[test]
fn another_name_is_refused_and_the_same_one_is_none() {
    let (_server, mut admin, mut warm) = warm();
    let first = warm.next("orders").expect("an id");
    for session in ["", "SET session_replication_role = replica;"] {
        let rename = format!("{session} UPDATE leaf.alloc SET biz_tag = 'renamed'");
        refused(admin.batch_execute(&rename), "22023");
        admin.run("RESET session_replication_role");
        admin.run("UPDATE leaf.alloc SET biz_tag = 'orders', description = 'the same'");
    }
    refused(warm.next("renamed"), "42704");
    assert_eq!(warm.next("orders").expect("an id"), first + 1);
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
fn tag_advanced_in_the_transaction_that_created_it_stays_there() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("BEGIN; SELECT leaf_tag_create('own')");
    assert_eq!(client.next("own").expect("an id"), 1);
    client.run("SELECT leaf_tag_alter('own', advance_to => 5000000); COMMIT");
    assert_eq!(client.next("own").expect("an id"), 5_000_000);
}

#[test]
fn rows_exported_from_leaf_load_as_they_are() {
    let (_server, mut admin, mut warm) = warm();
    use std::io::Write;
    let mut copy = admin
        .copy_in("COPY leaf.alloc (biz_tag, max_id, step, description, update_time) FROM STDIN")
        .expect("COPY");
    copy.write_all(
        b"leaf-segment-test\t2001\t2000\tTest leaf Segment Mode Get Id\t2019-02-27 18:01:02\n",
    )
    .expect("a row");
    copy.finish().expect("the end");
    let ids = warm.batch("leaf-segment-test", 3).expect("ids");
    assert_eq!(ids, [2001, 2002, 2003]);
}

#[test]
fn same_tag_in_two_databases_is_two_tags() {
    let (server, mut admin, mut warm) = warm();
    admin.run("CREATE DATABASE second");
    let mut second = server.connect_as("postgres", "second");
    second.run("CREATE EXTENSION leaf");
    refused(second.next("orders"), "42704");
    second.run("SELECT leaf_tag_create('orders', start => 9000000)");
    let (mut here, mut there) = (Ledger::new(), Ledger::new());
    for _ in 0..20 {
        here.add(draw_many(&mut warm, "orders", 300));
        there.add(draw_many(&mut second, "orders", 300));
    }
    assert_eq!(there.highest(), 9_000_000 + 20 * 300 - 1);
    assert_eq!(here.highest(), 1 + 20 * 300);
    second.run("SELECT leaf_tag_drop('orders')");
    refused(second.next("orders"), "42704");
    here.add(draw_many(&mut warm, "orders", 300));
}

#[test]
fn tag_created_again_starts_where_its_creator_says() {
    let (_server, mut admin, mut warm) = warm();
    admin.run("SELECT leaf_tag_drop('orders')");
    refused(warm.next("orders"), "42704");
    admin.run("SELECT leaf_tag_create('orders', start => 1)");
    assert_eq!(warm.next("orders").expect("an id"), 1);
    // The same within one transaction, and by plain SQL.
    admin.run(
        "BEGIN; SELECT leaf_tag_drop('orders');
         SELECT leaf_tag_create('orders', start => 77); COMMIT",
    );
    assert_eq!(warm.next("orders").expect("an id"), 77);
    admin.run(
        "BEGIN; DELETE FROM leaf.alloc;
         INSERT INTO leaf.alloc (biz_tag, max_id, step) VALUES ('orders', 55, 10); COMMIT",
    );
    assert_eq!(warm.next("orders").expect("an id"), 55);
}

#[test]
fn extension_created_again_knows_nothing_of_the_old() {
    let (_server, mut admin, mut warm) = warm();
    admin.run("SELECT leaf_segment_next('orders'); DROP EXTENSION leaf");
    let gone = warm.next("orders").expect_err("there is no such function");
    assert!(gone.as_db_error().is_some(), "{gone:?}");
    admin.run("CREATE EXTENSION leaf");
    refused(warm.next("orders"), "42704");
    admin.run("SELECT leaf_tag_create('orders', start => 5)");
    assert_eq!(warm.next("orders").expect("an id"), 5);
    assert_eq!(admin.next("orders").expect("an id"), 6);
}

#[test]
fn raised_step_acts_on_the_next_load() {
    let (_server, mut admin, mut warm) = warm();
    admin.run("SELECT leaf_tag_alter('orders', step => 50000)");
    let loads = admin.stat("orders", "loads");
    wait_until("the next load is there", || {
        warm.batch("orders", 100).expect("ids");
        admin.stat("orders", "loads") > loads
    });
    assert!(admin.stat("orders", "step") >= 50_000);
}

#[test]
fn raised_maximum_ends_exhaustion() {
    let (_server, mut admin, mut warm) = warm();
    admin.run("SELECT leaf_tag_create('small', max_value => 5)");
    assert_eq!(warm.batch("small", 5).expect("ids"), [1, 2, 3, 4, 5]);
    refused(warm.next("small"), "2200H");
    admin.run("SELECT leaf_tag_alter('small', max_value => 8)");
    assert_eq!(warm.batch("small", 3).expect("ids"), [6, 7, 8]);
    refused(warm.next("small"), "2200H");
    admin.run("UPDATE leaf.alloc SET max_value = 9 WHERE biz_tag = 'small'");
    assert_eq!(warm.next("small").expect("an id"), 9);
}

#[test]
fn lowered_maximum_holds_from_commit_on() {
    let (_server, mut admin, mut warm) = warm();
    let last = warm.next("orders").expect("an id");
    admin.run(&format!(
        "SELECT leaf_tag_alter('orders', max_value => {})",
        last + 1_000_000
    ));
    // Only a replica's change goes below what is granted.
    admin.run(&format!(
        "SET session_replication_role = replica;
         UPDATE leaf.alloc SET max_value = {}; RESET session_replication_role",
        last + 1
    ));
    for _ in 0..1_000 {
        match warm.next("orders") {
            Ok(id) => assert!(id <= last + 1, "{id} is above the maximum of {}", last + 1),
            refusal => {
                refused(refusal, "2200H");
                return;
            }
        }
    }
    panic!("the maximum is never reached");
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
