//! The client library's snowflake generator: leases, caches, and clocks; nothing
//! twice within one registry.

use crate::{HASTE, PATIENCE, config};
use leaf_core::snowflake::Layout;
use leaf_sdk::{Config, Error, IdSource, Leaf, SnowflakeConfig, SnowflakeGenerator, SnowflakeId};
use leaf_tests::{Draw, Ledger, Mode, Relay, Server, Snowflake, wait_until};
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, SystemTime};

pub fn leaf(server: &Server) -> Leaf {
    handle(server, PATIENCE)
}

pub fn handle(server: &Server, timeout: Duration) -> Leaf {
    Leaf::new(config(server, timeout)).expect("a handle")
}

pub fn generator(server: &Server, node: &str) -> SnowflakeGenerator {
    let config = SnowflakeConfig::new(node);
    leaf(server).snowflake(config).expect("a generator")
}

pub fn cached(server: &Server, file: &Path) -> SnowflakeGenerator {
    let config = SnowflakeConfig::new("cached").cache(file);
    leaf(server).snowflake(config).expect("a generator")
}

pub fn numbers(ids: Vec<SnowflakeId>) -> impl Iterator<Item = i64> {
    ids.into_iter().map(SnowflakeId::get)
}

/// Its request has the time at which it was sent.
#[test]
fn clock_of_a_node_is_not_wrong_because_the_server_stood_still() {
    let server = Server::options().set("leaf.max_clock_offset", "1s").start();
    let config = config(&server, PATIENCE).query_timeout(PATIENCE);
    let leaf = Leaf::new(config).expect("a handle");
    leaf.connect().expect("a connection");
    let node = SnowflakeConfig::new("patient");
    let ids = leaf.snowflake(node).expect("a generator");
    let paused = server.pause();
    assert_eq!(ids.try_next(), None, "it has to be leased");
    thread::sleep(Duration::from_secs(3));
    drop(paused);
    ids.next().expect("an id");
    let said = ids.stats().last_error.unwrap_or_default();
    assert!(!said.contains("clock"), "{said}");
}

#[test]
fn nodes_and_the_server_never_share_an_id() {
    let server = Server::start();
    let ledger = Mutex::new(Ledger::new());
    thread::scope(|scope| {
        for node in ["a", "b", "c"] {
            let ids = generator(&server, node);
            for _ in 0..2 {
                let (ids, ledger) = (ids.clone(), &ledger);
                scope.spawn(move || {
                    let mut last = 0;
                    for round in 0..100 {
                        let drawn = match round % 2 {
                            0 => ids.next_n(3_000).expect("ids"),
                            _ => vec![ids.next().expect("an id")],
                        };
                        for id in &drawn {
                            assert!(id.get() > last, "{id} after {last}");
                            last = id.get();
                        }
                        ledger.lock().expect("no panic").add(numbers(drawn));
                    }
                });
            }
        }
        let mut client = server.connect();
        for _ in 0..20 {
            let ids = client.snowflakes(5_000).expect("ids");
            ledger.lock().expect("no panic").add(ids);
        }
    });
    let workers = "SELECT count(DISTINCT worker_id) FROM leaf.worker";
    assert_eq!(server.connect().number(workers), 4);
}

#[test]
fn ids_of_every_layout_say_who_made_them_and_when() {
    for (layout, _) in Layout::NAMED {
        let server = Server::options()
            .set("leaf.snowflake_layout", layout)
            .start();
        let mut client = server.connect();
        let ids = generator(&server, "a");
        let unknown = ids.decode(SnowflakeId::new(0));
        assert_eq!(unknown, None, "the layout is not known");
        let mut drawn = ids.next_n(300).expect("ids");
        drawn.push(ids.next().expect("an id"));
        assert!(drawn.is_sorted_by_key(|id| id.get()), "{layout}");
        for id in drawn {
            let parts = client.parts(id.get());
            assert_eq!(Some(parts.worker_id), ids.worker_id(), "{layout}");
            let created = ids.created_at(id).expect("a lease");
            let since = created
                .duration_since(std::time::UNIX_EPOCH)
                .expect("after 1970");
            assert_eq!(since.as_millis() as i64, parts.created_at, "{layout}");
            let fields = ids.decode(id).expect("a lease");
            assert_eq!(
                (fields.created_at, fields.worker_id, fields.sequence),
                (created, parts.worker_id, parts.sequence),
                "{layout}"
            );
        }
        assert_eq!(ids.decode(SnowflakeId::new(-1)), None);
    }
}

/// A handle that connects through a relay.
pub fn relayed(relay: &Relay) -> Leaf {
    let config = Config::new(&relay.connection_string()).expect("a connection string");
    let config = config
        .timeout(PATIENCE)
        .retry_between(Duration::from_millis(10), Duration::from_millis(100));
    Leaf::new(config).expect("a handle")
}

#[test]
fn slow_connection_is_no_offset_of_the_clock() {
    let server = Server::start();
    let mut client = server.connect();
    server.reload("leaf.max_clock_offset", "1s");
    let relay = Relay::start(&server, Duration::from_millis(1_500));
    let ids = relayed(&relay)
        .snowflake(SnowflakeConfig::new("far away"))
        .expect("a generator");
    ids.next().expect("its clock is right");
    assert_eq!(ids.stats().last_error, None);
    let offset = "SELECT (abs(clock_offset_ms) < 1000)::text FROM leaf.worker";
    assert_eq!(client.text(offset), "true");
}

/// A service that ends before that leaves its worker id soon.
#[test]
fn lease_gets_its_full_length_some_seconds_after_the_start() {
    let server = Server::start();
    let mut client = server.connect();
    let ids = generator(&server, "shop");
    let id = ids.next().expect("an id");
    let worker_id = client.parts(id.get()).worker_id;
    assert!(client.ceiling(worker_id) <= client.clock() + 30_000);
    wait_until("it was renewed", || {
        client.ceiling(worker_id) > client.clock() + 9 * 60 * 1_000
    });
}

const LEASE: Duration = Duration::from_secs(2);

#[test]
fn generator_stops_at_its_ceiling_when_it_cannot_renew() {
    let mut server = Server::start();
    let config = SnowflakeConfig::new("a").lease(LEASE);
    let hasty = handle(&server, HASTE);
    let ids = hasty.snowflake(config).expect("a generator");
    let mut ledger = Ledger::new();
    wait_until("there is a lease", || {
        ids.next().map(|id| ledger.add([id.get()])).is_ok()
    });
    server.stop(Mode::Immediate);
    // Whatever was renewed until now, was renewed for two seconds.
    let latest = SystemTime::now() + LEASE;
    let error = loop {
        match ids.next() {
            Ok(id) => {
                let created = ids.created_at(id).expect("a lease");
                assert!(created <= latest, "an id of {created:?} after {latest:?}");
                ledger.add([id.get()]);
            }
            Err(error) => break error,
        }
    };
    assert!(matches!(error, Error::LeaseLost(_)), "{error:?}");
    assert!(error.is_retryable(), "the outage will pass");
    server.start_again();
    wait_until("there is a lease again", || {
        ids.next().map(|id| ledger.add([id.get()])).is_ok()
    });
}

#[test]
fn fixed_worker_id_of_another_node_is_waited_for() {
    let server = Server::start();
    let config = |node| SnowflakeConfig::new(node).worker_id(7);
    let holder = leaf(&server).snowflake(config("a")).expect("a generator");
    holder.next().expect("an id");
    let hasty = handle(&server, HASTE);
    let waiter = hasty.snowflake(config("b")).expect("a generator");
    let error = waiter.next().expect_err("it is held");
    assert!(error.is_retryable(), "{error:?}");
    assert!(
        error.to_string().contains("held by another node"),
        "{error}"
    );
    holder.close().expect("the server answers");
    wait_until("it is free", || waiter.next().is_ok());
}

/// A relay, and a handle that is connected through it.
fn connected(server: &Server) -> (Relay, Leaf) {
    server.connect().run("SELECT leaf_tag_create('orders')");
    let relay = Relay::start(server, Duration::ZERO);
    let config = Config::new(&relay.connection_string()).expect("a connection string");
    let config = config
        .timeout(PATIENCE)
        .query_timeout(Duration::from_millis(500))
        .retry_between(Duration::from_millis(10), Duration::from_millis(100));
    let leaf = Leaf::new(config).expect("a handle");
    leaf.segment("orders").next().expect("an id");
    (relay, leaf)
}

#[test]
fn registration_without_an_answer_is_repeated_and_leases_one_worker_id() {
    let server = Server::start();
    let mut client = server.connect();
    let rows = "SELECT count(*) FROM leaf.worker";
    // One that is dropped releases its worker id.
    let mut kept = Vec::new();
    for round in 1..=3 {
        let (relay, leaf) = connected(&server);
        let ids = leaf
            .snowflake(SnowflakeConfig::new("a"))
            .expect("a generator");
        relay.lose_answers(true);
        assert_eq!(ids.try_next(), None);
        wait_until("it is registered", || client.number(rows) == round);
        wait_until("it has noticed nothing", || {
            ids.stats().last_error.is_some()
        });
        relay.lose_answers(false);
        ids.next().expect("an id");
        assert_eq!(client.number(rows), round);
        client.run("SELECT leaf_tag_drop('orders')");
        kept.push((relay, leaf, ids));
    }
}

#[test]
fn renewal_without_an_answer_is_repeated_and_keeps_a_fixed_worker_id() {
    let server = Server::start();
    let mut client = server.connect();
    let (relay, leaf) = connected(&server);
    let config = SnowflakeConfig::new("a").worker_id(7).lease(LEASE);
    let ids = leaf.snowflake(config).expect("a generator");
    let mut ledger = Ledger::new();
    ledger.add([ids.next().expect("an id").get()]);
    let token = "SELECT token FROM leaf.worker";
    for _ in 0..3 {
        let before = client.number(token);
        relay.lose_answers(true);
        wait_until("a renewal is committed", || {
            let _ = ids.try_next();
            client.number(token) != before
        });
        relay.lose_answers(false);
        wait_until("it is answered", || {
            ledger.add([ids.next().expect("ids go on").get()]);
            client.number(token) != before
                && ids.stats().ceiling > Some(SystemTime::now() + LEASE / 2)
        });
    }
    assert_eq!(ids.worker_id(), Some(7));
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 1);
}

#[test]
fn lost_lease_is_replaced_by_another() {
    let server = Server::start();
    let mut client = server.connect();
    let config = SnowflakeConfig::new("a").lease(Duration::from_secs(1));
    let ids = leaf(&server).snowflake(config).expect("a generator");
    let mut ledger = Ledger::new();
    ledger.add([ids.next().expect("an id").get()]);
    let before = ids.worker_id();
    // Somebody else has renewed it.
    client.run("UPDATE leaf.worker SET token = token + 1");
    wait_until("it has another worker id", || {
        ledger.add([ids.next().expect("an id").get()]);
        ids.worker_id() != before
    });
    ledger.add(numbers(ids.next_n(10_000).expect("ids")));
}

#[test]
fn closed_generators_worker_id_is_free_at_once() {
    let server = Server::start();
    let mut client = server.connect();
    let mut ledger = Ledger::new();
    let first = generator(&server, "a");
    ledger.add(numbers(first.next_n(1_000).expect("ids")));
    let worker = first.worker_id().expect("a lease");
    first.close().expect("the server answers");
    assert!(matches!(first.next(), Err(Error::Closed)));
    let config = SnowflakeConfig::new("b").worker_id(worker);
    let second = leaf(&server).snowflake(config).expect("a generator");
    ledger.add(numbers(
        second.next_n(1_000).expect("ids of the same worker"),
    ));
    assert_eq!(second.worker_id(), Some(worker));
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 1);
}

/// When its last clone is dropped. Who closes the handle waits for that.
#[test]
fn dropped_generator_releases_its_worker_id() {
    let server = Server::start();
    let mut client = server.connect();
    let leaf = leaf(&server);
    let mut ledger = Ledger::new();
    for _ in 0..5 {
        let ids = leaf.snowflake(SnowflakeConfig::new("a"));
        let clone = ids.expect("a generator").clone();
        ledger.add(numbers(clone.next_n(100).expect("ids")));
    }
    leaf.close().expect("the server answers");
    let leased = "SELECT count(*) FROM leaf.worker WHERE leased_until > now()";
    assert_eq!(client.number(leased), 0);
}

/// The successor begins where the closed generator ended.
/// While a renewal is under way, the registry may have another token already.
#[test]
fn generator_that_is_closed_during_a_renewal_releases_its_worker_id() {
    for cache in [None, Some(tempfile::tempdir().expect("a folder"))] {
        let server = Server::start();
        let mut client = server.connect();
        let (relay, leaf) = connected(&server);
        let mut config = SnowflakeConfig::new("a").lease(LEASE);
        if let Some(folder) = &cache {
            config = config.cache(folder.path().join("lease"));
        }
        let ids = leaf.snowflake(config).expect("a generator");
        ids.next().expect("an id");
        let token = "SELECT max(token) FROM leaf.worker";
        let before = client.number(token);
        relay.lose_answers(true);
        wait_until("a renewal is committed", || {
            let _ = ids.try_next();
            client.number(token) != before
        });
        relay.lose_answers(false);
        ids.close().expect("the lease is released");
        let held = "SELECT count(*) FROM leaf.worker WHERE leased_until > clock_timestamp() + interval '1 s'";
        assert_eq!(client.number(held), 0);
    }
}

#[test]
fn generator_that_is_closed_while_threads_draw_leaves_its_worker_id_to_another() {
    let server = Server::start();
    let ledger = Mutex::new(Ledger::new());
    for _ in 0..20 {
        let config = || SnowflakeConfig::new("a").worker_id(3);
        let first = leaf(&server).snowflake(config()).expect("a generator");
        ledger
            .lock()
            .expect("no panic")
            .add([first.next().expect("an id").get()]);
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut drawn = Vec::new();
                    while let Ok(id) = first.next() {
                        drawn.push(id.get());
                    }
                    ledger.lock().expect("no panic").add(drawn);
                });
            }
            first.close().expect("the server answers");
        });
        let second = leaf(&server).snowflake(config()).expect("a generator");
        let ids = second.next_n(100).expect("ids of the same worker id");
        ledger.lock().expect("no panic").add(numbers(ids));
        second.close().expect("the server answers");
    }
}

#[test]
fn statistics_tell_of_leases_and_waits() {
    let server = Server::start();
    let ids = generator(&server, "a");
    let before = ids.stats();
    assert_eq!((before.worker_id, before.ceiling), (None, None));
    assert_eq!((before.renewals, before.waits), (0, 0));
    ids.next().expect("an id");
    let after = ids.stats();
    assert_eq!(after.worker_id, ids.worker_id());
    assert!(after.ceiling > Some(SystemTime::now()));
    assert_eq!((after.renewals, after.waits), (1, 1));
    assert!(after.longest_wait > Duration::ZERO);
    assert_eq!((after.rollbacks, after.last_error), (0, None));
}

#[test]
fn node_that_may_not_register_is_told_so() {
    let server = Server::start();
    server.connect().run("CREATE ROLE stranger LOGIN");
    let string = server
        .connection_string()
        .replace("user=postgres", "user=stranger");
    let leaf = Leaf::new(Config::new(&string).expect("a string")).expect("a handle");
    let ids = leaf
        .snowflake(SnowflakeConfig::new("a"))
        .expect("a generator");
    let error = ids.next().expect_err("no permission");
    assert!(matches!(error, Error::Permission(_)), "{error:?}");
    // As a `main` prints it.
    let said = format!("{error:?}");
    assert!(said.starts_with("Permission(42501: \"permission denied for "));
    assert!(said.contains("hint: Grant the role EXECUTE"), "{said}");
}
