//! What callers of the client library can learn from its errors, and arguments at the
//! ends of their ranges.

use crate::{HASTE, PATIENCE, config};
use leaf_sdk::{Config, Error, IdSource, Leaf, SnowflakeConfig, sync};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Mode, Server, wait_until};
use std::time::{Duration, SystemTime};

/// The error for one that the server raises with this SQLSTATE.
fn raised(client: &mut Client, code: &str) -> Error {
    let raise =
        format!("DO $$ BEGIN RAISE 'why' USING ERRCODE = '{code}', HINT = 'Do this.'; END $$");
    client.batch_execute(&raise).expect_err("an error").into()
}

#[test]
fn what_passes_by_itself_is_retryable() {
    let server = Server::start();
    let mut client = server.connect();
    let passing = [
        "08006", "40001", "40P01", "53300", "55006", "55P03", "57014", "57P01", "57P03", "25006",
        "58000",
    ];
    for code in passing {
        let error = raised(&mut client, code);
        assert!(error.is_retryable(), "{code}: {error:?}");
    }
    for code in [
        "42704", "42501", "2200H", "22023", "28P01", "3D000", "55000", "57P04",
    ] {
        let error = raised(&mut client, code);
        assert!(!error.is_retryable(), "{code}: {error:?}");
    }
}

#[test]
fn database_without_leaf_and_a_missing_password_are_named_at_once() {
    let server = Server::start();
    server
        .connect()
        .run("CREATE DATABASE without TEMPLATE template0");
    let leaf = Leaf::new(config(&server, PATIENCE).database("without")).expect("a handle");
    let error = leaf.segment("orders").next().expect_err("no leaf");
    assert!(!error.is_retryable(), "{error}");
    assert!(
        error.to_string().contains("is not in this database"),
        "{error}"
    );
    let mut client = server.connect();
    server.write("pg_hba.conf", b"local all all scram-sha-256\n");
    client.run("SELECT pg_reload_conf()");
    let leaf = Leaf::new(config(&server, PATIENCE)).expect("a handle");
    wait_until(
        "a password is asked for",
        || matches!(leaf.segment("orders").next(), Err(Error::Config(message)) if message.starts_with("password missing")),
    );
}

#[test]
fn database_with_an_earlier_version_is_told_which_to_update_first() {
    let (server, mut client) = Server::with_orders(100);
    client.run(
        "ALTER EXTENSION leaf DROP FUNCTION leaf_segment_reserve; DROP FUNCTION leaf_segment_reserve;
         UPDATE pg_extension SET extversion = '0.0.9' WHERE extname = 'leaf'",
    );
    let leaf = Leaf::new(config(&server, PATIENCE)).expect("a handle");
    let error = leaf
        .segment("orders")
        .next()
        .expect_err("it lacks a function");
    assert!(matches!(error, Error::Config(_)), "{error:?}");
    let said = error.to_string();
    for part in [
        "0.0.9",
        env!("CARGO_PKG_VERSION"),
        "leaf_segment_reserve",
        "ALTER EXTENSION",
    ] {
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn lease_lost_through_an_outage_is_retryable() {
    let mut server = Server::start();
    let leaf = Leaf::new(config(&server, HASTE)).expect("a handle");
    let ids = SnowflakeConfig::new("checkout").lease(Duration::from_secs(1));
    let ids = leaf.snowflake(ids).expect("a generator");
    wait_until("there is a lease", || ids.next().is_ok());
    server.stop(Mode::Immediate);
    let mut lost = None;
    wait_until("the lease is lost", || {
        lost = ids.next().err();
        lost.is_some()
    });
    let lost = lost.expect("an error");
    assert!(matches!(lost, Error::LeaseLost(_)), "{lost:?}");
    assert!(lost.is_retryable());
    server.start_again();
    wait_until("it has passed by itself", || ids.next().is_ok());
}

#[test]
fn hint_of_the_server_is_in_the_error() {
    let server = Server::start();
    let error = raised(&mut server.connect(), "XX000");
    assert_eq!(error.hint(), Some("Do this."));
    assert_eq!(error.to_string(), "why; hint: Do this.");
}

#[test]
fn durations_at_their_ends_give_errors_or_work() {
    let server = Server::start();
    server.connect().run("SELECT leaf_tag_create('orders')");
    let string = server.connection_string();
    let config = || Config::new(&string).expect("a string").timeout(PATIENCE);
    let draw = |config: Config| {
        let leaf = Leaf::new(config)?;
        let id = leaf.segment("orders").next()?;
        leaf.close()?;
        Ok::<_, Error>(id)
    };
    for longest in [
        config().timeout(Duration::MAX),
        config().query_timeout(Duration::MAX),
        config().buffer_duration(Duration::MAX),
        config().retry_between(Duration::MAX, Duration::MAX),
        config().steps(1, i64::MAX as u64 / 4),
    ] {
        draw(longest).expect("an id");
    }
    for bad in [
        config().query_timeout(Duration::ZERO),
        config().buffer_duration(Duration::ZERO),
        config().retry_between(Duration::ZERO, Duration::MAX),
        config().steps(0, 0),
        config().steps(1, u64::MAX),
    ] {
        let error = draw(bad).expect_err("no configuration");
        assert!(matches!(error, Error::Config(_)), "{error:?}");
    }
    let error = draw(config().timeout(Duration::ZERO)).expect_err("no time");
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    let options = "connect_timeout=9223372036854775807 keepalives_interval=9223372036854775807";
    let huge = Config::new(&format!("{string} {options}")).expect("a string");
    draw(huge.timeout(PATIENCE)).expect("an id");

    let leaf = Leaf::new(config()).expect("a handle");
    let node = || SnowflakeConfig::new("node");
    for ends in [
        node().clock_tolerance(Duration::ZERO),
        node().clock_tolerance(Duration::MAX),
        node().borrow_time(Duration::ZERO),
        node().borrow_time(Duration::MAX),
    ] {
        let events = leaf.snowflake(ends).expect("a generator");
        events.next_timeout(Duration::MAX).expect("an id");
    }
    for bad in [
        node().lease(Duration::ZERO),
        node().lease(Duration::MAX),
        SnowflakeConfig::new(""),
        SnowflakeConfig::new(&"n".repeat(257)),
    ] {
        let error = leaf.snowflake(bad).expect_err("no such node");
        assert!(matches!(error, Error::Config(_)), "{error:?}");
    }

    // The first attempt fails; the pause after it has no end.
    let forever = Config::new("host=/nowhere").expect("a string");
    let forever = forever
        .retry_between(Duration::MAX, Duration::MAX)
        .timeout(HASTE);
    let error = draw(forever).expect_err("no server");
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
}

#[test]
fn instants_at_their_ends_do_not_wrap() {
    let server = Server::start();
    let mut client = server.connect();
    let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_900_000_000);
    let distance = Duration::from_secs(i64::MAX as u64 / 2);
    let [first, middle, last] = [SystemTime::UNIX_EPOCH - distance, now, now + distance]
        .map(|at| sync::snowflake_floor(&mut client, at).expect("a floor"));
    assert!(first < middle && middle < last, "{first} {middle} {last}");
}
