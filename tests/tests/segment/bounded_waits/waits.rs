//! What callers wait for: locks, a loader, a grant that fails. The wait is bounded,
//! the error names the cause, and there are ids again once the cause is gone.

use leaf_tests::postgres::Client;
use leaf_tests::postgres::error::DbError;
use leaf_tests::{Draw, Ledger, Server, draw_many, refused, wait_until};
use std::thread;

/// A server with the tag `orders` and a session that waits at most a second.
pub fn impatient() -> (Server, Client) {
    let (server, mut client) = Server::with_orders(1000);
    client.run("SET leaf.wait_timeout = '1s'");
    (server, client)
}

/// Draws until a call fails, which must be because no refill came.
fn drain(client: &mut Client, ledger: &mut Ledger) -> DbError {
    for _ in 0..1_000 {
        match client.batch("orders", 100) {
            Ok(ids) => ledger.add(ids),
            refusal => return refused(refusal, "55P03"),
        }
    }
    panic!("the buffers never run dry")
}

#[test]
fn locked_row_of_one_tag_stalls_no_other() {
    let (server, mut client) = impatient();
    client.run("SELECT leaf_tag_create('other')");
    let mut holder = server.connect();
    holder.run("BEGIN; SELECT * FROM leaf.alloc WHERE biz_tag = 'other' FOR UPDATE");
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut client, "orders", 100_000));
    assert_eq!(client.stat("orders", "timeouts"), 0);
    refused(client.next("other"), "55P03");
    // One tag that cannot be refilled must not hold up a load that is due with it.
    ledger.add(draw_many(&mut client, "orders", 100_000));
    holder.run("COMMIT");
    client.next("other").expect("an id");
}

#[test]
fn locked_row_stalls_its_own_tag_only_when_the_buffers_are_empty() {
    let (server, mut client) = impatient();
    let mut ledger = Ledger::new();
    ledger.add([client.next("orders").expect("an id")]);
    let mut holder = server.connect();
    holder.run("BEGIN; SELECT * FROM leaf.alloc WHERE biz_tag = 'orders' FOR UPDATE");
    let left = client.stat("orders", "current_left") + client.stat("orders", "next_left");
    assert!(left > 0);
    ledger.add(client.batch("orders", left as i32).expect("what is there"));
    let error = drain(&mut client, &mut ledger);
    assert!(
        error.detail().is_some_and(|text| !text.is_empty()),
        "{error:?}"
    );
    assert!(client.stat("orders", "timeouts") >= 1);
    holder.run("ROLLBACK");
    ledger.add(draw_many(&mut client, "orders", 5_000));
}

#[test]
fn locked_table_gives_a_bounded_wait_with_its_cause() {
    let (server, mut client) = impatient();
    let mut ledger = Ledger::new();
    ledger.add([client.next("orders").expect("an id")]);
    let mut holder = server.connect();
    holder.run("BEGIN; LOCK TABLE leaf.alloc IN ACCESS EXCLUSIVE MODE");
    let error = drain(&mut client, &mut ledger);
    assert!(
        error.detail().is_some_and(|text| text.contains("lock")),
        "{error:?}"
    );
    holder.run("ROLLBACK");
    ledger.add(draw_many(&mut client, "orders", 5_000));
}

#[test]
fn reserve_on_a_locked_row_gives_a_bounded_wait() {
    let (server, mut client) = impatient();
    let mut ledger = Ledger::new();
    let mut holder = server.connect();
    holder.run("BEGIN; SELECT * FROM leaf.alloc WHERE biz_tag = 'orders' FOR UPDATE");
    refused(client.reserve("orders", 10), "55P03");
    holder.run("ROLLBACK");
    ledger.add(client.reserve("orders", 10).expect("a block").ids());
    ledger.add(draw_many(&mut client, "orders", 3_000));
}

#[test]
fn no_worker_slot_is_an_error_of_its_own_and_passes() {
    let server = Server::options()
        .set("max_worker_processes", "1")
        .set("max_logical_replication_workers", "0")
        .set("leaf.loader_idle_timeout", "1h")
        .start();
    server.connect().run("CREATE DATABASE second");
    let mut first = server.connect();
    let mut second = server.connect_as("postgres", "second");
    second.run("CREATE EXTENSION leaf");
    for client in [&mut first, &mut second] {
        client.run("SELECT leaf_tag_create('orders'); SET leaf.wait_timeout = '1s'");
    }
    // The only slot goes to the first database's loader.
    first.next("orders").expect("an id");
    assert_eq!(server.loaders("postgres").len(), 1);
    refused(second.next("orders"), "53400");

    let loader = server.loaders("postgres")[0];
    first.run(&format!("SELECT pg_terminate_backend({loader})"));
    wait_until("the slot is free", || server.loaders("postgres").is_empty());
    second.run("SET leaf.wait_timeout = '30s'");
    second.next("orders").expect("an id, without a restart");
}

#[test]
fn failing_grant_names_its_cause_and_recovers() {
    let (_server, mut client) = impatient();
    client.run("SELECT leaf_tag_create('other')");
    let mut ledger = Ledger::new();
    ledger.add([client.next("orders").expect("an id")]);
    client.run(
        "ALTER TABLE leaf.alloc ADD CONSTRAINT broken_by_test
         CHECK (biz_tag <> 'orders' OR max_id < 0) NOT VALID",
    );
    let error = drain(&mut client, &mut ledger);
    assert!(
        error
            .detail()
            .is_some_and(|text| text.contains("broken_by_test")),
        "{error:?}"
    );
    let seen = client.text("SELECT last_error FROM leaf.stat_segment WHERE biz_tag = 'orders'");
    assert!(seen.contains("broken_by_test"), "{seen}");
    // One bad row stalls nobody else.
    draw_many(&mut client, "other", 20_000);

    client.run("ALTER TABLE leaf.alloc DROP CONSTRAINT broken_by_test");
    client.run("SET leaf.wait_timeout = '30s'");
    ledger.add(draw_many(&mut client, "orders", 5_000));
}

#[test]
fn failing_first_load_leaves_nothing_half_made() {
    let (_server, mut client) = impatient();
    client
        .run("ALTER TABLE leaf.alloc ADD CONSTRAINT broken_by_test CHECK (max_id <= 1) NOT VALID");
    for _ in 0..3 {
        refused(client.next("orders"), "55P03");
        refused(client.reserve("orders", 5), "55P03");
    }
    client.run("ALTER TABLE leaf.alloc DROP CONSTRAINT broken_by_test");
    client.run("SET leaf.wait_timeout = '30s'");
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut client, "orders", 5_000));
    ledger.add(client.reserve("orders", 5).expect("a block").ids());
}

#[test]
fn locked_table_gives_a_new_session_a_bounded_wait() {
    let (server, mut client) = impatient();
    client.next("orders").expect("an id");
    let mut holder = server.connect();
    holder.run("BEGIN; LOCK TABLE leaf.alloc IN ACCESS EXCLUSIVE MODE");
    let mut new = server.connect();
    // Who is not told by leaf is cancelled by this.
    new.run("SET leaf.wait_timeout = '1s'; SET statement_timeout = '20s'");
    let error = refused(new.next("orders"), "55P03");
    assert!(
        error.detail().is_some_and(|text| text.contains("lock")),
        "{error:?}"
    );
    refused(new.batch("orders", 5), "55P03");
    let alter = "SELECT leaf_tag_alter('orders', step => 5)";
    refused(new.batch_execute(alter), "55P03");
    let create = "SELECT leaf_tag_create('other')";
    refused(new.batch_execute(create), "55P03");
    holder.run("ROLLBACK");
    new.next("orders").expect("an id");
    new.run(alter);
    new.run(create);
}

#[test]
fn index_made_anew_while_a_session_waits_serves_it() {
    let (server, mut admin) = Server::with_orders(1000);
    admin.run(
        "BEGIN;
         ALTER TABLE leaf.alloc DROP CONSTRAINT alloc_pkey;
         ALTER TABLE leaf.alloc ADD CONSTRAINT alloc_pkey PRIMARY KEY (biz_tag)",
    );
    thread::scope(|scope| {
        let mut client = server.connect();
        client.run("SET leaf.wait_timeout = '30s'");
        let session = scope.spawn(move || client.next("orders"));
        wait_until("the session waits", || {
            admin.number(
                "SELECT count(*) FROM pg_stat_activity
                  WHERE wait_event_type = 'Extension' AND backend_type = 'client backend'",
            ) == 1
        });
        admin.run("COMMIT");
        session.join().expect("a session").expect("an id");
    });
}

#[test]
fn locked_table_gives_reserve_a_bounded_wait() {
    let (server, mut client) = impatient();
    client.run("SET statement_timeout = '20s'");
    let mut holder = server.connect();
    holder.run("BEGIN; LOCK TABLE leaf.alloc IN ACCESS EXCLUSIVE MODE");
    refused(client.reserve("orders", 5), "55P03");
    holder.run("ROLLBACK");
    client.reserve("orders", 5).expect("a block");
}

#[test]
fn locked_row_is_passed_over_and_named() {
    let (server, mut client) = impatient();
    let mut holder = server.connect();
    holder.run("BEGIN; SELECT * FROM leaf.alloc WHERE biz_tag = 'orders' FOR UPDATE");
    for refusal in [
        client.next("orders").map(|_| ()),
        client.reserve("orders", 10).map(|_| ()),
    ] {
        // Not by a lock timeout: the loader never stands in line for a row.
        let error = refused(refusal, "55P03");
        let detail = error.detail().unwrap_or_default();
        assert!(
            detail.contains("locked by another transaction"),
            "{error:?}"
        );
    }
    holder.run("ROLLBACK");
}

#[test]
fn locked_catalog_gives_every_call_a_bounded_wait() {
    let (server, mut admin) = Server::with_orders(1000);
    for lock in [
        "LOCK TABLE leaf.alloc IN ACCESS EXCLUSIVE MODE",
        "REINDEX INDEX leaf.alloc_pkey",
    ] {
        admin.run(&format!("BEGIN; {lock}"));
        let mut client = server.connect();
        client.run("SET leaf.wait_timeout = '200ms'; SET statement_timeout = '60s'");
        for error in [
            refused(client.next("orders"), "55P03"),
            refused(client.batch("orders", 3).map(drop), "55P03"),
            refused(client.reserve("orders", 3).map(drop), "55P03"),
        ] {
            assert!(
                error
                    .detail()
                    .is_some_and(|detail| detail.contains("leaf.alloc")),
                "{error:?}"
            );
        }
        admin.run("ROLLBACK");
        client.run("SET leaf.wait_timeout = '20s'");
        client.next("orders").expect("an id once the lock is gone");
    }
}

/// The row is locked by this transaction itself, so waiting would not help.
#[test]
fn draw_after_a_change_of_the_step_alone_fails_at_once_when_ids_run_out() {
    let (_server, mut client) = Server::with_orders(10);
    client.run("SET leaf.wait_timeout = '10min'; SET statement_timeout = '30s'");
    for change in [
        "SELECT leaf_tag_alter('orders', step => 20)",
        "SELECT leaf_tag_alter('orders', description => 'x')",
        "UPDATE leaf.alloc SET step = 30",
    ] {
        client.next("orders").expect("an id");
        client.run(&format!("BEGIN; {change}"));
        let error = loop {
            if let Err(error) = client.next("orders") {
                break error;
            }
        };
        let error = refused::<()>(Err(error), "55P03");
        assert!(
            error.message().contains("before this transaction ends"),
            "{error:?}"
        );
        client.run("ROLLBACK");
    }
}
