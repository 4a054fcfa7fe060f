//! The cache file of a generator: a service starts from it while the server is away, and
//! nothing is issued twice whatever becomes of the file.

use crate::HASTE;
use crate::snowflake::{cached, generator, handle, leaf, numbers, relayed};
use leaf_sdk::{Error, IdSource, Leaf, SnowflakeConfig, SnowflakeGenerator};
use leaf_tests::{Draw, Ledger, Mode, Relay, Server, Snowflake, wait_until};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

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
    // Nor is it for other users, who could end the lease, or lock the file.
    let lock = |folder: &Path| folder.join("worker.json.lock");
    for file in [&file, &lock(folder.path())] {
        assert_eq!(fs::metadata(file).expect("a file").mode() & 0o077, 0);
    }

    // A copy, of the lock too, is another node's.
    let copies = tempfile::tempdir().expect("a folder");
    let copy = copies.path().join("worker.json");
    fs::copy(&file, &copy).expect("a copy");
    fs::copy(lock(folder.path()), lock(copies.path())).expect("a lock");
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
    assert!(ids.stats().ceiling > Some(ceiling + Duration::from_secs(10)));
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

/// A generator with a cache, as soon as the process before has gone.
pub fn again(leaf: &Leaf, config: SnowflakeConfig) -> SnowflakeGenerator {
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

/// Each start goes on above the ceiling in the file, which is ahead of the clock.
#[test]
fn earlier_cache_put_back_alone_repeats_nothing_while_the_server_is_away() {
    let mut server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worker.json");
    let mut ledger = Ledger::new();
    let ids = cached(&server, &file);
    ledger.add(numbers(ids.next_n(1_000).expect("ids")));
    drop(ids);
    server.stop(Mode::Immediate);
    let saved = fs::read(&file).expect("a cache");
    for _ in 0..3 {
        fs::write(&file, &saved).expect("it is put back");
        let ids = again(&leaf(&server), SnowflakeConfig::new("cached").cache(&file));
        ledger.add(numbers(ids.next_n(10_000).expect("ids")));
    }
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

/// An error may be a pooler's, and come after the commit.
#[test]
fn cache_whose_release_ended_with_an_error_is_for_the_registry_to_decide() {
    let mut server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worker.json");
    let mut ledger = Ledger::new();
    let first = cached(&server, &file);
    ledger.add(numbers(first.next_n(1_000).expect("ids")));
    server.connect().run(
        "CREATE FUNCTION fails() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION USING ERRCODE = 'XX000', MESSAGE = 'connection to database closed'; END $$;
         CREATE TRIGGER fails BEFORE UPDATE ON leaf.worker FOR EACH ROW
             WHEN (NEW.ceiling < OLD.ceiling) EXECUTE FUNCTION fails()",
    );
    let before = fs::read(&file).expect("a cache");
    first.close().expect_err("the trigger fails");
    drop(first);
    let after = fs::read(&file).expect("a cache");
    server.stop(Mode::Immediate);
    for cache in [after, before] {
        fs::write(&file, cache).expect("it is put back");
        let config = SnowflakeConfig::new("cached").cache(&file);
        let away = again(&handle(&server, HASTE), config);
        away.next().expect_err("the lease may be another's");
    }
}

/// A network can keep the release until the next start has repeated the registration.
#[test]
fn lease_that_comes_after_closing_is_never_used() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worker.json");
    let (mut client, mut other) = (server.connect(), server.connect());
    client.run(
        "CREATE SEQUENCE releases; GRANT USAGE ON SEQUENCE releases TO PUBLIC;
         CREATE FUNCTION keeps() RETURNS trigger LANGUAGE plpgsql AS
             $$ BEGIN RAISE EXCEPTION 'release %', nextval('public.releases'); END $$;
         CREATE TRIGGER keeps BEFORE UPDATE ON leaf.worker FOR EACH ROW
             WHEN (NEW.leased_until < OLD.leased_until) EXECUTE FUNCTION keeps()",
    );
    other.run("BEGIN; LOCK TABLE leaf.worker");
    let first = cached(&server, &file);
    assert!(first.try_next().is_none(), "no lease yet");
    wait_until("the registration waits", || {
        client.number("SELECT count(*) FROM pg_locks WHERE NOT granted") == 1
    });
    first.close().expect("nothing to release");
    other.run("COMMIT");
    wait_until("the release is sent", || {
        client.number("SELECT count(*) FROM releases WHERE is_called") == 1
    });
    drop(first);
    let next = again(&leaf(&server), SnowflakeConfig::new("cached").cache(&file));
    next.next().expect("an id");
    let late = client.number("SELECT min(worker_id)::bigint FROM leaf.worker");
    assert_ne!(next.worker_id().map(i64::from), Some(late));
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

/// A service with two generators has two files.
#[test]
fn files_that_differ_only_in_their_extension_share_no_lock() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let leaf = leaf(&server);
    let each: Vec<_> = (0..2)
        .map(|number| {
            let file = folder.path().join(format!("c.{number}"));
            let config = SnowflakeConfig::new("cached").cache(file);
            leaf.snowflake(config).expect("a generator")
        })
        .collect();
    assert_eq!(each.len(), 2);
}

#[test]
fn cache_that_is_no_regular_file_is_refused_at_once() {
    let server = Server::start();
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    assert!(made.expect("mkfifo").success());
    let link = folder.path().join("link");
    std::os::unix::fs::symlink("/dev/full", &link).expect("a link");
    for path in [pipe, link, folder.path().to_owned()] {
        let leaf = leaf(&server);
        let config = SnowflakeConfig::new("cached").cache(&path);
        let opening = std::thread::spawn(move || leaf.snowflake(config));
        wait_until("it is refused", || opening.is_finished());
        let error = opening.join().expect("no panic").expect_err("no file");
        assert!(error.to_string().contains("regular file"), "{error}");
    }
}

/// As after `kill -9` while the answer was on its way.
#[test]
fn renewal_whose_answer_was_lost_with_the_process_is_repeated_by_the_next_one() {
    let server = Server::start();
    let mut client = server.connect();
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worker.json");
    let relay = Relay::start(&server, Duration::ZERO);
    let config = || {
        let config = SnowflakeConfig::new("cached").worker_id(7).cache(&file);
        config.lease(Duration::from_secs(600))
    };
    let first = relayed(&relay);
    let ids = first
        .snowflake(config().lease(Duration::from_secs(2)))
        .expect("a generator");
    let mut ledger = Ledger::new();
    ledger.add(numbers(ids.next_n(1_000).expect("ids")));
    let token = "SELECT token FROM leaf.worker";
    let before = client.number(token);
    relay.lose_answers(true);
    wait_until("a renewal is committed", || {
        let _ = ids.try_next();
        client.number(token) != before
    });
    drop((ids, first));
    let next = again(&leaf(&server), config());
    ledger.add(numbers(next.next_n(1_000).expect("the lease is its own")));
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 1);
}

/// Copies of the process would have what is in memory, and the file.
#[test]
fn forgotten_ids_and_leases_are_used_by_nobody() {
    let mut server = Server::start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders')");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("worker.json");
    let config = || SnowflakeConfig::new("cached").cache(&file);
    let leaf = leaf(&server);
    let orders = leaf.segment("orders");
    let ids = leaf.snowflake(config()).expect("a generator");
    let mut ledger = Ledger::new();
    orders.next().expect("an id");
    ledger.add(numbers(ids.next_n(1_000).expect("ids")));
    let (worker, saved) = (ids.worker_id(), fs::read(&file).expect("a cache"));
    let mut granted = 0;
    wait_until("no block is on its way", || {
        let before = granted;
        granted = client.number("SELECT max_id FROM leaf.alloc");
        orders.stats().buffered > 0 && granted == before
    });
    leaf.forget().expect("it is forgotten");
    assert_eq!(orders.stats().buffered, 0);
    assert_eq!(ids.try_next(), None);
    assert!(orders.next().expect("an id").get() >= granted);
    ledger.add(numbers(ids.next_n(1_000).expect("ids")));
    assert_ne!(ids.worker_id(), worker);
    leaf.forget().expect("it is forgotten");
    // All that uses the handle, so that nothing tries to release the lease while the server is away.
    drop((ids, orders, leaf));
    server.stop(Mode::Immediate);
    fs::write(&file, saved).expect("it is put back");
    let away = again(&handle(&server, HASTE), config());
    away.next().expect_err("the lease may be a copy's");
}
