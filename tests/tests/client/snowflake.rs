//! The client library's snowflake generator: leases, caches, and clocks; nothing
//! twice within one registry.

use crate::{HASTE, PATIENCE, config};
use leaf_sdk::{Config, Error, Leaf, SnowflakeConfig, SnowflakeGenerator, SnowflakeId};
use leaf_tests::{Draw, Ledger, Mode, Relay, Server, Snowflake, wait_until};
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, SystemTime};

fn leaf(server: &Server) -> Leaf {
    handle(server, PATIENCE)
}

fn handle(server: &Server, timeout: Duration) -> Leaf {
    Leaf::new(config(server, timeout)).expect("a handle")
}

fn generator(server: &Server, node: &str) -> SnowflakeGenerator {
    let config = SnowflakeConfig::new(node);
    leaf(server).snowflake(config).expect("a generator")
}

fn cached(server: &Server, file: &Path) -> SnowflakeGenerator {
    let config = SnowflakeConfig::new("cached").cache(file);
    leaf(server).snowflake(config).expect("a generator")
}

fn numbers(ids: Vec<SnowflakeId>) -> impl Iterator<Item = i64> {
    ids.into_iter().map(SnowflakeId::get)
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
fn ids_say_who_made_them_and_when() {
    let server = Server::start();
    let mut client = server.connect();
    let ids = generator(&server, "a");
    let id = ids.next().expect("an id");
    let parts = client.parts(id.get());
    assert_eq!(Some(parts.worker_id), ids.worker_id());
    let created = ids.created_at(id).expect("a lease");
    let since = created
        .duration_since(std::time::UNIX_EPOCH)
        .expect("after 1970");
    assert_eq!(since.as_millis() as i64, parts.created_at);
}

#[test]
fn service_restarts_from_its_cache_while_the_server_is_away() {
    let mut server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worker.json");
    let mut ledger = Ledger::new();
    let ids = cached(&server, &file);
    ledger.add(numbers(ids.next_n(10_000).expect("ids")));
    let worker = ids.worker_id();
    drop(ids);
    server.stop(Mode::Immediate);
    for _ in 0..3 {
        let mut again = None;
        wait_until("the file's lock is free", || {
            let config = SnowflakeConfig::new("cached").cache(&file);
            again = leaf(&server).snowflake(config).ok();
            again.is_some()
        });
        let ids = again.expect("a generator");
        ledger.add(numbers(
            ids.next_n(10_000).expect("ids while the server is away"),
        ));
        assert_eq!(ids.worker_id(), worker);
    }
    server.start_again();
    let mut client = server.connect();
    ledger.add(client.snowflakes(10_000).expect("ids"));
    ledger.add(numbers(
        generator(&server, "other").next_n(10_000).expect("ids"),
    ));
}

#[test]
fn cache_file_is_for_one_process_of_one_node() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worker.json");
    let mut ledger = Ledger::new();
    let first = cached(&server, &file);
    ledger.add(numbers(first.next_n(1_000).expect("ids")));
    let config = SnowflakeConfig::new("cached").cache(&file);
    let second = leaf(&server).snowflake(config);
    assert!(matches!(second, Err(Error::Cache(_))));

    // A copy, of the lock too, is another node's.
    let copies = tempfile::tempdir().expect("a folder");
    let copy = copies.path().join("worker.json");
    fs::copy(&file, &copy).expect("a copy");
    fs::write(copy.with_extension("lock"), "").expect("a lock");
    let copied = cached(&server, &copy);
    ledger.add(numbers(copied.next_n(1_000).expect("ids")));
    ledger.add(numbers(first.next_n(1_000).expect("ids")));
    assert_ne!(copied.worker_id(), first.worker_id());

    for damage in ["", "{", "{\"version\":1}", "[1,2]"] {
        let other = copies.path().join("damaged.json");
        fs::write(&other, damage).expect("a file");
        let mut damaged = None;
        wait_until("the file's lock is free", || {
            let config = SnowflakeConfig::new("cached").cache(&other);
            damaged = leaf(&server).snowflake(config).ok();
            damaged.is_some()
        });
        let damaged = damaged.expect("a generator");
        ledger.add(numbers(damaged.next_n(1_000).expect("ids")));
    }
}

/// A handle that connects through a relay.
fn relayed(relay: &Relay) -> Leaf {
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
    server.start_again();
    wait_until("there is a lease again", || {
        ids.next().map(|id| ledger.add([id.get()])).is_ok()
    });
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

/// The successor begins where the closed generator ended.
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
fn cache_that_cannot_be_written_holds_no_worker_id() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("gone");
    fs::create_dir(&place).expect("a folder");
    let ids = cached(&server, &place.join("worker.json"));
    fs::remove_dir_all(&place).expect("it goes");
    for _ in 0..3 {
        let error = ids.next().expect_err("no cache");
        assert!(matches!(error, Error::Cache(_)), "{error:?}");
    }
    let mut client = server.connect();
    wait_until("the leases are given back", || {
        client.number("SELECT count(*) FROM leaf.worker WHERE ceiling > now()") == 0
    });
    fs::create_dir(&place).expect("a folder");
    ids.next().expect("an id");
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
}
