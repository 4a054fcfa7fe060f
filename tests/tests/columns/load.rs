//! Adopting and releasing while sessions insert: no insert fails, no key comes twice.

use super::{World, insert};
use leaf_tests::{Draw, Server, refused, wait_until};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

/// Sessions insert, one row or several rows in a transaction, while `work` runs. Returns how
/// many rows they inserted.
fn under_load(server: &Server, work: impl FnOnce(&AtomicUsize)) -> usize {
    let stop = AtomicBool::new(false);
    let inserted = AtomicUsize::new(0);
    thread::scope(|scope| {
        for style in 0..6 {
            let (stop, inserted) = (&stop, &inserted);
            let mut clerk = server.connect_as("clerk", "postgres");
            scope.spawn(move || {
                let prepared = clerk
                    .prepare("INSERT INTO orders (n) VALUES ($1)")
                    .expect("a statement");
                while !stop.load(Ordering::Relaxed) {
                    match style % 3 {
                        0 => drop(clerk.execute(&prepared, &[&1]).expect("an insert")),
                        1 => clerk.run("INSERT INTO orders (n) VALUES (1), (2)"),
                        _ => {
                            clerk.run("BEGIN");
                            for _ in 0..3 {
                                clerk.execute(&prepared, &[&1]).expect("an insert");
                            }
                            clerk.run("COMMIT");
                        }
                    }
                    inserted.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        work(&inserted);
        stop.store(true, Ordering::Relaxed);
    });
    inserted.into_inner()
}

/// Waits until the sessions have inserted more.
fn more(inserted: &AtomicUsize) {
    let enough = inserted.load(Ordering::Relaxed) + 50;
    wait_until("rows are inserted", || {
        inserted.load(Ordering::Relaxed) >= enough
    });
}

fn adopt_and_release(table: &str) {
    let mut world = World::new();
    world.app.run(table);
    world.app.run(
        "GRANT INSERT ON orders TO clerk;
         DO $$ BEGIN
             IF pg_get_serial_sequence('orders', 'id') IS NOT NULL THEN
                 EXECUTE 'GRANT USAGE ON SEQUENCE orders_id_seq TO clerk';
             END IF;
         END $$",
    );
    let app = &mut world.app;
    under_load(&world.server, |inserted| {
        for kind in ["segment", "segment", "snowflake"] {
            more(inserted);
            app.run(&format!(
                "SELECT leaf_column_adopt('orders', 'id', kind => '{kind}')"
            ));
            more(inserted);
            if kind == "segment" {
                app.run("SELECT leaf_column_release('orders', 'id')");
            }
        }
    });
    let twice = "SELECT count(*) - count(DISTINCT id) FROM orders";
    assert_eq!(world.app.number(twice), 0);
}

#[test]
fn serial_changes_hands_under_load() {
    adopt_and_release("CREATE TABLE orders (id bigserial PRIMARY KEY, n int)");
}

#[test]
fn identity_changes_hands_under_load() {
    adopt_and_release(
        "CREATE TABLE orders (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int)",
    );
}

#[test]
fn partitioned_table_changes_hands_under_load() {
    adopt_and_release(
        "CREATE TABLE orders (id bigserial, n int, PRIMARY KEY (id)) PARTITION BY HASH (id);
         CREATE TABLE p0 PARTITION OF orders FOR VALUES WITH (MODULUS 2, REMAINDER 0);
         CREATE TABLE p1 PARTITION OF orders FOR VALUES WITH (MODULUS 2, REMAINDER 1)",
    );
}

#[test]
fn session_that_holds_the_sequence_is_no_victim() {
    let mut world = World::new();
    world.app.run(
        "CREATE TABLE orders (id bigserial PRIMARY KEY, n int);
         GRANT INSERT, SELECT ON orders TO clerk; GRANT USAGE ON SEQUENCE orders_id_seq TO clerk",
    );
    // It has the sequence, and needs the table later.
    world.clerk.run("BEGIN");
    let id = world.clerk.number("SELECT nextval('orders_id_seq')");
    let pid = world.app.number("SELECT pg_backend_pid()::bigint");
    thread::scope(|scope| {
        let app = &mut world.app;
        let adoption =
            scope.spawn(move || app.run("SELECT leaf_column_adopt('orders', 'id', 't')"));
        let observer = &mut world.admin;
        wait_until("the adoption waits for the sequence", || {
            observer.number(&format!(
                "SELECT count(*) FROM pg_locks WHERE pid = {pid} AND NOT granted"
            )) > 0
        });
        world
            .clerk
            .run(&format!("INSERT INTO orders (id) VALUES ({id}); COMMIT"));
        adoption.join().expect("the adoption goes on");
    });
    assert_eq!(insert(&mut world.clerk), id + 1);
}

#[test]
fn lock_timeout_is_honoured_and_leaves_nothing_behind() {
    let mut world = World::new();
    world.app.run(
        "CREATE TABLE orders (id bigserial PRIMARY KEY, n int); GRANT INSERT ON orders TO clerk;
         GRANT USAGE ON SEQUENCE orders_id_seq TO clerk",
    );
    world.clerk.run("BEGIN; INSERT INTO orders DEFAULT VALUES");
    world.app.run("SET lock_timeout = '300ms'");
    for call in ["adopt", "adopt"] {
        let call = format!("SELECT leaf_column_{call}('orders', 'id')");
        let error = refused(world.app.batch_execute(&call), "55P03");
        assert!(error.message().contains("orders"), "{error:?}");
    }
    // It gave up its place in the queue.
    world.clerk.run("INSERT INTO orders DEFAULT VALUES; COMMIT");
    refused(world.app.next("app.orders.id"), "42704");
    world.app.run("SELECT leaf_column_adopt('orders', 'id')");
    assert_eq!(insert(&mut world.app), 3);
    let held = "SELECT count(*) FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
                 WHERE c.relname LIKE 'orders%' AND l.mode = 'AccessExclusiveLock'";
    assert_eq!(world.admin.number(held), 0);
}

#[test]
fn sessions_get_ids_while_a_release_waits_for_them() {
    let mut world = World::new();
    world.app.run(
        "CREATE TABLE orders (id bigint, n int); GRANT INSERT ON orders TO clerk;
         SELECT leaf_column_adopt('orders', 'id')",
    );
    world.clerk.run("BEGIN; INSERT INTO orders DEFAULT VALUES");
    let pid = world.app.number("SELECT pg_backend_pid()::bigint");
    thread::scope(|scope| {
        let app = &mut world.app;
        let release = scope.spawn(move || app.run("SELECT leaf_column_release('orders', 'id')"));
        let observer = &mut world.admin;
        wait_until("the release waits for the table", || {
            observer.number(&format!(
                "SELECT count(*) FROM pg_locks WHERE pid = {pid} AND NOT granted"
            )) > 0
        });
        // More than there is in memory.
        world
            .clerk
            .run("INSERT INTO orders (n) SELECT generate_series(1, 20000); COMMIT");
        release.join().expect("the release goes on");
    });
    assert!(insert(&mut world.app) > 20_001);
}

#[test]
fn deadlock_over_two_tables_ends_the_adoption() {
    let mut world = World::new();
    world.app.run(
        "CREATE TABLE orders (id bigserial, n int); CREATE TABLE items (id bigserial, n int);
         GRANT INSERT ON orders, items TO clerk;
         GRANT USAGE ON SEQUENCE orders_id_seq, items_id_seq TO clerk",
    );
    world.clerk.run("BEGIN; INSERT INTO orders (n) VALUES (1)");
    world
        .app
        .run("BEGIN; SELECT leaf_column_adopt('items', 'id')");
    thread::scope(|scope| {
        let clerk = &mut world.clerk;
        let inserts = scope.spawn(move || clerk.run("INSERT INTO items (n) VALUES (1); COMMIT"));
        let observer = &mut world.admin;
        wait_until("the session waits for the other table", || {
            observer.number("SELECT count(*) FROM pg_locks WHERE NOT granted") > 0
        });
        refused(
            world
                .app
                .batch_execute("SELECT leaf_column_adopt('orders', 'id')"),
            "40P01",
        );
        world.app.run("ROLLBACK");
        inserts.join().expect("no insert fails");
    });
}
