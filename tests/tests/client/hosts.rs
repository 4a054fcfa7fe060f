//! The client library and which server it talks to.

use leaf_sdk::{Config, Error, IdSource, Leaf, init, next};
use leaf_tests::{Draw, Ledger, Mode, Server, wait_until};
use std::time::Duration;

#[test]
fn of_several_hosts_the_one_that_takes_writes_is_used() {
    let mut primary = Server::start();
    primary
        .connect()
        .run("SELECT leaf_tag_create('orders', step => 100)");
    let standby = Server::options().start_standby_of(&primary);
    let hosts = format!("/nowhere,{},{}", standby.host(), primary.host());
    let string = format!("host={hosts} user=postgres dbname=postgres");
    let config = Config::new(&string)
        .expect("a connection string")
        .steps(10, 10)
        .timeout(Duration::from_secs(60))
        .retry_between(Duration::from_millis(10), Duration::from_millis(100));
    let orders = Leaf::new(config).expect("a handle").segment("orders");
    let mut ledger = Ledger::new();
    ledger.add(orders.next_n(100).expect("ids").into_iter().map(i64::from));

    // It follows a promotion.
    standby.catch_up_with(&primary);
    primary.stop(Mode::Fast);
    standby.promote();
    ledger.add(orders.next_n(100).expect("ids").into_iter().map(i64::from));
    wait_until("the promoted server has granted", || {
        standby.connect().number("SELECT max_id FROM leaf.alloc") > ledger.highest()
    });
}

#[test]
fn role_whose_transactions_are_read_only_gets_ids() {
    let (server, mut client) = Server::with_orders(1000);
    client
        .run("CREATE ROLE reader LOGIN; ALTER ROLE reader SET default_transaction_read_only = on");
    client.let_draw("orders", "reader");
    let string = server
        .connection_string()
        .replace("user=postgres", "user=reader");
    let config = Config::new(&string).expect("a connection string");
    let leaf = Leaf::new(config.timeout(Duration::from_secs(60))).expect("a handle");
    leaf.segment("orders").next().expect("an id");
    let config = Config::new(&format!("{string} target_session_attrs=read-write"));
    let config = config.expect("a connection string");
    let strict = Leaf::new(config).expect("a handle");
    let refused = strict.connect().expect_err("as libpq has it");
    assert!(refused.to_string().contains("takes no writes"), "{refused}");
}

#[test]
fn process_has_one_handle() {
    let server = Server::start();
    server.connect().run("SELECT leaf_tag_create('orders')");
    assert!(matches!(next("orders"), Err(Error::Global(_))));
    let config = || {
        let config = Config::new(&server.connection_string()).expect("a connection string");
        config.timeout(Duration::from_secs(60))
    };
    // One that cannot be made leaves room for one that can.
    assert!(matches!(init(config().steps(0, 0)), Err(Error::Config(_))));
    init(config()).expect("the first");
    let first = next("orders").expect("an id");
    assert!(next("orders").expect("an id") > first);
    let again = |config| match init(config) {
        Err(Error::Global(said)) => said.contains("another database"),
        other => panic!("{other:?}"),
    };
    assert!(!again(config()));
    let other = format!("{} dbname=template1", server.connection_string());
    assert!(again(Config::new(&other).expect("a string")));
}

#[test]
fn configuration_that_makes_no_sense_is_refused() {
    assert!(matches!(Config::new("host"), Err(Error::Config(_))));
    let config = || Config::new("host=/nowhere user=nobody").expect("a connection string");
    let second = Duration::from_secs(1);
    for bad in [
        config().steps(0, 10),
        config().steps(20, 10),
        config().buffer_duration(Duration::ZERO),
        config().retry_between(Duration::ZERO, second),
        config().retry_between(second * 2, second),
    ] {
        assert!(matches!(Leaf::new(bad), Err(Error::Config(_))));
    }
}
