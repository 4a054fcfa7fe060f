//! Services that draw from a server without the library: with the client library, over HTTP, and
//! through a pooler; and a shard with the library, which is fed.

use leaf_sdk::{Config, IdSource, Leaf, SnowflakeConfig};
use leaf_tests::{
    Centre, Draw, INSTALLER, Ledger, Mode, Pooler, Said, Serve, Server, Snowflake, attach,
    leafctl_on, wait_until,
};
use std::thread;
use std::time::Duration;

fn leaf(connection: &str) -> Leaf {
    let config = Config::new(connection).expect("a connection string");
    let config = config
        .timeout(Duration::from_secs(60))
        .retry_between(Duration::from_millis(10), Duration::from_millis(100));
    Leaf::new(config).expect("a handle")
}

/// The commands of the manual, from an empty database to ids over HTTP and in Rust.
#[test]
fn first_ids_come_as_the_manual_says() {
    let server = Server::options().plain().start();
    server.connect().run("CREATE ROLE shop LOGIN");
    for arguments in [
        "tags create orders",
        "tags grant orders shop",
        "status",
        "tags list",
        "doctor",
    ] {
        let mut leafctl = leafctl_on(&server);
        leafctl.env("PGUSER", INSTALLER).args(arguments.split(' '));
        let said = Said::by(&mut leafctl);
        assert_eq!(said.code, Some(0), "{arguments}: {}{}", said.out, said.err);
    }
    server.connect_as(INSTALLER, "postgres").run(
        "GRANT EXECUTE ON FUNCTION leaf_worker_register, leaf_worker_renew, leaf_worker_release TO shop",
    );
    let shop = server
        .connection_string()
        .replace("user=postgres", "user=shop");
    let serve = Serve::launch(&mut Serve::command(&shop, &["--tag", "orders"]));
    let mut ids = Ledger::new();
    ids.add(serve.ids("orders", 2));
    let leaf = leaf(&shop);
    ids.add([leaf.segment("orders").next().expect("an id").get()]);
    let events = leaf.snowflake(SnowflakeConfig::new("checkout-7"));
    let mut snowflakes = Ledger::new();
    snowflakes.add(serve.get("/v1/snowflake?count=3").ids());
    let event = events.expect("a generator").next().expect("an id");
    snowflakes.add([event.get()]);
    leaf.close().expect("the server answers");
}

/// Both kinds of ids, without a durable commit by default, directly and through a pooler.
#[test]
fn services_of_a_server_that_is_killed_repeat_nothing() {
    let mut server = Server::options()
        .plain()
        .set("synchronous_commit", "off")
        .start();
    server
        .connect()
        .run("SELECT leaf_tag_create('orders', step => 10)");
    let pooler = Pooler::start(&server, 3);
    let connections = [server.connection_string(), pooler.connection_string()];
    let leaves = connections.map(|connection| leaf(&connection));
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
        server.restart(Mode::Immediate);
    }
    assert_eq!((ids.len(), snowflakes.len()), (6000, 6000));
}

/// A shard with the library takes numbers and its worker id from a centre without it.
#[test]
fn centre_of_a_shard_needs_no_library() {
    let centre = Centre::on(Server::options().plain().start());
    centre.create("orders", "");
    let mut client = centre.0.connect();
    assert_eq!(client.feed("orders", 10), Err("55000".into()));
    client.run("UPDATE leaf.plain SET is_replicated = true");
    let shard = centre.shard();
    attach(&shard, "orders", 100);
    let mut here = shard.connect();
    let mut ids = Ledger::new();
    for _ in 0..5 {
        ids.add(here.batch("orders", 300).expect("ids of the centre"));
        ids.add(client.reserve("orders", 100).expect("a block").ids());
    }
    let id = here.snowflake().expect("an id");
    let worker_id = here.parts(id).worker_id;
    let leased = format!("SELECT count(*) FROM leaf.worker WHERE worker_id = {worker_id}");
    assert_eq!(client.number(&leased), 1);
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

/// Nor is it success for those who move a tag.
#[test]
fn change_that_no_standby_has_confirmed_is_a_failure() {
    let server = Server::options().plain().start();
    let mut owner = server.connect_as(INSTALLER, "postgres");
    owner.run("SELECT leaf_tag_create('orders')");
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

/// A failover may lose it. Also if the role does not want to see warnings.
#[test]
fn what_no_standby_has_confirmed_is_not_used() {
    let centre = Centre::on(Server::options().plain().start());
    let server = &centre.0;
    server.connect().run(
        "SELECT leaf_tag_create('orders');
         UPDATE leaf.plain SET is_replicated = true;
         ALTER DATABASE postgres SET client_min_messages = error",
    );
    let leaf = leaf(&server.connection_string());
    let id = unconfirmed(server, || leaf.segment("orders").next().expect("an id"));
    assert!(id.get() > 2000, "{id}");
    let events = leaf.snowflake(SnowflakeConfig::new("checkout-7"));
    let events = events.expect("a generator");
    unconfirmed(server, || events.next().expect("an id"));
    centre.create("parcels", "");
    let shard = centre.shard();
    attach(&shard, "parcels", 100);
    let id = unconfirmed(server, || shard.connect().next("parcels").expect("an id"));
    assert!(id > 200, "{id}");
}
