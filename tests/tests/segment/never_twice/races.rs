//! Changes to tags that race with grants and with sessions that draw: what was
//! granted before the change never comes after it.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Server, Stop, wait_until, waiting_loaders};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::thread;

const SLOW: &str = "
    CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
    BEGIN
        IF new.max_id > old.max_id AND new.max_id - old.max_id < 1000000 THEN
            PERFORM pg_sleep(0.1);
        END IF;
        RETURN new;
    END $$;
    CREATE TRIGGER slow BEFORE UPDATE ON leaf.alloc FOR EACH ROW EXECUTE FUNCTION slow()";

const STRIDE: i64 = 100_000_000;

/// Four sessions draw while `change` runs again and again with 1, 2, 3 …; after
/// each commit no call may return less than that number of `STRIDE`s.
fn race(change: impl Fn(&mut Client, i64)) {
    let (server, mut admin) = Server::with_orders(1000);
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
                            0 => client.rows("orders", 5),
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

/// A cache for each round.
fn cache(start: i64) -> i64 {
    [1, 7, 1024][(start / STRIDE) as usize % 3]
}

#[test]
fn advance_under_load_never_returns_a_stale_id() {
    race(|admin, start| {
        admin.run(&format!(
            "SELECT leaf_tag_alter('orders', advance_to => {start}, cache => {})",
            cache(start)
        ));
    });
}

#[test]
fn drop_and_create_under_load_never_returns_a_stale_id() {
    race(|admin, start| {
        admin.run(&format!(
            "BEGIN; SELECT leaf_tag_drop('orders');
             SELECT leaf_tag_create('orders', start => {start}, cache => {}); COMMIT",
            cache(start)
        ));
    });
}

/// A caller waits for a grant that is under way when `change` is committed behind
/// it; afterwards only the new ids may come.
fn overtaken_grant(change: &str) {
    let (server, mut admin) = Server::with_orders(1000);
    admin.run(SLOW);
    for round in 0..5 {
        thread::scope(|scope| {
            let caller = scope.spawn(|| server.connect().reserve("orders", 500_000));
            let mut observer = server.connect();
            wait_until("a grant is under way", || {
                caller.is_finished() || waiting_loaders(&mut observer, "PgSleep") == 1
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
        // The trigger makes hundreds of tables, which takes seconds on a busy machine.
        .set("leaf.wait_timeout", "1min")
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
                waiting.is_finished() || waiting_loaders(&mut observer, "PgSleep") == 1
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

/// Whoever sees the new row draws nothing of the old one, even before the commit of the
/// session that has changed it has come to its end.
#[test]
fn change_that_is_visible_has_taken_effect() {
    let (server, mut admin) = Server::with_orders(1000);
    let slow_commit = server.add_module("slow_commit", include_str!("slow_commit.c"));
    let mut session = server.connect();
    session.next("orders").expect("an id");
    admin.run(&format!("LOAD '{}'", slow_commit.display()));
    for round in 1..=3 {
        let target = round * 1_000_000;
        thread::scope(|scope| {
            let admin = &mut admin;
            scope.spawn(move || {
                admin.run(&format!(
                    "SELECT leaf_tag_alter('orders', advance_to => {target}, description => '{target}')"
                ));
            });
            let seen = format!("SELECT count(*) FROM leaf.alloc WHERE description = '{target}'");
            while session.number(&seen) == 0 {}
            let id = session.next("orders").expect("an id");
            assert!(id >= target, "{id} after {target} was seen");
        });
    }
}
