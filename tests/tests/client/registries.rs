//! Whose lease it is: another registry, a registry that has failed over, and what is answered by
//! one that is wrong.

use crate::cache::again;
use crate::snowflake::{generator, leaf, numbers};
use crate::{HASTE, PATIENCE, config};
use leaf_sdk::{Config, Error, IdSource, Leaf, SnowflakeConfig};
use leaf_tests::{Draw, Ledger, Mode, Server, wait_until};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// A day: nothing is renewed in time for a test, unless there is a reason.
const LONG: Duration = Duration::from_secs(86_400);

/// A handle for hosts, in this order.
fn of_hosts(servers: &[&Server], more: &str, timeout: Duration) -> Leaf {
    let hosts: Vec<_> = servers.iter().map(|server| server.host()).collect();
    let string = format!(
        "host={} user=postgres dbname=postgres {more}",
        hosts.join(",")
    );
    let config = Config::new(&string).expect("a connection string");
    let config = config
        .timeout(timeout)
        .retry_between(Duration::from_millis(10), Duration::from_millis(100))
        .query_timeout(Duration::from_secs(1));
    Leaf::new(config).expect("a handle")
}

#[test]
fn cached_lease_is_not_used_unanswered_where_the_registry_may_be_another() {
    let (mut own, mut other) = (Server::start(), Server::start());
    own.connect().run("CREATE DATABASE shop");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worker.json");
    let cached = || SnowflakeConfig::new("cached").cache(&file);
    let ids = leaf(&own).snowflake(cached()).expect("a generator");
    ids.next().expect("an id");
    let mut ledger = Ledger::new();
    let holder = generator(&other, "holder");
    ledger.add(numbers(holder.next_n(1_000).expect("ids")));
    assert_eq!(ids.worker_id(), holder.worker_id());
    drop(ids);
    own.stop(Mode::Immediate);
    other.stop(Mode::Immediate);
    for elsewhere in [config(&other, HASTE), config(&own, HASTE).database("shop")] {
        let leaf = Leaf::new(elsewhere).expect("a handle");
        let error = again(&leaf, cached()).next().expect_err("no lease");
        assert!(error.is_retryable(), "{error:?}");
    }
    other.start_again();
    let ids = again(&leaf(&other), cached());
    ledger.add(numbers(ids.next_n(1_000).expect("ids")));
    ledger.add(numbers(holder.next_n(1_000).expect("ids")));
    assert_ne!(ids.worker_id(), holder.worker_id());
}

#[test]
fn cached_lease_is_used_unanswered_whatever_the_password_and_the_order_of_hosts() {
    let (mut server, mut standby) = (Server::start(), Server::start());
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worker.json");
    let cached = || SnowflakeConfig::new("cached").cache(&file);
    let mut ledger = Ledger::new();
    let leaf = of_hosts(&[&server, &standby], "password=old", PATIENCE);
    let ids = leaf.snowflake(cached()).expect("a generator");
    ledger.add(numbers(ids.next_n(1_000).expect("ids")));
    let worker_id = ids.worker_id();
    drop((ids, leaf));
    server.stop(Mode::Immediate);
    standby.stop(Mode::Immediate);
    let leaf = of_hosts(&[&standby, &server], "password=new", HASTE);
    let ids = again(&leaf, cached());
    ledger.add(numbers(
        ids.next_n(1_000).expect("ids while the servers are away"),
    ));
    assert_eq!(ids.worker_id(), worker_id);
}

#[test]
fn lease_that_another_registry_has_as_well_is_replaced_at_its_first_answer() {
    let server = Server::start();
    let mut client = server.connect_as("postgres", "template1");
    let config = SnowflakeConfig::new("a").lease(Duration::from_secs(2));
    let ids = leaf(&server).snowflake(config).expect("a generator");
    ids.next().expect("an id");
    let before = ids.worker_id().expect("a lease");
    // A dump of the registry, restored into a database that takes the other's name.
    let rows = server.data().join("rows");
    let copy = |direction| format!("COPY leaf.worker {direction} '{}'", rows.display());
    server.connect().run(&copy("TO"));
    client.run("CREATE DATABASE restored");
    let mut restored = server.connect_as("postgres", "restored");
    restored.run("CREATE EXTENSION leaf");
    restored.run(&copy("FROM"));
    drop(restored);
    client.run(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
          WHERE datname IN ('postgres', 'restored') AND pid <> pg_backend_pid();
         ALTER DATABASE postgres RENAME TO original;
         ALTER DATABASE restored RENAME TO postgres",
    );
    wait_until("the lease is another", || {
        let _ = ids.next_timeout(HASTE);
        ids.worker_id().is_some_and(|id| id != before)
    });
}

#[test]
fn registry_at_another_address_is_asked_at_once_and_one_without_the_lease_ends_it() {
    let (mut first, second) = (Server::start(), Server::start());
    let mut admin = second.connect();
    admin.run("SELECT leaf_tag_create('orders'); CREATE ROLE poor LOGIN");
    admin.let_draw("orders", "poor");
    first.connect().run("CREATE ROLE poor LOGIN SUPERUSER");
    let leaf = of_hosts(&[&first, &second], "user=poor", HASTE);
    let config = SnowflakeConfig::new("a").lease(LONG);
    let ids = leaf.snowflake(config).expect("a generator");
    wait_until("there is a lease", || ids.next().is_ok());
    first.stop(Mode::Immediate);
    // What goes to the second one is about something else.
    wait_until("the second one is reached", || {
        leaf.segment("orders").next().is_ok()
    });
    // A refusal says nothing about the lease.
    wait_until("it refuses to answer", || {
        let error = ids.stats().last_error;
        error.is_some_and(|error| error.contains("leaf_worker_renew"))
    });
    ids.next().expect("ids go on");
    let mut client = second.connect();
    client.run("GRANT EXECUTE ON ROUTINE leaf_worker_renew TO poor");
    wait_until("the lease has ended", || {
        matches!(ids.next(), Err(Error::Permission(_)))
    });
    client.run("ALTER ROLE poor SUPERUSER");
    wait_until("the second one leases a worker id", || ids.next().is_ok());
    assert_eq!(client.text("SELECT node FROM leaf.worker"), "a");
}

/// The history in a cache file.
fn cached_history(file: &Path) -> String {
    let content = fs::read(file).expect("a cache");
    let content: serde_json::Value = serde_json::from_slice(&content).expect("JSON");
    content["content"]["history"]
        .as_str()
        .expect("a history")
        .to_owned()
}

#[test]
fn failover_keeps_the_lease_which_is_then_renewed_once_more() {
    let mut primary = Server::start();
    let standby = Server::options().start_standby_of(&primary);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worker.json");
    let leaf = of_hosts(&[&primary, &standby], "", PATIENCE);
    let config = SnowflakeConfig::new("a").lease(LONG).cache(&file);
    let ids = leaf.snowflake(config).expect("a generator");
    let mut ledger = Ledger::new();
    ledger.add(numbers(ids.next_n(1_000).expect("ids")));
    let (worker_id, history) = (ids.worker_id(), cached_history(&file));
    assert_eq!(ids.stats().renewals, 1);
    standby.catch_up_with(&primary);
    primary.stop(Mode::Fast);
    standby.promote();
    wait_until("the new primary is reached", || leaf.connect().is_ok());
    wait_until("the lease is renewed twice", || {
        ledger.add([ids.next().expect("draws go on").get()]);
        ids.stats().renewals == 3
    });
    assert_eq!(ids.worker_id(), worker_id);
    assert_ne!(cached_history(&file), history);
    let mut client = standby.connect();
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 1);
}

/// It may be that of another registry at the same address.
#[test]
fn lease_from_the_cache_is_asked_for_until_the_registry_answers() {
    let mut server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worker.json");
    let cached = || SnowflakeConfig::new("cached").lease(LONG).cache(&file);
    server.connect().run("CREATE ROLE shop LOGIN SUPERUSER");
    let leaf = |timeout| of_hosts(&[&server], "user=shop", timeout);
    let (patient, hasty) = (leaf(PATIENCE), leaf(HASTE));
    let ids = patient.snowflake(cached()).expect("a generator");
    ids.next().expect("an id");
    drop((ids, patient));
    // It must not reach the registry before that is another one.
    server.connect().run("ALTER ROLE shop NOLOGIN");
    server.stop(Mode::Fast);
    let ids = again(&hasty, cached());
    ids.next().expect("an id while the server is away");
    server.start_again();
    let mut client = server.connect();
    client.run("DROP EXTENSION leaf; CREATE EXTENSION leaf; ALTER ROLE shop LOGIN");
    wait_until("the lease is that of the present registry", || {
        client.number("SELECT count(*) FROM leaf.worker WHERE node = 'cached'") == 1
    });
    ids.next().expect("an id");
}

#[test]
fn impossible_answers_of_a_registry_are_no_lease() {
    let server = Server::start();
    let mut client = server.connect();
    let good =
        "clock_timestamp(), clock_timestamp() + '1 min', 'leaf', '2010-11-04 01:42:54.657+00'";
    for (worker_id, rest) in [
        ("5000", good.to_owned()),
        ("-1", good.to_owned()),
        ("0", good.replace("'leaf'", "'junk'")),
        ("0", good.replace("'1 min'", "'-1 min'")),
        ("0", good.replace("'1 min'", "'1000 years'")),
        ("0", good.replace("'2010", "'2110")),
    ] {
        client.run(&format!(
            "CREATE OR REPLACE FUNCTION leaf_worker_register(
                 node text, worker_id integer DEFAULT NULL, clock timestamptz DEFAULT NULL,
                 ahead interval DEFAULT NULL, nonce uuid DEFAULT NULL,
                 OUT worker_id integer, OUT nonce uuid, OUT token bigint, OUT start_at timestamptz,
                 OUT ceiling timestamptz, OUT layout text, OUT epoch timestamptz,
                 OUT registry uuid, OUT history text) RETURNS record LANGUAGE sql AS $$
                 SELECT {worker_id}, $5, 1::bigint, {rest}::timestamptz, gen_random_uuid(), '' $$"
        ));
        let error = generator(&server, "a").next().expect_err("no lease");
        assert!(
            matches!(error, Error::Protocol(_)),
            "{worker_id} {rest}: {error:?}"
        );
    }
}
