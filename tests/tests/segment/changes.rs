//! Changes to tags take effect at commit, at once and everywhere; what was drawn
//! before never comes back.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Server, Stop, draw_many, refused, wait_until};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

/// A server with the tag `orders` from which `warm` has drawn already.
fn warm() -> (Server, Client, Client) {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run("SELECT leaf_tag_create('orders', step => 1000)");
    let mut warm = server.connect();
    warm.next("orders").expect("an id");
    (server, admin, warm)
}

const SLOW: &str = "
    CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF new.max_id > old.max_id AND new.max_id - old.max_id < 1000000 THEN
            PERFORM pg_sleep(0.1);
        END IF;
        RETURN new;
    END $$;
    CREATE TRIGGER slow BEFORE UPDATE ON leaf.alloc FOR EACH ROW EXECUTE FUNCTION slow()";

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
fn renamed_tag_is_dropped_and_created() {
    let (_server, mut admin, mut warm) = warm();
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut warm, "orders", 500));
    admin.run("UPDATE leaf.alloc SET biz_tag = 'renamed' WHERE biz_tag = 'orders'");
    refused(warm.next("orders"), "42704");
    ledger.add(draw_many(&mut warm, "renamed", 5_000));
    admin.run("UPDATE leaf.alloc SET biz_tag = 'orders' WHERE biz_tag = 'renamed'");
    ledger.add(draw_many(&mut warm, "orders", 5_000));
}

#[test]
fn tags_that_swap_names_swap_their_ids() {
    let (_server, mut admin, mut warm) = warm();
    admin.run("SELECT leaf_tag_create('far', start => 5000000)");
    warm.next("far").expect("an id");
    admin.run(
        "BEGIN;
         UPDATE leaf.alloc SET biz_tag = 'x' WHERE biz_tag = 'far';
         UPDATE leaf.alloc SET biz_tag = 'far' WHERE biz_tag = 'orders';
         UPDATE leaf.alloc SET biz_tag = 'orders' WHERE biz_tag = 'x';
         COMMIT",
    );
    assert!(warm.next("orders").expect("an id") > 5_000_000);
    assert!(warm.next("far").expect("an id") < 5_000_000);
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
    admin.run(&format!("UPDATE leaf.alloc SET max_value = {}", last + 1));
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

/// Four sessions draw while `change` runs again and again with 1, 2, 3 …; after
/// each commit no call may return less than that number of `STRIDE`s.
fn race(change: impl Fn(&mut Client, i64)) {
    const STRIDE: i64 = 100_000_000;
    let (server, mut admin, _warm) = warm();
    admin.run(&SLOW.replace("0.1", "0.005"));
    let ledger = Mutex::new(Ledger::new());
    let (floor, done) = (AtomicI64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let _stop = Stop(&done);
        let sessions: Vec<_> = (0..4)
            .map(|session| {
                let (server, ledger, floor, done) = (&server, &ledger, &floor, &done);
                scope.spawn(move || {
                    let mut client = server.connect();
                    while !done.load(Ordering::SeqCst) {
                        let least = floor.load(Ordering::SeqCst);
                        let ids = match session {
                            0 => client.next("orders").map(|id| vec![id]),
                            1 => client.reserve("orders", 20).map(|b| b.ids().collect()),
                            _ => client.batch("orders", 300),
                        }
                        .expect("the tag is always there");
                        let lowest = ids.iter().min().copied().expect("ids");
                        assert!(lowest >= least, "{lowest} was drawn after {least} was set");
                        ledger.lock().expect("no panic").add(ids);
                    }
                })
            })
            .collect();
        for round in 1..=60 {
            change(&mut admin, round * STRIDE);
            floor.store(round * STRIDE, Ordering::SeqCst);
            let before = ledger.lock().expect("no panic").len();
            wait_until("the sessions draw", || {
                sessions.iter().any(|session| session.is_finished())
                    || ledger.lock().expect("no panic").len() > before + 1_000
            });
        }
    });
}

#[test]
fn advance_under_load_never_returns_a_stale_id() {
    race(|admin, start| {
        admin.run(&format!(
            "SELECT leaf_tag_alter('orders', advance_to => {start})"
        ));
    });
}

#[test]
fn drop_and_create_under_load_never_returns_a_stale_id() {
    race(|admin, start| {
        admin.run(&format!(
            "BEGIN; SELECT leaf_tag_drop('orders');
             SELECT leaf_tag_create('orders', start => {start}); COMMIT"
        ));
    });
}

#[test]
fn rename_under_load_never_returns_a_stale_id() {
    race(|admin, start| {
        admin.run(&format!(
            "BEGIN;
             INSERT INTO leaf.alloc (biz_tag, max_id, step) VALUES ('next', {start}, 1000);
             DELETE FROM leaf.alloc WHERE biz_tag = 'orders';
             UPDATE leaf.alloc SET biz_tag = 'orders' WHERE biz_tag = 'next';
             COMMIT"
        ));
    });
}

/// A caller waits for a grant that is under way when `change` is committed behind
/// it; afterwards only the new ids may come.
fn overtaken_grant(change: &str) {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run("SELECT leaf_tag_create('orders', step => 1000)");
    admin.run(SLOW);
    for round in 0..5 {
        thread::scope(|scope| {
            let caller = scope.spawn(|| server.connect().reserve("orders", 500_000));
            let mut observer = server.connect();
            wait_until("a grant is under way", || {
                caller.is_finished()
                    || observer.number(
                        "SELECT count(*) FROM pg_stat_activity
                          WHERE backend_type = 'leaf loader' AND wait_event = 'PgSleep'",
                    ) == 1
            });
            let start = 1_000_000_000 * (round + 1);
            admin.run(&change.replace("$start", &start.to_string()));
            for _ in 0..3 {
                let id = admin.next("orders").expect("an id");
                assert!(id >= start, "{id} came after the change to {start}");
            }
            caller
                .join()
                .expect("a session")
                .expect("a block of either time");
            let id = admin.next("orders").expect("an id");
            assert!(id >= start, "{id} came after the change to {start}");
        });
    }
}

#[test]
fn grant_overtaken_by_drop_and_create_is_thrown_away() {
    overtaken_grant(
        "BEGIN; SELECT leaf_tag_drop('orders');
         SELECT leaf_tag_create('orders', start => $start); COMMIT",
    );
}

#[test]
fn grant_overtaken_by_an_advance_is_thrown_away() {
    overtaken_grant("SELECT leaf_tag_alter('orders', advance_to => $start)");
}

/// The grant is committed, its locks are released, and before the loader gets to
/// publish it the tag is another. What holds the loader up just there is a trigger
/// that drops tables: their files are removed after the locks are released.
#[test]
fn grant_published_too_late_is_thrown_away() {
    let server = Server::options()
        .set("max_locks_per_transaction", "1000")
        .start();
    let (mut admin, mut caller) = (server.connect(), server.connect());
    admin.run(
        "SELECT leaf_tag_create('orders', step => 1000);
         CREATE FUNCTION busy() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             FOR n IN 1..400 LOOP
                 EXECUTE format('CREATE TABLE public.doomed%s ()', n);
             END LOOP;
             FOR n IN 1..400 LOOP
                 EXECUTE format('DROP TABLE public.doomed%s', n);
             END LOOP;
             PERFORM pg_sleep(0.05);
             RETURN new;
         END $$;
         CREATE TRIGGER busy BEFORE UPDATE ON leaf.alloc
            FOR EACH ROW WHEN (new.max_id - old.max_id < 1000000) EXECUTE FUNCTION busy();
         SET synchronous_commit = off",
    );
    for round in 1..=5 {
        let start = 1_000_000_000 * round;
        admin.run("UPDATE leaf.alloc SET max_id = max_id + 1000000");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| caller.next("orders"));
            let mut observer = server.connect();
            wait_until("a grant is under way", || {
                waiting.is_finished()
                    || observer.number(
                        "SELECT count(*) FROM pg_stat_activity
                          WHERE backend_type = 'leaf loader' AND wait_event = 'PgSleep'",
                    ) == 1
            });
            admin.run(&format!(
                "DELETE FROM leaf.alloc WHERE biz_tag = 'orders';
                 INSERT INTO leaf.alloc (biz_tag, max_id, step) VALUES ('orders', {start}, 1000)"
            ));
            waiting
                .join()
                .expect("a session")
                .expect("an id of either time");
        });
        let id = caller.next("orders").expect("an id");
        assert!(id >= start, "{id} came after the change to {start}");
    }
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
