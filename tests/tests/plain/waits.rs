//! The registry of worker ids while others have transactions open: what a registration waited for, or has not
//! seen, repeats no id.

use std::thread;

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, INSTALLER, Server, Snowflake, failed, refused, wait_until};

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
    for function in ["leaf_new_history", "leaf.close"] {
        owner.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
        failed(owner.simple_query(&format!("SELECT {function}()")), "25001");
        owner.run("ROLLBACK");
    }
}

/// Adds the record of a worker id that was used elsewhere.
fn restored(worker_id: u32, layout: &str) -> String {
    format!(
        "INSERT INTO leaf.worker (worker_id, node, nonce, token, history, layout, epoch, ceiling, leased_until)
         VALUES ({worker_id}, 'z', gen_random_uuid(), 1, 'elsewhere', '{layout}', '2016-05-20 00:00Z', '2026-01-01', '2026-01-01')"
    )
}

/// Nor does a restore that is open while a node registers bring another, or one that began before.
#[test]
fn restored_rows_and_first_lease_have_one_layout() {
    let row = restored(7, "uid");
    for isolation in ["READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"] {
        let server = Server::options().plain().start();
        let mut client = server.connect();
        let [mut node, mut restorer] = [(); 2].map(|()| server.connect_as(INSTALLER, "postgres"));
        restorer.run(&format!("BEGIN ISOLATION LEVEL {isolation}"));
        restorer.run(&row);
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
        failed(restorer.simple_query(&row), code);
    }
}

/// Two restores that waited for the same transaction, after which there are no rows any more.
#[test]
fn restored_rows_that_waited_have_one_layout() {
    let server = Server::options().plain().start();
    let mut owner = server.connect_as(INSTALLER, "postgres");
    owner.run(&restored(1, "leaf"));
    owner.run("BEGIN; UPDATE leaf.plain SET version = version; DELETE FROM leaf.worker");
    thread::scope(|scope| {
        let restores = [(2, "uid"), (3, "js53")].map(|(id, layout)| {
            let mut restorer = server.connect_as(INSTALLER, "postgres");
            restorer.run("BEGIN");
            let row = restored(id, layout);
            scope.spawn(move || (restorer.simple_query(&row).map(|_| ()), restorer))
        });
        let mut observer = server.connect();
        wait_until("both wait", || {
            observer.number("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'")
                == 2
        });
        owner.run("COMMIT");
        wait_until("one goes on", || {
            restores.iter().any(|restore| restore.is_finished())
        });
        let [first, second] = match restores {
            [one, other] if one.is_finished() => [one, other],
            [one, other] => [other, one],
        };
        let (before, mut restorer) = first.join().expect("no panic");
        let _ = restorer.simple_query("COMMIT");
        let (after, _restorer) = second.join().expect("no panic");
        assert_eq!(before.is_ok(), after.is_err(), "{before:?} {after:?}");
        // Each may keep the other one from it, too: then the server ends either.
        let error = before.and(after).expect_err("one layout");
        let code = error.code().expect("an error of the server").code();
        assert!(["55000", "40P01"].contains(&code), "{error:?}");
    });
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

/// What waits for the source of a move to be closed gets nothing there.
#[test]
fn what_waited_for_the_close_is_refused() {
    let server = Server::options().plain().start();
    let mut owner = server.connect_as(INSTALLER, "postgres");
    owner.run("SELECT leaf_tag_create('orders')");
    for call in [
        "leaf_segment_reserve('orders', 1)",
        "leaf_worker_register('a')",
    ] {
        owner.run("BEGIN; SELECT leaf.close()");
        thread::scope(|scope| {
            let mut service = server.connect_as(INSTALLER, "postgres");
            let waiting =
                scope.spawn(move || service.simple_query(&format!("SELECT * FROM {call}")));
            let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
            wait_until("it waits", || server.connect().number(waits) > 0);
            owner.run("COMMIT");
            refused(waiting.join().expect("no panic"), "55000");
        });
        owner.run("SELECT leaf_new_history()");
    }
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

/// Both lock the tags, and then leaf.plain.
#[test]
fn new_history_and_new_tag_do_not_wait_for_each_other() {
    let server = Server::options().plain().start();
    let [mut holder, mut owner, mut shop] =
        [(); 3].map(|()| server.connect_as(INSTALLER, "postgres"));
    holder.run("BEGIN; LOCK TABLE leaf.alloc IN SHARE MODE");
    let mut observer = server.connect();
    let mut until_waiting = |sessions| {
        wait_until("they wait", || {
            observer.number("SELECT count(*) FROM pg_locks WHERE NOT granted") == sessions
        });
    };
    thread::scope(|scope| {
        let history = scope.spawn(|| owner.simple_query("SELECT leaf_new_history()"));
        until_waiting(1);
        let tag = scope.spawn(|| shop.simple_query("SELECT leaf_tag_create('orders')"));
        until_waiting(2);
        holder.run("COMMIT");
        for waiting in [history, tag] {
            waiting.join().expect("no panic").expect("no deadlock");
        }
    });
}

/// Any role can ask for such a lock on a catalog of PostgreSQL, although it is refused once it has it.
#[test]
fn lock_on_a_catalog_is_waited_for_as_long_as_one_on_a_row() {
    let (server, _) = Server::options().plain().start_with_orders(1000);
    let mut superuser = server.connect();
    superuser.run("CREATE ROLE stranger LOGIN");
    let [mut reader, mut locker] = [(); 2].map(|()| server.connect_as("stranger", "postgres"));
    reader.run("BEGIN; SELECT FROM pg_roles");
    let calls = [
        "leaf_segment_reserve('orders', 1)",
        "leaf_segment_return('orders', '[1,2)')",
        "leaf_tag_incarnation('orders')",
        "leaf_worker_register('a')",
        "leaf_mask_key('orders', 63)",
        "leaf_alloc_stats()",
    ];
    thread::scope(|scope| {
        scope.spawn(|| {
            let rule = "CREATE RULE r AS ON INSERT TO pg_catalog.pg_roles DO NOTHING";
            failed(locker.simple_query(rule), "42501");
        });
        wait_until("the lock is asked for", || {
            superuser.number("SELECT count(*) FROM pg_locks WHERE relation = 'pg_roles'::regclass AND NOT granted") > 0
        });
        let waiting = calls.map(|call| {
            let mut client = server.connect_as(INSTALLER, "postgres");
            scope.spawn(move || {
                client.run("SET statement_timeout = '60s'");
                failed(client.simple_query(&format!("SELECT FROM {call}")), "55P03");
            })
        });
        let ended = waiting.map(|call| call.join());
        reader.run("ROLLBACK");
        assert!(ended.iter().all(Result::is_ok));
    });
}
