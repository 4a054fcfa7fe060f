//! Making tags and dropping them: by deployments that race, by a first draw, under columns
//! that use them; and the last id of a session.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Server, draw_many, refused};
use std::sync::Barrier;
use std::thread;

/// A role that may create tags, and one that may not.
fn server() -> (Server, Client) {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run(
        "CREATE ROLE maker LOGIN; CREATE ROLE stranger LOGIN;
         GRANT EXECUTE ON FUNCTION leaf_tag_create TO maker",
    );
    (server, admin)
}

#[test]
fn racing_deployments_create_a_tag_once_and_all_succeed() {
    let (server, mut admin) = server();
    for round in 0..20 {
        let start = Barrier::new(4);
        let create = format!("SELECT leaf_tag_create('t{round}', if_not_exists => true)");
        thread::scope(|scope| {
            for _ in 0..4 {
                let deployer = server.connect_as("maker", "postgres");
                scope.spawn(|| {
                    let mut deployer = { deployer };
                    start.wait();
                    deployer.run(&create);
                    deployer.next(&format!("t{round}")).expect("an id");
                });
            }
        });
    }
    assert_eq!(admin.number("SELECT count(*) FROM leaf.alloc"), 20);
}

#[test]
fn tag_that_exists_is_left_as_it_is() {
    let (_server, mut admin) = server();
    admin.run("SELECT leaf_tag_create('orders', step => 7, description => 'first')");
    let row = "SELECT a::text FROM leaf.alloc AS a";
    let before = admin.text(row);
    admin.run("SELECT leaf_tag_create('orders', start => 500, if_not_exists => true)");
    assert_eq!(admin.text(row), before);
    refused(
        admin.batch_execute("SELECT leaf_tag_create('orders', if_not_exists => false)"),
        "42710",
    );
    refused(
        admin.batch_execute("SELECT leaf_tag_create('orders', if_not_exists => NULL)"),
        "22023",
    );
    // Wrong arguments are wrong also then.
    refused(
        admin.batch_execute("SELECT leaf_tag_create('orders', step => 0, if_not_exists => true)"),
        "22023",
    );
}

#[test]
fn tags_own_maximum_step_stands_for_the_setting() {
    let server = Server::options().set("leaf.max_step", "1000").start();
    let mut client = server.connect();
    client.run(
        "SELECT leaf_tag_create('small', step => 100, max_step => 300),
                leaf_tag_create('large', step => 100, max_step => 20000)",
    );
    for tag in ["small", "large"] {
        draw_many(&mut client, tag, 100_000);
    }
    assert_eq!(client.stat("small", "step"), 300);
    assert_eq!(client.stat("large", "step"), 20_000);
    client.run(
        "SELECT leaf_tag_alter('small', max_step => 500), leaf_tag_alter('large', max_step => 0)",
    );
    for tag in ["small", "large"] {
        draw_many(&mut client, tag, 100_000);
    }
    assert_eq!(client.stat("small", "step"), 500);
    assert_eq!(client.stat("large", "step"), 1_000);
    for call in [
        "leaf_tag_create('t', max_step => -1)",
        "leaf_tag_alter('small', max_step => -1)",
    ] {
        refused(client.batch_execute(&format!("SELECT {call}")), "22023");
    }
}

#[test]
fn tag_that_a_default_draws_from_is_dropped_only_by_force() {
    let (server, mut admin) = server();
    let mut maker = server.connect_as("maker", "postgres");
    maker.run("SELECT leaf_tag_create('orders'), leaf_tag_create('free')");
    admin.run(
        "CREATE DOMAIN order_id AS bigint DEFAULT leaf_segment_next('orders');
         CREATE TABLE a (id bigint DEFAULT leaf_segment_next('orders'), n int);
         CREATE TABLE b (id order_id)",
    );
    let error = refused(
        maker.batch_execute("SELECT leaf_tag_drop('orders')"),
        "2BP01",
    );
    let detail = error.detail().unwrap_or_default();
    assert!(
        detail.contains("a.id") && detail.contains("b.id"),
        "{detail}"
    );
    refused(
        maker.batch_execute("SELECT leaf_tag_drop('orders', force => NULL)"),
        "22023",
    );
    maker.next("orders").expect("the tag is still there");
    maker.run("SELECT leaf_tag_drop('free')");

    maker.run("BEGIN; SELECT leaf_tag_drop('orders', force => true); ROLLBACK");
    maker.next("orders").expect("the tag is still there");
    admin.run("ALTER TABLE a ALTER id DROP DEFAULT");
    refused(
        maker.batch_execute("SELECT leaf_tag_drop('orders')"),
        "2BP01",
    );
    admin.run("DROP TABLE b");
    maker.run("SELECT leaf_tag_drop('orders')");
    refused(maker.next("orders"), "42704");
}

#[test]
fn database_restored_without_its_tags_works() {
    let (server, mut admin) = server();
    admin.run(
        "SELECT leaf_tag_create('orders');
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'));
         INSERT INTO orders DEFAULT VALUES",
    );
    admin.run("CREATE DATABASE copy TEMPLATE template0");
    let dump = server
        .program("pg_dump")
        .args(["--schema-only", "postgres"])
        .output()
        .expect("pg_dump runs");
    assert!(dump.status.success());
    let mut copy = server.connect_as("postgres", "copy");
    let dump = String::from_utf8(dump.stdout).expect("UTF-8");
    // Commands of psql, which newer versions of pg_dump write.
    let statements: Vec<_> = dump
        .lines()
        .filter(|line| !line.starts_with('\\'))
        .collect();
    copy.run(&statements.join("\n"));
    copy.run("RESET ALL; TRUNCATE leaf.alloc; SELECT leaf_tag_align(create_missing => true)");
    assert_eq!(
        copy.number("INSERT INTO orders DEFAULT VALUES RETURNING id"),
        1
    );
}

/// The last id of `orders` in the session.
fn last(client: &mut Client) -> i64 {
    client.number("SELECT leaf_segment_last('orders')")
}

#[test]
fn last_id_is_that_of_the_session() {
    let (server, mut admin) = Server::with_orders(1000);
    let mut other = server.connect();
    refused(
        other.query("SELECT leaf_segment_last('orders')", &[]),
        "55000",
    );
    for _ in 0..3 {
        let id = admin.next("orders").expect("an id");
        other.next("orders").expect("an id");
        assert_eq!(last(&mut admin), id);
    }
    let id = admin.batch("orders", 5).expect("ids")[4];
    other.rows("orders", 3).expect("ids");
    assert_eq!(last(&mut admin), id);
    let ids = admin.rows("orders", 2500).expect("ids");
    assert_eq!(Some(&last(&mut admin)), ids.last());
    // Blocks are drawn by others.
    admin.reserve("orders", 10).expect("a block");
    assert_eq!(Some(&last(&mut admin)), ids.last());
    admin.run("BEGIN");
    let id = admin.next("orders").expect("an id");
    admin.run("ROLLBACK");
    assert_eq!(last(&mut admin), id);
    refused(
        admin.query("SELECT leaf_segment_last('others')", &[]),
        "42704",
    );
    refused(admin.query("SELECT leaf_segment_last('')", &[]), "22023");
}

#[test]
fn last_id_is_not_that_of_an_earlier_tag_of_the_name() {
    let (_server, mut admin) = Server::with_orders(1000);
    admin.next("orders").expect("an id");
    admin.run("SELECT leaf_tag_drop('orders'), leaf_tag_create('orders', start => 50)");
    let query = "SELECT leaf_segment_last('orders')";
    refused(admin.query(query, &[]), "55000");
    admin.next("orders").expect("an id");
    assert_eq!(last(&mut admin), 50);
    // In the transaction that created it.
    admin.run("BEGIN; SELECT leaf_tag_drop('orders'), leaf_tag_create('orders', start => 70)");
    admin.run("SAVEPOINT s");
    refused(admin.query(query, &[]), "55000");
    admin.run("ROLLBACK TO s");
    admin.batch("orders", 2).expect("ids");
    assert_eq!(last(&mut admin), 71);
    admin.run("ROLLBACK; SELECT leaf_segment_next('orders')");
    assert_eq!(last(&mut admin), 51);
}

#[test]
fn last_id_is_shown_only_to_roles_that_may_draw() {
    let (server, mut admin) = server();
    admin.run("SELECT leaf_tag_create('orders'); SELECT leaf_segment_next('orders')");
    admin.run("SET ROLE stranger");
    refused(
        admin.query("SELECT leaf_segment_last('orders')", &[]),
        "42501",
    );
    drop(server);
}

/// A mistyped number would stop all draws, or could not be taken back.
#[test]
fn a_maximum_below_what_is_granted_and_a_move_to_the_very_end_are_refused() {
    let (_server, mut client) = Server::with_orders(1000);
    client.next("orders").expect("an id");
    let granted = client.number("SELECT max_id - 1 FROM leaf.alloc");
    for mistake in [
        "SELECT leaf_tag_alter('orders', max_value => 5)".to_owned(),
        format!(
            "SELECT leaf_tag_alter('orders', max_value => {})",
            granted - 1
        ),
        format!("UPDATE leaf.alloc SET max_value = {}", granted - 1),
        "SELECT leaf_tag_alter('orders', advance_to => 9223372036854775806)".to_owned(),
        "SELECT leaf_tag_alter('orders', advance_to => 9999, max_value => 10000)".to_owned(),
        "SELECT leaf_tag_alter('orders', advance_to => 9500, step => 600, max_value => 10000)"
            .to_owned(),
    ] {
        refused(client.batch_execute(&mistake), "22023");
    }
    assert_eq!(client.next("orders").expect("an id"), 2);
    client.run("SELECT leaf_tag_alter('orders', advance_to => 9001, max_value => 10000)");
    assert_eq!(client.next("orders").expect("an id"), 9001);
    // To grant no more, and for a tag that never had as many as a step.
    client.run("UPDATE leaf.alloc SET max_value = max_id - 1");
    client.run("SELECT leaf_tag_create('small', max_value => 10); SELECT leaf_tag_alter('small', advance_to => 7)");
    assert_eq!(client.next("small").expect("an id"), 7);
}

#[test]
fn plain_sql_deletes_no_tag_that_a_default_draws_from() {
    let (_server, mut client) = Server::with_orders(1000);
    client.run(
        "CREATE TABLE orders (id bigint DEFAULT leaf_segment_next('orders'));
         SELECT leaf_tag_create('other')",
    );
    client.fails("DELETE FROM leaf.alloc", "2BP01");
    client.fails("DELETE FROM leaf.alloc WHERE biz_tag = 'orders'", "2BP01");
    client.run("DELETE FROM leaf.alloc WHERE biz_tag = 'other'; INSERT INTO orders DEFAULT VALUES");
    client.run("BEGIN; SELECT leaf_tag_drop('orders', force => true); ROLLBACK");
    client.run("BEGIN; DROP TABLE orders; DELETE FROM leaf.alloc; ROLLBACK");
    // What was decided elsewhere is followed.
    client.run("SET session_replication_role = replica; DELETE FROM leaf.alloc");
}
