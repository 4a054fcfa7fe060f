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

/// The ceiling in a cache file.
fn cached_ceiling(file: &Path) -> SystemTime {
    let content = fs::read(file).expect("a cache");
    let content: serde_json::Value = serde_json::from_slice(&content).expect("JSON");
    let us = content["content"]["ceiling_us"]
        .as_u64()
        .expect("a ceiling");
    SystemTime::UNIX_EPOCH + Duration::from_micros(us)
}

/// It cannot be raised, although the registry's allows more.
#[test]
fn ceiling_in_the_cache_is_never_passed() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().join("gone");
    fs::create_dir(&place).expect("a folder");
    let file = place.join("worker.json");
    let config = SnowflakeConfig::new("cached").cache(&file);
    let ids = handle(&server, HASTE)
        .snowflake(config)
        .expect("a generator");
    wait_until("there is a lease", || ids.next().is_ok());
    let ceiling = cached_ceiling(&file);
    fs::remove_dir_all(&place).expect("it goes");
    assert!(ids.stats().ceiling > Some(ceiling + Duration::from_secs(60)));
    while let Ok(id) = ids.next() {
        let created = ids.created_at(id).expect("a lease");
        assert!(created < ceiling, "an id of {created:?} at {ceiling:?}");
    }
    fs::create_dir(&place).expect("a folder");
    wait_until("the ceiling can be raised again", || ids.next().is_ok());
}

#[test]
fn restarted_service_begins_at_the_ceiling_in_its_cache() {
    let mut server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worker.json");
    let first = cached(&server, &file);
    first.next().expect("an id");
    drop(first);
    for is_away in [false, true] {
        if is_away {
            server.stop(Mode::Immediate);
        }
        let ceiling = cached_ceiling(&file);
        let ids = again(&leaf(&server), SnowflakeConfig::new("cached").cache(&file));
        let id = ids.next().expect("an id");
        let created = ids.created_at(id).expect("a lease");
        assert!(created >= ceiling, "an id of {created:?} at {ceiling:?}");
    }
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

/// A generator with a cache, as soon as the process before has gone.
fn again(leaf: &Leaf, config: SnowflakeConfig) -> SnowflakeGenerator {
    let mut again = None;
    wait_until("the file's lock is free", || {
        again = leaf.snowflake(config.clone()).ok();
        again.is_some()
    });
    again.expect("a generator")
}

/// Puts a cache back that was saved before its generator was closed. Returns the server,
/// the file, and another holder of the worker id.
fn put_back(ledger: &mut Ledger) -> (Server, tempfile::TempDir, SnowflakeGenerator) {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worker.json");
    let first = cached(&server, &file);
    ledger.add(numbers(first.next_n(1_000).expect("ids")));
    let worker = first.worker_id().expect("a lease");
    let saved = fs::read(&file).expect("a cache");
    first.close().expect("the server answers");
    assert!(!file.exists(), "the lease has ended");
    let config = SnowflakeConfig::new("b").worker_id(worker);
    let second = leaf(&server).snowflake(config).expect("a generator");
    ledger.add(numbers(second.next_n(1_000).expect("ids")));
    fs::write(&file, saved).expect("it is put back");
    (server, folder, second)
}

#[test]
fn cache_put_back_after_its_release_is_not_used() {
    let mut ledger = Ledger::new();
    let (server, folder, second) = put_back(&mut ledger);
    let file = folder.path().join("worker.json");
    let third = again(&leaf(&server), SnowflakeConfig::new("cached").cache(&file));
    for ids in [&second, &third, &second, &third] {
        ledger.add(numbers(ids.next_n(10_000).expect("ids")));
    }
    assert_ne!(third.worker_id(), second.worker_id());
}

#[test]
fn cache_put_back_after_its_release_is_not_used_while_the_server_is_away_either() {
    let mut ledger = Ledger::new();
    let (mut server, folder, _second) = put_back(&mut ledger);
    server.stop(Mode::Immediate);
    let file = folder.path().join("worker.json");
    let config = SnowflakeConfig::new("cached").cache(&file);
    let third = again(&handle(&server, HASTE), config);
    let error = third.next().expect_err("no lease");
    assert!(error.is_retryable(), "{error:?}");
}

#[test]
fn edited_cache_is_not_used() {
    let mut server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worker.json");
    let mut ledger = Ledger::new();
    let first = cached(&server, &file);
    ledger.add(numbers(first.next_n(1_000).expect("ids")));
    drop(first);
    let content = fs::read_to_string(&file).expect("a cache");
    let edited = content.replace("\"worker_id\":0", "\"worker_id\":5000");
    assert_ne!(edited, content);
    fs::write(&file, &edited).expect("it is edited");
    server.stop(Mode::Immediate);
    let config = || SnowflakeConfig::new("cached").cache(&file);
    let away = again(&handle(&server, HASTE), config());
    away.next().expect_err("no lease");
    drop(away);
    server.start_again();
    fs::write(&file, &edited).expect("it is edited");
    let back = again(&leaf(&server), config());
    ledger.add(numbers(back.next_n(1_000).expect("ids")));
    assert_eq!(back.worker_id(), Some(1));
}

/// The registry knows better than the file.
#[test]
fn cached_lease_that_the_registry_has_given_away_is_not_used() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worker.json");
    let mut ledger = Ledger::new();
    let first = cached(&server, &file);
    ledger.add(numbers(first.next_n(1_000).expect("ids")));
    drop(first);
    server
        .connect()
        .run("UPDATE leaf.worker SET node = 'another', nonce = gen_random_uuid(), token = 1");
    let second = again(&leaf(&server), SnowflakeConfig::new("cached").cache(&file));
    ledger.add(numbers(second.next_n(1_000).expect("ids")));
    assert_eq!(second.worker_id(), Some(1));
}

#[test]
fn generator_closed_while_the_server_is_away_keeps_its_cache() {
    let mut server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worker.json");
    let mut ledger = Ledger::new();
    let config = || SnowflakeConfig::new("cached").cache(&file);
    let first = leaf(&server).snowflake(config()).expect("a generator");
    ledger.add(numbers(first.next_n(10_000).expect("ids")));
    let worker = first.worker_id();
    server.stop(Mode::Immediate);
    first.close().expect_err("the server is away");
    drop(first);
    for _ in 0..3 {
        let next = again(&leaf(&server), config());
        ledger.add(numbers(next.next_n(10_000).expect("ids of the cache")));
        assert_eq!(next.worker_id(), worker);
        next.close().expect_err("the server is away");
    }
    server.start_again();
    let last = again(&leaf(&server), config());
    ledger.add(numbers(last.next_n(10_000).expect("ids")));
    assert_eq!(last.worker_id(), worker, "the registry has it, too");
    last.close().expect("the server answers");
    assert!(!file.exists());
}

/// It may have been committed.
#[test]
fn cache_whose_release_was_not_answered_is_for_the_registry_to_decide() {
    let mut server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worker.json");
    let relay = Relay::start(&server, Duration::ZERO);
    let config = || SnowflakeConfig::new("cached").cache(&file);
    let first = relayed(&relay).snowflake(config()).expect("a generator");
    let mut ledger = Ledger::new();
    ledger.add(numbers(first.next_n(1_000).expect("ids")));
    relay.lose_answers(true);
    first.close().expect_err("there is no answer");
    drop(first);
    server.stop(Mode::Immediate);
    let away = again(&handle(&server, HASTE), config());
    away.next().expect_err("the lease may be another's");
    drop(away);
    server.start_again();
    let back = again(&leaf(&server), config());
    ledger.add(numbers(back.next_n(1_000).expect("ids")));
}

/// As after `kill -9`: its holder has not released it.
#[test]
fn fixed_worker_id_is_taken_again_at_once_with_its_cache() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worker.json");
    let mut ledger = Ledger::new();
    let config = || SnowflakeConfig::new("cached").worker_id(7).cache(&file);
    for _ in 0..3 {
        let ids = again(&leaf(&server), config());
        ledger.add(numbers(ids.next_n(1_000).expect("ids")));
        assert_eq!(ids.worker_id(), Some(7));
    }
    assert_eq!(
        server.connect().number("SELECT count(*) FROM leaf.worker"),
        1
    );
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
        error.to_string().contains("whose lease lasts until"),
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
