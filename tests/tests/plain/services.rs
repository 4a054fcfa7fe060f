//! Services that draw from a server without the library: with the client library, over HTTP, and
//! through a pooler.

use std::thread;
use std::time::Duration;

use leaf_sdk::{Config, IdSource, Leaf, SnowflakeConfig};
use leaf_tests::{
    Draw, INSTALLER, Ledger, Mode, Pooler, Relay, Said, Serve, Server, leafctl_on, refused,
    wait_until,
};

fn leaf(connection: &str) -> Leaf {
    let config = Config::new(connection).expect("a connection string");
    let config = config
        .timeout(Duration::from_secs(60))
        .retry_between(Duration::from_millis(10), Duration::from_millis(100));
    Leaf::new(config).expect("a handle")
}

/// Both kinds of ids, without a durable commit by default, directly, through a pooler, and over HTTP.
#[test]
fn services_of_a_server_that_is_killed_repeat_nothing() {
    let options = Server::options().plain().set("synchronous_commit", "off");
    let (mut server, _client) = options.start_with_orders(10);
    let pooler = Pooler::start(&server, 3);
    let connections = [server.connection_string(), pooler.connection_string()];
    let leaves = connections.map(|connection| leaf(&connection));
    let serve = Serve::start(&server, &["--tag", "orders"]);
    let (mut ids, mut snowflakes) = (Ledger::new(), Ledger::new());
    for round in 0..6 {
        for (number, leaf) in leaves.iter().enumerate() {
            let orders = leaf.segment("orders");
            ids.add((0..500).map(|_| orders.next().expect("an id").get()));
            let node = format!("node {number} {round}");
            let events = leaf.snowflake(SnowflakeConfig::new(&node));
            let events = events.expect("a generator");
            snowflakes.add((0..500).map(|_| events.next().expect("an id").get()));
        }
        ids.add(serve.ids("orders", 100));
        snowflakes.add(serve.get("/v1/snowflake?count=100").ids());
        server.restart(Mode::Immediate);
    }
    assert_eq!((ids.len(), snowflakes.len()), (6600, 6600));
}

/// A block whose answer was lost is not used, and the next one is another.
#[test]
fn block_is_dropped_if_the_connection_is_lost_before_the_server_is_ready_again() {
    let (server, mut client) = Server::options().plain().start_with_orders(100);
    let relay = Relay::start(&server, Duration::ZERO);
    let config = Config::new(&relay.connection_string()).expect("a connection string");
    let config = config.query_timeout(Duration::from_secs(1));
    let leaf = Leaf::new(config).expect("a handle");
    let orders = leaf.segment("orders");
    let mut ids = Ledger::new();
    ids.add([orders.next().expect("an id").get()]);
    let granted =
        |client: &mut leaf_tests::postgres::Client| client.number("SELECT max_id FROM leaf.alloc");
    wait_until("both buffers are full", || orders.stats().buffered > 150);
    relay.lose_answers(true);
    let before = granted(&mut client);
    let drawn: Vec<_> = (0..150)
        .map(|_| orders.next().expect("an id").get())
        .collect();
    ids.add(drawn);
    wait_until("a block is granted whose answer is lost", || {
        granted(&mut client) > before
    });
    let lost = granted(&mut client);
    relay.lose_answers(false);
    let later: Vec<_> = (0..300)
        .map(|_| orders.next().expect("an id").get())
        .collect();
    assert!(
        later.iter().all(|id| *id < before || *id >= lost),
        "{before} {lost} {later:?}"
    );
    ids.add(later);
    leaf.close().expect("the server answers");
}

/// A service that has met no edition asks again.
#[test]
fn service_that_was_started_before_the_install_draws_after_it() {
    let server = Server::options().plain().bare().start();
    let leaf = leaf(&server.connection_string());
    let orders = leaf.segment("orders");
    orders.next().expect_err("there is nothing");
    server
        .connect()
        .run("CREATE ROLE installer LOGIN; ALTER DATABASE postgres OWNER TO installer");
    Said::by(
        leafctl_on(&server)
            .env("PGUSER", INSTALLER)
            .args(["plain", "install"]),
    )
    .done();
    server.connect().run("SELECT leaf_tag_create('orders')");
    wait_until("it draws", || orders.next().is_ok());
}

/// While it waits for something that needs commits, no standby confirms these, and somebody cancels
/// the waits for that, of which PostgreSQL only warns.
fn unconfirmed<T: Send>(server: &Server, work: impl FnOnce() -> T + Send) -> T {
    let mut admin = server.connect();
    server.reload("synchronous_standby_names", "nobody");
    thread::scope(|scope| {
        let working = scope.spawn(work);
        // The second one shows that the first has led to nothing.
        let mut cancelled = "-infinity".to_owned();
        for _ in 0..2 {
            wait_until("a commit waits", || {
                let last = admin.text(&format!(
                    "SELECT coalesce(max(xact_start)::text, '') FROM pg_stat_activity, pg_cancel_backend(pid)
                      WHERE wait_event = 'SyncRep' AND xact_start > '{cancelled}'"
                ));
                if !last.is_empty() {
                    cancelled.clone_from(&last);
                }
                !last.is_empty()
            });
        }
        assert!(!working.is_finished());
        server.reload("synchronous_standby_names", "");
        working.join().expect("no panic")
    })
}

/// A failover may lose it. Also if the role does not want to see warnings.
#[test]
fn what_no_standby_has_confirmed_is_not_used() {
    let (server, mut client) = Server::options().plain().start_with_orders(1000);
    client.run("ALTER DATABASE postgres SET client_min_messages = error");
    let leaf = leaf(&server.connection_string());
    let id = unconfirmed(&server, || leaf.segment("orders").next().expect("an id"));
    assert!(id.get() > 2000, "{id}");
    let events = leaf.snowflake(SnowflakeConfig::new("checkout-7"));
    let events = events.expect("a generator");
    unconfirmed(&server, || events.next().expect("an id"));
}

/// Nor is it success for those who move a tag.
#[test]
fn change_that_no_standby_has_confirmed_is_a_failure() {
    let (server, _client) = Server::options().plain().start_with_orders(1000);
    server.reload("synchronous_standby_names", "nobody");
    let said = thread::scope(|scope| {
        let mut leafctl = leafctl_on(&server);
        leafctl.env("PGUSER", INSTALLER);
        leafctl.args(["tags", "alter", "orders", "--advance-to", "5000"]);
        let working = scope.spawn(move || Said::by(&mut leafctl));
        let cancel = "SELECT count(pg_cancel_backend(pid)) FROM pg_stat_activity WHERE wait_event = 'SyncRep'";
        wait_until("its commit waits", || server.connect().number(cancel) > 0);
        working.join().expect("no panic")
    });
    assert!(said.failed(1).contains("might not have been replicated"));
}

/// What doctor can see without the library.
#[test]
fn doctor_finds_what_is_wrong() {
    let (server, mut client) = Server::options().plain().start_with_orders(1000);
    client.run(
        "SELECT leaf_tag_create('small', start => 95, max_value => 100);
                ALTER TABLE leaf.alloc DISABLE TRIGGER leaf_check",
    );
    let said = Said::by(leafctl_on(&server).env("PGUSER", INSTALLER).arg("doctor"));
    assert_eq!(said.code, Some(4), "{}", said.err);
    for found in ["tag \"small\"", "trigger leaf_check does not fire always"] {
        assert!(said.out.contains(found), "{}", said.out);
    }
    assert!(!said.out.contains("orders"), "{}", said.out);
    refused(
        client.simple_query("CALL leaf_segment_reserve('small', 10)"),
        "2200H",
    );
}
