//! What services do with the client library every day: warm up, report their health,
//! configure the connection, stop using a tag.

use crate::{HASTE, PATIENCE, config};
use leaf_sdk::{Config, Error, IdSource, Leaf, MemorySource, SegmentId, SnowflakeConfig};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Mode, Server, Service, wait_until};
use std::process::Command;
use std::time::Duration;
use std::{fs, thread};

fn leaf(server: &Server) -> Leaf {
    Leaf::new(config(server, PATIENCE)).expect("a handle")
}

fn granted(client: &mut Client) -> i64 {
    client.number("SELECT max_id FROM leaf.alloc WHERE biz_tag = 'orders'")
}

#[test]
fn source_that_is_ready_has_ids_and_has_taken_none() {
    let (server, mut client) = Server::with_orders(100);
    client.run("SELECT leaf_tag_create('items')");
    let leaf = leaf(&server);
    let orders = leaf.segment("orders");
    orders.ready().expect("ids");
    assert_eq!(orders.try_next(), Some(SegmentId::new(1)));
    leaf.prefill(&["orders", "items"]).expect("ids");
    assert_eq!(leaf.segment("items").try_next(), Some(SegmentId::new(1)));
    let events = leaf.snowflake(SnowflakeConfig::new("node"));
    let events = events.expect("a generator");
    events.ready().expect("a lease");
    assert!(events.try_next().is_some());

    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let blocked = leaf.segment("missing").ready();
        assert!(matches!(blocked, Err(Error::WouldBlockRuntime)));
        leaf.prefill_async(&["orders"]).await.expect("ids");
        events.ready_async().await.expect("a lease");
    });
    leaf.close().expect("the server answers");
    assert!(matches!(orders.ready(), Err(Error::Closed)));
    assert!(matches!(events.ready(), Err(Error::Closed)));
}

#[test]
fn health_tells_of_the_server_and_of_tags_that_starve() {
    let (mut server, _) = Server::with_orders(100);
    let leaf = Leaf::new(config(&server, HASTE)).expect("a handle");
    let health = leaf.health();
    assert!(
        health.is_healthy() && health.is_reachable.is_none(),
        "{health:?}"
    );
    let orders = leaf.segment("orders");
    wait_until("there are ids", || orders.next().is_ok());
    assert_eq!(leaf.health().is_reachable, Some(true));
    // A tag that somebody has made up is no outage.
    leaf.segment("missing").next().expect_err("no such tag");
    assert!(leaf.health().is_healthy());
    let events = SnowflakeConfig::new("a").lease(Duration::from_secs(1));
    let events = leaf.snowflake(events).expect("a generator");
    wait_until("there is a lease", || events.next().is_ok());

    server.stop(Mode::Immediate);
    wait_until("ids are used up", || orders.next().is_err());
    wait_until("the lease has ended", || events.next().is_err());
    assert_eq!(leaf.health().starving, ["orders", "a"]);
    thread::scope(|scope| {
        let waiter = scope.spawn(|| orders.next_timeout(PATIENCE));
        wait_until("a call waits", || leaf.health().starving == ["orders", "a"]);
        let health = leaf.health();
        assert!(!health.is_healthy(), "{health:?}");
        assert_eq!(health.is_reachable, Some(false), "{health:?}");
        assert!(health.last_error.is_some(), "{health:?}");
        server.start_again();
        waiter.join().expect("no panic").expect("an id");
    });
    wait_until("there is a lease again", || events.next().is_ok());
    assert!(leaf.health().is_healthy());
    assert_eq!(leaf.health().is_reachable, Some(true));
    leaf.close().expect("the server answers");
    assert!(leaf.health().is_closed && !leaf.health().is_healthy());
}

#[test]
fn tag_that_is_closed_returns_its_ids_and_can_be_used_again() {
    let (server, mut client) = Server::with_orders(100);
    client.run("SELECT leaf_tag_create('items')");
    let leaf = leaf(&server);
    let (orders, items) = (leaf.segment("orders"), leaf.segment("items"));
    items.next().expect("an id");
    let last = orders.next_n(10).expect("ids")[9].get();
    orders.close().expect("the server answers");
    assert_eq!(granted(&mut client), last + 1);
    assert!(matches!(orders.next(), Err(Error::Closed)));
    assert!(!leaf.stats().contains_key("orders"));
    items.next().expect("another tag is not closed");
    let again = leaf.segment("orders").next().expect("an id");
    assert_eq!(again.get(), last + 1);
}

#[test]
fn configuration_comes_from_the_driver_a_service_or_the_environment() {
    let (server, _) = Server::with_orders(100);
    let draw = |config: Config| {
        let leaf = Leaf::new(config.timeout(PATIENCE)).expect("a handle");
        leaf.segment("orders").next().expect("an id");
        let query = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leaf-sdk'";
        assert!(server.connect().number(query) > 0);
    };
    let driver: tokio_postgres::Config = server.connection_string().parse().expect("a string");
    draw(Config::try_from(driver).expect("a configuration"));

    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("services");
    let service = format!(
        "[shop]\nhost={}\nport={}\nuser=postgres\n",
        server.host(),
        server.port()
    );
    fs::write(&file, service).expect("a file");
    let string = format!(
        "service=shop dbname=postgres servicefile={}",
        file.display()
    );
    draw(Config::new(&string).expect("a configuration"));

    let mut drawer = Command::new(env!("CARGO_BIN_EXE_drawer"));
    let drawer = drawer
        .arg("from the environment")
        .env("PGSERVICE", "shop")
        .env("PGSERVICEFILE", &file)
        .env("PGDATABASE", "postgres");
    let service = Service::start(drawer);
    let before = granted(&mut server.connect());
    wait_until("it draws", || granted(&mut server.connect()) > before);
    assert!(service.end().iter().all(|ids| !ids.is_empty()));
}

#[test]
fn handle_shows_no_password() {
    let config = Config::new("host=db user=shop password=secret").expect("a string");
    let leaf = Leaf::new(config).expect("a handle");
    let events = leaf.snowflake(SnowflakeConfig::new("node"));
    let shown = format!("{leaf:?} {:?} {events:?}", leaf.segment("orders"));
    assert!(!shown.contains("secret"), "{shown}");
    assert!(
        shown.contains("shop") && shown.contains("orders"),
        "{shown}"
    );
}

#[test]
fn code_that_takes_any_source_works_without_a_server() {
    fn place<S: IdSource>(ids: &S, items: usize) -> Result<Vec<i64>, Error> {
        ids.ready()?;
        let first = ids.next()?.into();
        let more = ids.next_n(items)?.into_iter().map(Into::into);
        Ok([first].into_iter().chain(more).collect())
    }
    let ids = MemorySource::<SegmentId>::starting_at(5);
    assert_eq!(place(&ids, 3).expect("ids"), [5, 6, 7, 8]);
    ids.fail_with(Error::Closed);
    assert!(matches!(place(&ids, 1), Err(Error::Closed)));
    assert!(ids.try_next().is_none());
}
