//! The registry of worker ids: that every one is found, and what clocks do to services.

use std::collections::{BTreeMap, BTreeSet};
use std::thread;
use std::time::Duration;

use leaf_tests::postgres::Client;
use leaf_tests::{Clock, Draw, INSTALLER, Serve, Server, Snowflake, failed, refused, wait_until};

/// The lease was released, and given to another node, since the snapshot was taken.
#[test]
fn registration_that_is_repeated_in_an_older_snapshot_is_refused() {
    let server = Server::options().plain().start();
    let [mut first, mut other] = [(); 2].map(|()| server.connect_as(INSTALLER, "postgres"));
    let repeated = "'a', 7, nonce => '11111111-1111-1111-1111-111111111111'";
    let lease = first.register(repeated).expect("a lease");
    first.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM leaf.plain");
    other.release(&lease).expect("released");
    other.register("'b', 7").expect("another one");
    failed(first.register(repeated), "40001");
}

/// A layout with 32 worker ids: also those that copies of the registry choose at random, and those
/// of registrations that are open at the same time.
#[test]
fn every_worker_id_is_leased_once_and_no_other() {
    for history in ["history", "'elsewhere'"] {
        let server = Server::options().plain().start();
        let mut client = server.connect_as(INSTALLER, "postgres");
        client.run("UPDATE leaf.plain SET snowflake_layout = 'js53'");
        let mut open: Vec<_> = (0..3)
            .map(|_| server.connect_as(INSTALLER, "postgres"))
            .collect();
        let first = client.register("'first'").expect("a lease");
        let mut leased = BTreeSet::from([first.worker_id]);
        for (number, other) in open.iter_mut().enumerate() {
            other.run("BEGIN");
            let lease = other
                .register(&format!("'open {number}'"))
                .expect("a lease");
            assert!(leased.insert(lease.worker_id), "{leased:?} {lease:?}");
        }
        open.iter_mut().for_each(|other| other.run("COMMIT"));
        let highest = client.register("'highest', 31").expect("a lease");
        leased.insert(highest.worker_id);
        client.run(&format!(
            "UPDATE leaf.worker SET history = {history} WHERE node = 'open 1'"
        ));
        for number in leased.len()..32 {
            let lease = client
                .register(&format!("'node {number}'"))
                .expect("a lease");
            assert!(leased.insert(lease.worker_id), "{leased:?} {lease:?}");
        }
        refused(client.register("'one more'"), "53400");
        assert_eq!(leased, (0..32).collect());
    }
}

/// Nodes with the machine's clock, the server's and one of their own, and new ones meanwhile.
#[test]
fn stepped_clocks_repeat_no_id() {
    let server = Server::options().plain().clock().start();
    let folder = tempfile::tempdir().expect("a folder");
    let own = Clock::new(folder.path());
    let serve = |node: &str, clock: Option<&Clock>| {
        let node = format!("--node={node}");
        let mut command = Serve::command(&server.connection_string(), &[&node, "--wait=100ms"]);
        if let Some(clock) = clock {
            clock.drive(&mut command);
        }
        Serve::launch(&mut command)
    };
    let nodes = [
        serve("a", None),
        serve("b", Some(server.clock())),
        serve("c", Some(&own)),
    ];
    // By worker id: whoever has one issues higher ids than all before.
    let mut highest = BTreeMap::new();
    let mut drawn = 0;
    let mut draw = |serve: &Serve| {
        let answer = serve.get("/v1/snowflake?count=100");
        assert!([200, 503].contains(&answer.status), "{answer:?}");
        answer.status == 200 && {
            for id in answer.ids() {
                let worker_id = id >> 12 & 1023;
                let before = highest.insert(worker_id, id);
                assert!(
                    before < Some(id),
                    "{id} of worker id {worker_id} after {before:?}"
                );
                drawn += 1;
            }
            true
        }
    };
    for seconds in [30, 600] {
        for is_back in [true, false] {
            for clock in [server.clock(), &own] {
                // Node b has issued ids of a time to come, once both clocks have been ahead.
                for node in [&nodes[0], &nodes[2]] {
                    wait_until("ids come", || draw(node));
                }
                // Twice over the same time: the second gets the worker id of the first.
                for over in [0, 10] {
                    let by = Duration::from_secs(seconds);
                    let over = Duration::from_secs(over);
                    match is_back {
                        true => clock.behind(by + over),
                        false => clock.ahead(by - over),
                    }
                    let new = serve("new", Some(clock));
                    for _ in 0..8 {
                        nodes.iter().for_each(|node| _ = draw(node));
                        _ = draw(&new);
                    }
                    new.stop();
                }
                clock.right();
            }
        }
    }
    assert!(drawn > 2_000, "{drawn} ids");
}

/// PostgreSQL 18 looks a name such as UTC up in the session's time zone first.
#[test]
fn time_zone_of_the_session_changes_no_instant() {
    let server = Server::options().plain().start();
    let mut client = server.connect_as(INSTALLER, "postgres");
    let instants =
        "SELECT extract(epoch FROM leaf_snowflake_time(1 << 40, 'leaf', 'epoch'))::bigint";
    let right = client.number(instants);
    client.run("SET TimeZone = 'UTC-5'");
    assert_eq!(client.number(instants), right);
    let lease = client.register("'a', ahead => '30 s'").expect("a lease");
    assert_eq!(lease.epoch, 1_288_834_974_657);
    let used = lease.start_at + 20_000;
    client.run(&format!(
        "SELECT leaf_worker_release({}, '{}', {}, 'epoch'::timestamptz + {used} * interval '1 ms')",
        lease.worker_id, lease.nonce, lease.token
    ));
    client.run("SET TimeZone = 'UTC'");
    assert!(client.ceiling(lease.worker_id) >= used);
}

/// While the first registration is open, the layout cannot become another one.
#[test]
fn registrations_that_are_open_at_the_same_time_have_one_layout() {
    let server = Server::options().plain().start();
    let [mut first, mut owner] = [(); 2].map(|()| server.connect_as(INSTALLER, "postgres"));
    first.run("BEGIN");
    first.register("'a'").expect("a lease");
    owner.run("SET lock_timeout = '100ms'");
    let change = "UPDATE leaf.plain SET snowflake_layout = 'uid'";
    failed(owner.simple_query(change), "55P03");
    first.run("COMMIT");
    owner.run(change);
    refused(owner.register("'b'"), "55000");
    owner.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    failed(owner.simple_query("SELECT leaf_new_history()"), "25001");
}

/// Nor does a restore that is open while a node registers bring another, or one that began before.
#[test]
fn restored_rows_and_first_lease_have_one_layout() {
    let row = "INSERT INTO leaf.worker (worker_id, node, nonce, token, history, layout, epoch, ceiling, leased_until)
               VALUES (7, 'z', gen_random_uuid(), 1, 'elsewhere', 'uid', '2016-05-20 00:00Z', '2026-01-01', '2026-01-01')";
    for isolation in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let server = Server::options().plain().start();
        let mut client = server.connect();
        // The database's owner restores, who has not installed leaf.
        client.run("CREATE ROLE restorer LOGIN; ALTER DATABASE postgres OWNER TO restorer");
        let [mut node, mut restorer] =
            [INSTALLER, "restorer"].map(|role| server.connect_as(role, "postgres"));
        restorer.run(&format!("BEGIN ISOLATION LEVEL {isolation}"));
        restorer.run(row);
        node.run("SET statement_timeout = '200ms'");
        failed(
            node.simple_query("SELECT leaf_worker_register('a')"),
            "57014",
        );
        restorer.run("COMMIT");
        refused(node.register("'a'"), "55000");

        client.run("DELETE FROM leaf.worker");
        restorer.run(&format!("BEGIN ISOLATION LEVEL {isolation}; SELECT 1"));
        node.register("'a'").expect("a lease");
        let code = match isolation {
            "READ COMMITTED" => "55000",
            _ => "40001",
        };
        failed(restorer.simple_query(row), code);
    }
}

/// What waits for a new history to begin is of that.
#[test]
fn registration_that_waited_for_a_new_history_is_of_it() {
    let server = Server::options().plain().start();
    let [mut owner, mut node] = [(); 2].map(|()| server.connect_as(INSTALLER, "postgres"));
    node.register("'a'").expect("a lease");
    owner.run("UPDATE leaf.worker SET leased_until = now() - interval '1 s'");
    owner.run("BEGIN; SELECT leaf_new_history()");
    let lease = thread::scope(|scope| {
        let waiting = scope.spawn(|| node.register("'b'").expect("a lease"));
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        wait_until("it waits", || server.connect().number(waits) > 0);
        owner.run("COMMIT");
        waiting.join().expect("no panic")
    });
    let row = format!(
        "SELECT count(*) FROM leaf.worker WHERE worker_id = {} AND history = leaf.history()",
        lease.worker_id
    );
    assert_eq!(owner.number(&row), 1);
    assert_ne!(lease.worker_id, 0, "the original may have it");
}

/// Rows are deleted once no clock that is credible lies below their ceiling; a registration that
/// waited meanwhile begins above it, also if an older row was put back.
#[test]
fn registration_that_waited_begins_above_the_ceilings_of_deleted_rows() {
    let server = Server::options().plain().start();
    let [mut owner, mut node] = [(); 2].map(|()| server.connect_as(INSTALLER, "postgres"));
    owner.run("UPDATE leaf.plain SET max_clock_offset = '1 s'");
    for (id, put_back) in [(7, ""), (8, "INSERT INTO leaf.worker SELECT * FROM older")] {
        let older = owner.register(&format!("'c', {id}, ahead => '100 ms'"));
        owner.release(&older.expect("a lease")).expect("released");
        owner.run(&format!(
            "CREATE TEMP TABLE older AS SELECT * FROM leaf.worker WHERE worker_id = {id}"
        ));
        owner.run("BEGIN; LOCK TABLE leaf.worker IN SHARE ROW EXCLUSIVE MODE");
        let late = format!("'b', {id}, clock_timestamp() - interval '0.9 s'");
        let (old, lease) = thread::scope(|scope| {
            let waiting = scope.spawn(|| node.register(&late));
            let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
            wait_until("it waits", || server.connect().number(waits) > 0);
            let old = owner.register(&format!("'a', {id}, ahead => '100 ms'"));
            let old = old.expect("a lease");
            wait_until("the row may be deleted", || {
                owner.clock() > old.ceiling + 1000
            });
            owner.run(&format!(
                "DELETE FROM leaf.worker WHERE worker_id = {id}; {put_back}; COMMIT"
            ));
            owner.run("DROP TABLE older");
            (old, waiting.join().expect("no panic").expect("a lease"))
        });
        assert!(lease.start_at >= old.ceiling, "{old:?} {lease:?}");
    }
}

/// Registers a node, and lets the registrations of node `a` wait in a trigger, after their worker id was
/// chosen, for an advisory lock that this session has.
fn let_node_a_stand_still(owner: &mut Client) {
    owner.run(
        "UPDATE leaf.plain SET max_clock_offset = '0';
         CREATE FUNCTION wait() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
             PERFORM pg_advisory_xact_lock_shared(1);
             RETURN NEW;
         END $$;
         CREATE TRIGGER a_wait BEFORE INSERT ON leaf.worker FOR EACH ROW WHEN (NEW.node = 'a') EXECUTE FUNCTION wait();
         SELECT pg_advisory_lock(1)",
    );
    owner.register("'first', 1").expect("a lease");
}

/// Its error could wait for a client that does not read, while the holder cannot renew.
#[test]
fn registration_that_comes_too_late_does_not_lock_the_row_of_another_lease() {
    let server = Server::options().plain().start();
    let [mut owner, mut node] = [(); 2].map(|()| server.connect_as(INSTALLER, "postgres"));
    let_node_a_stand_still(&mut owner);
    let late = thread::scope(|scope| {
        let waiting = scope.spawn(|| node.register("'a', 7"));
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        wait_until("it waits", || server.connect().number(waits) > 0);
        owner.register("'b', 7").expect("a lease");
        owner.run("BEGIN; SELECT FROM leaf.worker FOR UPDATE; SELECT pg_advisory_unlock(1)");
        waiting.join().expect("no panic")
    });
    failed(late, "40001");
}

/// Another lease of the worker id can come and go before the row of a registration that stands still.
#[test]
fn registration_that_stood_still_begins_above_the_lease_that_was_there_meanwhile() {
    let server = Server::options().plain().start();
    let [mut owner, mut node] = [(); 2].map(|()| server.connect_as(INSTALLER, "postgres"));
    let_node_a_stand_still(&mut owner);
    let (other, lease) = thread::scope(|scope| {
        let waiting = scope.spawn(|| node.register("'a', 7"));
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        wait_until("it waits", || server.connect().number(waits) > 0);
        let other = owner.register("'b', 7, ahead => '100 ms'");
        let other = other.expect("a lease");
        wait_until("the row may be deleted", || owner.clock() > other.ceiling);
        owner.run("DELETE FROM leaf.worker WHERE node = 'b'; SELECT pg_advisory_unlock(1)");
        (other, waiting.join().expect("no panic").expect("a lease"))
    });
    assert!(lease.start_at >= other.ceiling, "{other:?} {lease:?}");
    assert!(lease.ceiling > lease.start_at + 1000, "{lease:?}");
}

/// A quotient of long ticks since an old epoch has more digits than numeric keeps.
#[test]
fn end_of_a_lease_is_rounded_up_to_a_tick() {
    let server = Server::options().plain().start();
    let mut owner = server.connect_as(INSTALLER, "postgres");
    owner.run(
        "UPDATE leaf.plain SET snowflake_layout = 'custom:30,10,20,300s',
                               snowflake_epoch = '0001-01-01 00:00:00+00', max_clock_lead = '1 h'",
    );
    let first = owner.register("'a', 5").expect("a lease");
    owner.run("SELECT leaf_worker_release(worker_id, nonce, token, start_at + interval '1 us') FROM leaf.worker");
    let second = owner.register("'b', 5").expect("a lease");
    assert_eq!(second.start_at, first.start_at + 300_000);
}

/// Of the owner's own, such as one that returns NULL.
#[test]
fn lease_that_triggers_keep_from_being_stored_is_an_error() {
    let server = Server::options().plain().start();
    let mut owner = server.connect_as(INSTALLER, "postgres");
    let mut lease = owner.register("'a', 5").expect("a lease");
    owner.run(
        "CREATE FUNCTION nothing() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END';
         CREATE TRIGGER nothing BEFORE UPDATE ON leaf.worker FOR EACH ROW EXECUTE FUNCTION nothing()",
    );
    failed(owner.renew(&mut lease), "09000");
    failed(owner.register("'b', 6"), "09000");
}

/// Otherwise one transaction could take all worker ids, one after the other.
#[test]
fn lease_that_an_open_transaction_has_ended_still_counts() {
    let server = Server::options().plain().start();
    let mut owner = server.connect_as(INSTALLER, "postgres");
    owner.run("UPDATE leaf.plain SET max_leases = 1; BEGIN");
    let lease = owner.register("'a', 1").expect("a lease");
    owner.release(&lease).expect("released");
    refused(owner.register("'b', 2"), "53400");
    owner.run("ROLLBACK");
    let lease = owner.register("'a', 1").expect("a lease");
    owner.release(&lease).expect("released");
    owner.register("'b', 2").expect("a lease");
}

/// In a time zone in which a day can have more than 24 hours.
#[test]
fn day_has_24_hours_in_every_session() {
    let server = Server::options().plain().start();
    let mut client = server.connect_as(INSTALLER, "postgres");
    // Twelve hours from now, clocks are set back by 300 hours.
    let change = client.text(
        "SELECT to_char(at, 'FMDDD/HH24:MI:SS') FROM (SELECT now() AT TIME ZONE 'UTC' + interval '162 h') AS change(at)",
    );
    client.run(&format!("SET TimeZone = 'AAA150BBB-150,J1/0,J{change}'"));
    let lease = client.register("'a', ahead => '1 day'").expect("a lease");
    let hours = (lease.ceiling - lease.start_at) as f64 / 3_600_000.0;
    assert!((hours - 24.0).abs() < 0.1, "{hours} hours");
}

/// The planner takes what it is kept from for costly, and PostgreSQL before 18 would compile it:
/// 200 milliseconds for a lease.
#[test]
fn leases_are_not_compiled() {
    let server = Server::options()
        .plain()
        .set("session_preload_libraries", "auto_explain")
        .set("auto_explain.log_min_duration", "0")
        .set("auto_explain.log_nested_statements", "on")
        .start();
    let mut client = server.connect_as(INSTALLER, "postgres");
    let lease = client.register("'a'").expect("a lease");
    client.run(&format!(
        "SELECT leaf_worker_renew({}, '{}', {});
         SELECT leaf_worker_release({0}, '{1}', token) FROM leaf.worker",
        lease.worker_id, lease.nonce, lease.token
    ));
    let plans = server.log();
    assert!(plans.contains("leaf.choose_worker_id"), "{plans}");
    assert!(!plans.contains("JIT:"), "{plans}");
}

/// Not even if the last row is deleted while another registration is open.
#[test]
fn layout_does_not_change_while_a_lease_is_new() {
    let server = Server::options().plain().start();
    let [mut first, mut owner, mut second] =
        [(); 3].map(|()| server.connect_as(INSTALLER, "postgres"));
    owner.run("UPDATE leaf.plain SET max_clock_offset = '0', snowflake_layout = 'custom:41,10,12'");
    let old = first.register("'old', ahead => '100 ms'").expect("a lease");
    first.run(&format!(
        "SELECT leaf_worker_release({}, '{}', {}, 'epoch')",
        old.worker_id, old.nonce, old.token
    ));
    first.run("BEGIN");
    first.register("'a', 5").expect("a lease");
    let delete = "DELETE FROM leaf.worker WHERE node = 'old'";
    wait_until("its ceiling has passed", || {
        owner.simple_query(delete).is_ok()
    });
    owner.run("SET lock_timeout = '100ms'");
    let change = "UPDATE leaf.plain SET snowflake_layout = 'custom:41,9,13'";
    failed(owner.simple_query(change), "55P03");
    first.run("COMMIT");
    owner.run(change);
    refused(second.register("'b'"), "55000");
}

/// What the owner changes while a registration waits is what it goes by: neither the layout that was there before,
/// nor a clock that is not credible any more and lies below the ceiling of a deleted row.
#[test]
fn registration_that_waited_goes_by_the_settings_of_now() {
    let server = Server::options().plain().start();
    let [mut owner, mut node] = [(); 2].map(|()| server.connect_as(INSTALLER, "postgres"));
    let repeated = "'a', ahead => '100 ms', nonce => '11111111-1111-1111-1111-111111111111'";
    let behind = "'b', clock => clock_timestamp() - interval '50 s'";
    for (before, change, registration) in [
        (
            "snowflake_layout = 'js53', max_clock_offset = '0'",
            "snowflake_layout = 'leaf'",
            repeated,
        ),
        (
            "max_clock_offset = '60 s'",
            "max_clock_offset = '0'",
            behind,
        ),
    ] {
        owner.run(&format!(
            "UPDATE leaf.plain SET {before};
             ALTER SEQUENCE leaf.next_worker_id RESTART"
        ));
        let old = node.register(repeated).expect("a lease");
        wait_until("the row may be deleted", || owner.clock() > old.ceiling);
        owner.run(&format!(
            "BEGIN; ALTER SEQUENCE leaf.next_worker_id RESTART; UPDATE leaf.plain SET {change}; DELETE FROM leaf.worker"
        ));
        let lease = thread::scope(|scope| {
            let waiting = scope.spawn(|| node.register(registration));
            let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
            wait_until("it waits", || server.connect().number(waits) > 0);
            owner.run("COMMIT");
            waiting.join().expect("no panic")
        });
        if registration == behind {
            refused(lease, "58000");
        } else {
            lease.expect("a lease");
            let rows = "SELECT count(*) FROM leaf.worker WHERE layout = 'leaf'";
            assert_eq!(owner.number(rows), 1);
            owner.run("UPDATE leaf.plain SET max_clock_offset = '0'");
            wait_until("the row may be deleted", || {
                owner.simple_query("DELETE FROM leaf.worker").is_ok()
            });
        }
    }
}

/// In a select list, `.*` calls a function once for each column, which would be those of nine leases.
#[test]
fn node_is_registered_once_in_a_statement() {
    let server = Server::options().plain().start();
    let mut client = server.connect_as(INSTALLER, "postgres");
    let expanded = "SELECT (leaf_worker_register('a')).*";
    refused(client.simple_query(expanded), "0A000");
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 0);
    client.run("BEGIN");
    client.register("'a'").expect("a lease");
    client.register("'a'").expect("another statement");
    client.run(
        "COMMIT; SELECT FROM generate_series(1, 3) AS n, leaf_worker_register('node ' || n);
         SELECT FROM generate_series(1, 3) AS n, leaf_worker_register('a', nonce => gen_random_uuid(), ahead => n * interval '1 s')",
    );
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 8);
}

/// A publication of all tables wants to know which row an update means.
#[test]
fn publication_of_all_tables_stops_no_lease() {
    let server = Server::options()
        .plain()
        .set("wal_level", "logical")
        .start();
    server
        .connect()
        .run("CREATE PUBLICATION everything FOR ALL TABLES");
    let mut client = server.connect_as(INSTALLER, "postgres");
    client.register("'a'").expect("a lease");
    client.run("SELECT leaf_new_history()");
    client.register("'b'").expect("a lease");
}

/// What waits for a lease to end holds up no grant.
#[test]
fn new_history_waits_before_it_locks_tags() {
    let server = Server::options().plain().start();
    let [mut owner, mut node, mut shop] =
        [(); 3].map(|()| server.connect_as(INSTALLER, "postgres"));
    shop.run("SELECT leaf_tag_create('orders')");
    node.register("'first'").expect("a lease");
    node.run("BEGIN");
    node.register("'a'").expect("a lease");
    thread::scope(|scope| {
        let waiting = scope.spawn(|| owner.run("SELECT leaf_new_history()"));
        let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
        wait_until("it waits", || server.connect().number(waits) > 0);
        shop.reserve("orders", 1).expect("a block");
        node.run("COMMIT");
        waiting.join().expect("no panic");
    });
}
