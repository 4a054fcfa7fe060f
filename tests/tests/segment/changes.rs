//! Changes to tags take effect at commit, at once and everywhere; what was drawn
//! before never comes back.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Server, draw_many, refused, wait_until};

/// A server with the tag `orders` from which `warm` has drawn already.
pub fn warm() -> (Server, Client, Client) {
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
