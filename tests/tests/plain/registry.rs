//! The registry of worker ids: that every one is found, and what clocks do to services.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use leaf_tests::{Clock, Draw, INSTALLER, Serve, Server, Snowflake, failed, refused, wait_until};

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

/// A server that logs the plans of all statements.
fn with_plans() -> Server {
    Server::options()
        .plain()
        .set("session_preload_libraries", "auto_explain")
        .set("auto_explain.log_min_duration", "0")
        .set("auto_explain.log_nested_statements", "on")
        .start()
}

/// The planner takes what it is kept from for costly, and PostgreSQL before 18 would compile it:
/// 200 milliseconds for a lease.
#[test]
fn leases_are_not_compiled() {
    let server = with_plans();
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

/// Sessions can have sent what the server logs.
#[test]
fn plans_tell_nothing_of_the_lease_before() {
    let server = with_plans();
    let mut client = server.connect_as(INSTALLER, "postgres");
    let lease = client.register("'a'").expect("a lease");
    client.run(&format!(
        "SELECT leaf_worker_release({}, '{}', {});
         UPDATE leaf.worker SET nonce = gen_random_uuid();
         SET plan_cache_mode = force_custom_plan",
        lease.worker_id, lease.nonce, lease.token
    ));
    let nonce = client.text("SELECT nonce::text FROM leaf.worker");
    client.register("'b', 0").expect("a lease");
    let plans = server.log();
    assert!(plans.contains("leaf.choose_worker_id"), "{plans}");
    assert!(!plans.contains(&nonce), "{plans}");
}

/// In a select list, `.*` calls a function once for each column, which would be those of nine leases.
#[test]
fn node_is_registered_once_in_a_statement() {
    let server = Server::options().plain().start();
    let mut client = server.connect_as(INSTALLER, "postgres");
    for nonce in ["NULL", "gen_random_uuid()"] {
        let expanded = format!("SELECT (leaf_worker_register('a', nonce => {nonce})).*");
        refused(client.simple_query(&expanded), "0A000");
        assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 0);
    }
    client.run("BEGIN");
    client.register("'a'").expect("a lease");
    client.register("'a'").expect("another statement");
    client.run(
        "COMMIT; SELECT FROM generate_series(1, 3) AS n, leaf_worker_register('node ' || n);
         SELECT (leaf_worker_register('a', nonce => '11111111-1111-1111-1111-111111111111')).*",
    );
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 6);
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
