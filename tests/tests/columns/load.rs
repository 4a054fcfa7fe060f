//! Adopting and releasing while sessions insert: no insert fails, no key comes twice.

use super::{World, insert};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Server, Snowflake, refused, wait_until};
use std::io::Write;
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
fn hundred_thousand_concurrent_inserts_repeat_no_id_in_both_directions() {
    let mut world = World::new();
    world.app.run(
        "CREATE TABLE orders (id bigserial, n int) PARTITION BY HASH (n);
         CREATE TABLE p0 PARTITION OF orders FOR VALUES WITH (MODULUS 2, REMAINDER 0);
         CREATE TABLE p1 PARTITION OF orders FOR VALUES WITH (MODULUS 2, REMAINDER 1);
         ALTER SEQUENCE orders_id_seq CACHE 20;
         GRANT INSERT ON orders TO clerk; GRANT USAGE ON SEQUENCE orders_id_seq TO clerk",
    );
    let rows = AtomicUsize::new(0);
    let is_enough = || rows.load(Ordering::Relaxed) >= 100_000;
    thread::scope(|scope| {
        for _ in 0..8 {
            let mut clerk = world.server.connect_as("clerk", "postgres");
            let (rows, is_enough) = (&rows, &is_enough);
            scope.spawn(move || {
                while !is_enough() {
                    clerk.run("INSERT INTO orders (n) SELECT generate_series(1, 25)");
                    rows.fetch_add(25, Ordering::Relaxed);
                }
            });
        }
        while !is_enough() {
            world.app.run("SELECT leaf_column_adopt('orders', 'id')");
            world.app.run("SELECT leaf_column_release('orders', 'id')");
        }
    });
    let twice = "SELECT count(*) - count(DISTINCT id) FROM orders";
    assert_eq!(world.app.number(twice), 0);
}

/// Each of these is waited for alone, with nothing locked.
#[test]
fn writers_pass_while_the_holders_of_four_partitions_end_one_after_the_other() {
    let mut world = World::new();
    world.app.run(
        "CREATE TABLE orders (id bigserial, n int) PARTITION BY LIST (n);
         CREATE TABLE p1 PARTITION OF orders FOR VALUES IN (1);
         CREATE TABLE p2 PARTITION OF orders FOR VALUES IN (2);
         CREATE TABLE p3 PARTITION OF orders FOR VALUES IN (3);
         CREATE TABLE p4 PARTITION OF orders FOR VALUES IN (4);
         GRANT SELECT, INSERT ON orders, p1, p2, p3, p4 TO clerk; GRANT USAGE ON SEQUENCE orders_id_seq TO clerk",
    );
    let mut holders: Vec<_> = (1..=4)
        .map(|n| {
            let mut holder = world.server.connect_as("clerk", "postgres");
            holder.run(&format!("BEGIN; SELECT FROM p{n}"));
            holder
        })
        .collect();
    // Longer than a try, shorter than two.
    world.clerk.run("SET lock_timeout = '3s'");
    let pid = world.app.number("SELECT pg_backend_pid()::bigint");
    thread::scope(|scope| {
        let app = &mut world.app;
        let adoption =
            scope.spawn(move || app.run("SELECT leaf_column_adopt('orders', 'id', 't')"));
        for (held, mut holder) in (1..=4).zip(holders.drain(..)) {
            let observer = &mut world.admin;
            wait_until("the adoption waits for a partition, or has it", || {
                observer.number(&format!(
                    "SELECT count(*) FROM pg_locks WHERE pid = {pid} AND NOT granted AND relation = 'app.p{held}'::regclass"
                )) > 0
            });
            for n in 1..=4 {
                world
                    .clerk
                    .run(&format!("INSERT INTO orders (n) VALUES ({n})"));
            }
            holder.run("COMMIT");
        }
        adoption.join().expect("it is adopted");
    });
    assert_eq!(
        world
            .clerk
            .number("INSERT INTO orders (n) VALUES (1) RETURNING id"),
        17
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
fn error_names_what_could_not_be_locked() {
    let mut world = World::new();
    world.app.run(
        "CREATE TABLE orders (id bigserial PRIMARY KEY, n int);
         GRANT USAGE ON SEQUENCE orders_id_seq TO clerk; CREATE TABLE released (id bigint);
         SELECT leaf_column_adopt('released', 'id', 'r'); SET lock_timeout = '300ms'",
    );
    let mut other = world.server.connect_as("app", "postgres");
    let mut named = |other: &mut Client, lock: &str, name: &str| {
        other.run(&format!("BEGIN; {lock}"));
        let call = match lock.contains("alter") {
            true => "SELECT leaf_column_release('released', 'id')",
            false => "SELECT leaf_column_adopt('orders', 'id', 't')",
        };
        let error = refused(world.app.batch_execute(call), "55P03");
        let said = format!("{name} could not be locked within lock_timeout");
        assert_eq!(error.message(), said);
        other.run("ROLLBACK");
    };
    named(&mut other, "SELECT FROM orders", "table app.orders");
    let sequence = "sequence app.orders_id_seq";
    named(
        &mut world.clerk,
        "SELECT nextval('orders_id_seq')",
        sequence,
    );
    let alter = "SELECT leaf_tag_alter('r', description => 'altered')";
    named(&mut other, alter, "table leaf.alloc");
}

/// A new tag is made before the table is locked.
#[test]
fn tag_of_another_transaction_is_waited_for_without_the_table() {
    let mut world = World::new();
    world.app.run(
        "CREATE TABLE orders (id bigserial PRIMARY KEY, n int); GRANT INSERT, SELECT ON orders TO clerk;
         GRANT USAGE ON SEQUENCE orders_id_seq TO clerk; SET lock_timeout = '300ms'",
    );
    let mut other = world.server.connect_as("app", "postgres");
    other.run("BEGIN; SELECT leaf_tag_create('t')");
    let adopt = "SELECT leaf_column_adopt('orders', 'id', 't')";
    world.app.fails(adopt, "55P03");
    world.app.run("SET lock_timeout = 0");
    let pid = world.app.number("SELECT pg_backend_pid()::bigint");
    thread::scope(|scope| {
        let app = &mut world.app;
        let calling = scope.spawn(move || app.run(adopt));
        let observer = &mut world.admin;
        wait_until("the call waits for the tag", || {
            observer.number(&format!(
                "SELECT count(*) FROM pg_locks WHERE pid = {pid} AND NOT granted"
            )) > 0
        });
        assert_eq!(insert(&mut world.clerk), 1);
        other.run("ROLLBACK");
        calling.join().expect("the call goes on");
    });
    assert_eq!(insert(&mut world.clerk), 2);
}

#[test]
fn table_is_not_held_while_leaf_waits_for_its_own() {
    let mut world = World::new();
    world.app.run(
        "CREATE TABLE orders (id bigserial PRIMARY KEY, n int); GRANT INSERT, SELECT ON orders TO clerk;
         SELECT leaf_column_adopt('orders', 'id'); SET leaf.wait_timeout = '10min'",
    );
    let pid = world.app.number("SELECT pg_backend_pid()::bigint");
    let mut locker = world.server.connect();
    world.clerk.run("BEGIN; SELECT FROM orders");
    thread::scope(|scope| {
        let app = &mut world.app;
        let calling = scope.spawn(move || app.run("SELECT leaf_column_release('orders', 'id')"));
        let observer = &mut world.admin;
        wait_until("the call waits for the table", || {
            observer.number(&format!(
                "SELECT count(*) FROM pg_locks WHERE pid = {pid} AND NOT granted"
            )) > 0
        });
        locker.run("BEGIN; LOCK leaf.alloc");
        world.clerk.run("COMMIT");
        world
            .clerk
            .run("SET statement_timeout = '20s'; INSERT INTO orders VALUES (2000, 1)");
        locker.run("COMMIT");
        calling.join().expect("the call goes on");
    });
    assert!(insert(&mut world.app) > 2000);
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

/// Ways to insert. Each is called again and again.
const STYLES: [fn(&mut Client); 9] = [
    |clerk| {
        let mut rows = clerk.copy_in("COPY orders (n) FROM STDIN").expect("COPY");
        rows.write_all(b"1\n2\n3\n").expect("rows");
        rows.finish().expect("COPY");
    },
    |clerk| clerk.run("INSERT INTO orders (n) SELECT generate_series(1, 50)"),
    |clerk| {
        clerk.number("INSERT INTO orders (n) VALUES (1) ON CONFLICT DO NOTHING RETURNING id");
    },
    // Its plan is kept by the session.
    |clerk| clerk.run("SELECT insert_one()"),
    |clerk| {
        clerk.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
        clerk.run("INSERT INTO orders (n) VALUES (1); INSERT INTO orders (n) VALUES (2); COMMIT");
    },
    |clerk| {
        clerk.run("BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT INTO orders (n) VALUES (1); COMMIT");
    },
    |clerk| clerk.run("INSERT INTO orders_view VALUES (1)"),
    |clerk| clerk.run("INSERT INTO p1 (n) VALUES (1)"),
    // As some ORMs do. While the sequence is fenced, it says so.
    |clerk| {
        let drawn = clerk.query_one("SELECT nextval('orders_id_seq')", &[]);
        match drawn.map(|row| row.get::<_, i64>(0)) {
            Ok(id) => clerk.run(&format!("INSERT INTO orders VALUES ({id}, 1)")),
            Err(error) => assert_eq!(error.code().expect("a code").code(), "2200H"),
        }
    },
];

#[test]
fn no_style_of_insert_fails_or_repeats_a_key() {
    let mut world = World::new();
    world.app.run(
        "CREATE TABLE orders (id bigserial, n int, PRIMARY KEY (id, n)) PARTITION BY RANGE (n);
         CREATE TABLE p1 PARTITION OF orders FOR VALUES FROM (0) TO (10);
         CREATE TABLE p2 PARTITION OF orders FOR VALUES FROM (10) TO (100);
         ALTER SEQUENCE orders_id_seq CACHE 50;
         CREATE VIEW orders_view AS SELECT n FROM orders;
         CREATE FUNCTION insert_one() RETURNS void LANGUAGE plpgsql AS $$
             BEGIN INSERT INTO orders (n) VALUES (20); END $$;
         GRANT INSERT, SELECT ON orders, p1, orders_view TO clerk;
         GRANT USAGE ON SEQUENCE orders_id_seq TO clerk",
    );
    let stop = AtomicBool::new(false);
    let inserted = AtomicUsize::new(0);
    thread::scope(|scope| {
        for style in STYLES {
            let mut clerk = world.server.connect_as("clerk", "postgres");
            let (stop, inserted) = (&stop, &inserted);
            scope.spawn(move || {
                clerk.run("SET plan_cache_mode = force_generic_plan");
                while !stop.load(Ordering::Relaxed) {
                    style(&mut clerk);
                    inserted.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for kind in ["segment", "snowflake", "segment"] {
            more(&inserted);
            let adopt = format!("SELECT leaf_column_adopt('orders', 'id', kind => '{kind}')");
            world.app.run(&adopt);
            more(&inserted);
            world.app.run("SELECT leaf_column_release('orders', 'id')");
        }
        more(&inserted);
        stop.store(true, Ordering::Relaxed);
    });
    let twice = "SELECT count(*) - count(DISTINCT id) FROM orders";
    assert_eq!(world.app.number(twice), 0);
}

/// Lets `clerk` do something in its transaction, and commit, while the adoption of `orders`
/// waits for it.
fn while_adoption_waits(world: &mut World, last: impl FnOnce(&mut Client)) {
    let pid = world.app.number("SELECT pg_backend_pid()::bigint");
    thread::scope(|scope| {
        let app = &mut world.app;
        let adoption = scope.spawn(move || app.run("SELECT leaf_column_adopt('orders', 'id')"));
        let observer = &mut world.admin;
        wait_until("the adoption waits for a lock", || {
            observer.number(&format!(
                "SELECT count(*) FROM pg_locks WHERE pid = {pid} AND NOT granted"
            )) > 0
        });
        last(&mut world.clerk);
        adoption.join().expect("the adoption goes on");
    });
}

#[test]
fn number_that_is_handed_out_at_the_last_moment_counts() {
    let mut world = World::new();
    world.app.run(
        "CREATE TABLE orders (id bigserial PRIMARY KEY, n int);
         GRANT USAGE ON SEQUENCE orders_id_seq TO clerk",
    );
    world.clerk.run("BEGIN; SELECT nextval('orders_id_seq')");
    let mut id = 0;
    while_adoption_waits(&mut world, |clerk| {
        id = clerk.number("SELECT nextval('orders_id_seq')");
        clerk.run("COMMIT");
    });
    assert_eq!(insert(&mut world.app), id + 1);
}

#[test]
fn row_that_comes_into_a_partition_at_the_last_moment_counts() {
    let mut world = World::new();
    world.app.run(
        "CREATE TABLE orders (id bigint, n int DEFAULT 1) PARTITION BY LIST (n);
         CREATE TABLE p1 PARTITION OF orders FOR VALUES IN (1); GRANT INSERT ON p1 TO clerk",
    );
    // Its session knows what the partition accepts, and does not lock the table any more.
    world.clerk.run("INSERT INTO p1 VALUES (1, 1)");
    world.clerk.run("BEGIN; INSERT INTO p1 VALUES (500, 1)");
    while_adoption_waits(&mut world, |clerk| clerk.run("COMMIT"));
    assert_eq!(insert(&mut world.app), 501);
}

/// A request that ends sooner than these transactions never outlasts one.
#[test]
fn adoption_gets_the_table_although_transactions_overlap() {
    let server = Server::options().set("deadlock_timeout", "30ms").start();
    let mut admin = server.connect();
    admin.run("CREATE TABLE orders (id bigserial PRIMARY KEY, n int)");
    let mut app = server.connect();
    let pid = app.number("SELECT pg_backend_pid()::bigint");
    let [mut one, mut other] = [server.connect(), server.connect()];
    thread::scope(|scope| {
        one.run("BEGIN; INSERT INTO orders (n) VALUES (1)");
        let adoption = scope.spawn(move || app.run("SELECT leaf_column_adopt('orders', 'id')"));
        let mut waits_for = |least: &str| {
            admin.number(&format!(
                "SELECT count(*) FROM pg_locks WHERE pid = {pid} AND NOT granted
                    AND clock_timestamp() - waitstart > interval '{least}'"
            )) > 0
        };
        for _ in 0..10 {
            wait_until("the adoption waits", || {
                adoption.is_finished() || waits_for("0")
            });
            // A transaction ends when the next one has begun, or the adoption has kept it from
            // that for long.
            let next = scope.spawn(move || {
                other.run("BEGIN; INSERT INTO orders (n) VALUES (1)");
                other
            });
            wait_until("the next transaction inserts, or waits", || {
                next.is_finished() || waits_for("200 ms")
            });
            one.run("COMMIT");
            (one, other) = (next.join().expect("no insert fails"), one);
            if adoption.is_finished() {
                break;
            }
        }
        let is_adopted = adoption.is_finished();
        one.run("COMMIT");
        adoption.join().expect("the adoption ends");
        assert!(
            is_adopted,
            "the adoption waited until nobody inserted any more"
        );
    });
}

/// While the registry is locked, a call can only wait for it, not lock it itself.
#[test]
fn column_that_is_adopted_for_snowflake_ids_locks_no_registry() {
    let mut world = World::new();
    world
        .app
        .run("CREATE TABLE events (id bigserial PRIMARY KEY)");
    world.admin.snowflake().expect("an id");
    let mut holder = world.server.connect();
    holder.run("BEGIN; LOCK TABLE leaf.worker IN SHARE MODE");
    world.app.run(
        "BEGIN; SET LOCAL lock_timeout = '30s'; SELECT leaf_column_adopt('events', 'id', kind => 'snowflake')",
    );
    let locks = "SELECT count(*) FROM pg_locks WHERE granted AND mode <> 'AccessShareLock'
                    AND relation IN ('leaf.worker'::regclass, 'leaf.worker_pkey'::regclass)";
    holder.run("COMMIT");
    assert_eq!(world.admin.number(locks), 0);
    world.admin.snowflakes(1_000).expect("ids");
    world.app.run("COMMIT");
}

#[test]
fn all_columns_of_a_database_are_released_under_load_and_leaf_can_go() {
    let mut world = World::new();
    world.app.run(
        "CREATE TABLE orders (id bigserial PRIMARY KEY, n int);
         GRANT INSERT ON orders TO clerk; GRANT USAGE ON SEQUENCE orders_id_seq TO clerk;
         CREATE TABLE items (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, n int);
         CREATE TABLE events (id bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY, n int);
         CREATE TABLE parts (id bigint NOT NULL, n int) PARTITION BY RANGE (n);
         CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (10);
         SELECT leaf_tag_create('parts'), leaf_tag_create('shared');
         ALTER TABLE parts ALTER id SET DEFAULT leaf_segment_next('parts');
         ALTER TABLE part ALTER id SET DEFAULT leaf_segment_next('parts');
         CREATE TABLE a (id bigint DEFAULT leaf_segment_next('shared'));
         CREATE TABLE b (id bigint DEFAULT leaf_segment_next('shared'));
         SELECT leaf_column_adopt('orders', 'id', 'orders'), leaf_column_adopt('items', 'id'),
                leaf_column_adopt('events', 'id', kind => 'snowflake')",
    );
    let insert = "INSERT INTO items (n) VALUES (1), (2); INSERT INTO events (n) VALUES (1), (2);
                  INSERT INTO parts (n) VALUES (1), (2)";
    world.app.run(insert);
    world.app.run("SELECT leaf_segment_reserve('orders', 100)");
    refused(
        world
            .app
            .batch_execute("BEGIN; CALL leaf_column_release_all()"),
        "2D000",
    );
    world.app.run("ROLLBACK");
    world
        .admin
        .run("SELECT FROM leaf_worker_register('service')");
    let left = "SELECT string_agg(used_in, ' ' ORDER BY used_in) FROM leaf.defaults()";
    let World {
        server, admin, app, ..
    } = &mut world;
    let inserted = under_load(server, |inserted| {
        more(inserted);
        refused(app.batch_execute("CALL leaf_column_release_all()"), "55000");
        let why = "DETAIL:  Also drawn from by: app.b.id";
        assert!(server.log().contains(why), "{}", server.log());
        assert_eq!(
            admin.text(left),
            "app.a.id app.b.id app.events.id app.orders.id"
        );
        more(inserted);
        app.run("ALTER TABLE b ALTER id DROP DEFAULT");
        app.run("CALL leaf_column_release_all(drained => true)");
        more(inserted);
    });
    assert!(inserted > 0);
    app.run(insert);
    assert_eq!(admin.number("SELECT count(*) FROM leaf.defaults()"), 0);
    let parts = "SELECT count(DISTINCT id) FROM app.parts";
    assert_eq!(admin.number(parts), 4);
    admin.run("DROP EXTENSION leaf; DROP SCHEMA IF EXISTS leaf");
    app.run(insert);
    app.run("INSERT INTO orders (n) VALUES (1); INSERT INTO a DEFAULT VALUES");
}

#[test]
fn function_that_the_caller_names_is_replaced_while_sessions_insert() {
    let world = World::new();
    world.server.connect().run(
        "ALTER DATABASE postgres SET leaf.snowflake_layout = 'custom:40,13,10';
         ALTER DATABASE postgres SET leaf.snowflake_epoch = '2011-08-24T21:07:01.721Z';
         ALTER DATABASE postgres SET leaf.worker_id = 5",
    );
    let mut app = world.server.connect_as("app", "postgres");
    app.run(
        "CREATE SEQUENCE made;
         CREATE FUNCTION make() RETURNS bigint LANGUAGE sql AS $$
             SELECT (floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint - 1314220021721) << 23
                    | (5 << 10) | (nextval('made') % 1024) $$;
         CREATE FUNCTION other() RETURNS bigint LANGUAGE sql AS 'SELECT 1::bigint';
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT make(), n int);
         CREATE TABLE parts (id bigint PRIMARY KEY DEFAULT make());
         GRANT INSERT ON orders TO clerk; GRANT USAGE ON SEQUENCE made TO clerk",
    );
    let adopt = "SELECT leaf_column_adopt('orders', 'id', kind => 'snowflake'";
    app.fails(&format!("{adopt})"), "55000");
    app.fails(&format!("{adopt}, replaces => 'other()')"), "55000");
    let rows = under_load(&world.server, |inserted| {
        more(inserted);
        app.run(&format!("{adopt}, replaces => 'make()')"));
        more(inserted);
    });
    assert!(rows >= 100);
    let last = app.number("SELECT last_value FROM made");
    let id = insert(&mut app);
    assert_eq!(app.number("SELECT last_value FROM made"), last);
    assert_eq!(app.number("SELECT max(id) FROM orders"), id);
    let worker = "SELECT worker_id::bigint FROM leaf_snowflake_decode";
    assert_eq!(app.number(&format!("{worker}({id})")), 5);

    // Its last id may be of a moment that is not over.
    app.run(
        "CREATE TABLE events (id bigint PRIMARY KEY DEFAULT make());
         INSERT INTO events SELECT make() + (80 << 23);
         SELECT leaf_column_adopt('events', 'id', kind => 'snowflake', replaces => 'make()')",
    );

    // As numbers that are counted, above those of the function.
    let first = app.number("INSERT INTO parts DEFAULT VALUES RETURNING id");
    app.run("SELECT leaf_column_adopt('parts', 'id', replaces => 'make()')");
    let next = "INSERT INTO parts DEFAULT VALUES RETURNING id";
    assert_eq!(app.number(next), first + 1);
    app.run("SELECT leaf_column_release('parts', 'id')");
    assert!(app.number(next) > first + 1);
}
