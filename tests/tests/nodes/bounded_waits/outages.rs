//! A centre that is away, silent or not the right one any more.

use leaf_tests::{
    Centre, Draw, Ledger, Mode, Relay, Server, attach, draw_many, refused, wait_until,
};
use std::net::TcpListener;
use std::time::{Duration, Instant};

#[test]
fn tag_without_a_usable_upstream_raises_55000() {
    let centre = Centre::start();
    centre.create("orders", "");
    let shard = centre.shard();
    attach(&shard, "orders", 10);
    shard.reload("leaf.upstream", "");
    let mut client = shard.connect();
    refused(client.next("orders"), "55000");
    refused(client.reserve("orders", 5), "55000");
    // ALTER SYSTEM would refuse it.
    client.run("ALTER SYSTEM RESET leaf.upstream");
    shard.configure("leaf.upstream = 'host'\n");
    shard.reload("leaf.upstream_timeout", "1s");
    assert_eq!(client.text("SHOW leaf.upstream"), "host");
    refused(client.next("orders"), "55000");
    shard.reload("leaf.upstream", &centre.upstream());
    client.next("orders").expect("an id");
}

#[test]
fn callers_go_on_while_buffers_last_and_then_get_a_fixed_text() {
    let mut centre = Centre::start();
    centre.create("orders", "");
    let shard = centre.shard();
    shard.connect().run("CREATE ROLE joe LOGIN");
    attach(&shard, "orders", 1000);
    let mut client = shard.connect();
    client.run("SELECT leaf_tag_grant('orders', 'joe')");
    client.next("orders").expect("an id");
    centre.0.stop(Mode::Immediate);
    let mut joe = shard.connect_as("joe", "postgres");
    let ids = joe.batch("orders", 999).expect("the buffer");
    assert_eq!(ids.len(), 999);
    joe.run("SET leaf.wait_timeout = '500ms'");
    let error = refused(joe.next("orders"), "55P03");
    let (detail, hint) = (error.detail().unwrap(), error.hint().unwrap());
    for text in [error.message(), detail, hint] {
        let has_secret = text.contains(&centre.0.host()) || text.contains("shard");
        assert!(!has_secret, "{error:?}");
    }
    assert!(detail.contains("the centre cannot be reached"), "{detail}");
    refused(joe.reserve("orders", 5), "55P03");
    // Whoever sees leaf.stat_upstream is told at once.
    client.run("SET leaf.wait_timeout = '500ms'; SELECT leaf_tag_create('parcels')");
    let error = refused(
        client.batch_execute("SELECT leaf_tag_attach('parcels')"),
        "55P03",
    );
    let detail = error.detail().expect("a detail");
    assert!(detail.contains(&centre.0.host()), "{detail}");
    let cause = "SELECT count(*) FROM leaf.stat_upstream WHERE last_error ~ 'leaf-'";
    assert_eq!(client.number(cause), 1);
    assert!(
        shard
            .log()
            .contains("could not get ids of the centre's tag \"orders\"")
    );
    centre.0.start_again();
    let mut patient = shard.connect();
    patient.next("orders").expect("an id");
}

#[test]
fn views_say_how_long_a_fed_tag_can_go_on_without_the_centre() {
    let mut centre = Centre::start();
    centre.create("orders", "");
    let shard = centre.shard();
    attach(&shard, "orders", 1000);
    let mut client = shard.connect();
    draw_many(&mut client, "orders", 800);
    wait_until("the next segment is there", || {
        client.stat("orders", "next_left") > 0
    });
    centre.0.stop(Mode::Fast);
    // Some time after a load, the speed is that of what has been drawn since.
    client.next("orders").expect("an id");
    let (left, buffered) = (
        client.stat("orders", "ids_left"),
        client.stat("orders", "current_left + next_left"),
    );
    assert_eq!(left, buffered);
    let unlimited = "SELECT count(*) FROM leaf.stat_segment
                      WHERE time_left IS NULL OR used_percent IS NOT NULL OR upstream_tag <> 'orders'";
    assert_eq!(client.number(unlimited), 0);
    assert_eq!(
        draw_many(&mut client, "orders", left as usize).len() as i64,
        left
    );
    assert_eq!(client.stat("orders", "ids_left"), 0);
}

/// How long a command, the end of a loader or a stop may take: commands give up after five seconds.
const SOON: Duration = Duration::from_secs(2);

/// Runs the commands that wait for sessions to leave a database, or for an answer of each process,
/// ends a loader, and stops the server: each while the centre is being asked from the database, after
/// `prepare`.
fn commands_are_not_held_up(shard: &mut Server, prepare: impl Fn(&Server, &str)) {
    let mut client = shard.connect();
    client.run("SELECT leaf_tag_create('orders')");
    client.run("CREATE DATABASE other");
    let mut other = shard.connect_as("postgres", "other");
    other.run("CREATE EXTENSION leaf; SELECT leaf_tag_create('orders')");
    drop(other);
    client.run("SET allow_in_place_tablespaces = on");
    client.run("CREATE TABLESPACE space LOCATION ''");
    client.run("CREATE TABLE spacious (a int) TABLESPACE space; DROP TABLE spacious");
    for (asking, command) in [
        ("other", "ALTER DATABASE other RENAME TO another"),
        ("another", "CREATE DATABASE copy TEMPLATE another"),
        ("another", "DROP TABLESPACE space"),
        ("another", "DROP DATABASE another"),
        ("copy", "DROP DATABASE copy WITH (FORCE)"),
    ] {
        prepare(shard, asking);
        ask_in_vain(shard, asking);
        let began = Instant::now();
        client.run(command);
        let took = began.elapsed();
        assert!(took < SOON, "{command}: {took:?}");
    }
    prepare(shard, "postgres");
    ask_in_vain(shard, "postgres");
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'leaf loader'";
    let began = Instant::now();
    while client.number(end) > 0 {
        assert!(began.elapsed() < SOON, "the loader has not ended");
    }
    prepare(shard, "postgres");
    ask_in_vain(shard, "postgres");
    let began = Instant::now();
    shard.stop(Mode::Fast);
    let took = began.elapsed();
    assert!(took < SOON, "a fast stop: {took:?}");
}

/// Gives up while the centre is being asked.
fn ask_in_vain(shard: &Server, database: &str) {
    let mut client = shard.connect_as("postgres", database);
    client.run("SET leaf.wait_timeout = '300ms'");
    refused(
        client.batch_execute("SELECT leaf_tag_attach('orders')"),
        "55P03",
    );
}

#[test]
fn name_that_is_not_resolved_holds_nothing_up() {
    let mut shard = Server::options()
        .black_hole()
        .set(
            "leaf.upstream",
            "host=black.hole user=shard dbname=postgres",
        )
        .start();
    commands_are_not_held_up(&mut shard, |_, _| ());
}

#[test]
fn peer_that_never_answers_holds_nothing_up() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    let upstream = format!("host=127.0.0.1 port={port} user=shard dbname=postgres");
    let mut shard = Server::options().set("leaf.upstream", &upstream).start();
    commands_are_not_held_up(&mut shard, |_, _| ());
}

#[test]
fn centre_that_answers_no_more_holds_nothing_up() {
    let centre = Centre::start();
    centre.create("orders", "");
    let (relay, options) = centre.behind_relay();
    let mut shard = options.start();
    commands_are_not_held_up(&mut shard, |shard, database| {
        relay.lose_answers(false);
        let mut client = shard.connect_as("postgres", database);
        wait_until("the centre has answered", || {
            client
                .batch_execute("SELECT leaf_tag_attach('orders')")
                .is_ok()
        });
        relay.lose_answers(true);
    });
}

#[test]
fn tags_of_the_shard_itself_do_not_wait_for_a_centre_that_is_away() {
    let mut centre = Centre::start();
    centre.create("orders", "");
    let shard = centre.shard();
    attach(&shard, "orders", 10);
    let mut client = shard.connect();
    client.next("orders").expect("an id");
    client.run("SELECT leaf_tag_create('local', step => 100, max_step => 100)");
    client.next("local").expect("an id");
    client.run("SELECT leaf_stat_reset('local')");
    centre.0.stop(Mode::Immediate);
    let mut fed = shard.connect();
    fed.run("SET leaf.wait_timeout = '50ms'");
    while fed.next("orders").is_ok() {}
    for _ in 0..50 {
        refused(fed.next("orders"), "55P03");
        wait_until("there are ids", || {
            client.stat("local", "current_left + next_left") >= 40
        });
        draw_many(&mut client, "local", 40);
    }
    assert_eq!(client.stat("local", "waits"), 0);
}

#[test]
fn host_that_accepts_and_never_answers_is_left_for_the_next() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let silent = listener.local_addr().expect("an address").port();
    let centre = Centre::start();
    centre.create("orders", "");
    let relay = Relay::start(&centre.0, Duration::ZERO);
    let (_, port) = relay.address();
    let upstream =
        format!("host=127.0.0.1,127.0.0.1 port={silent},{port} user=shard dbname=postgres");
    let shard = Server::options()
        .set("leaf.upstream", &upstream)
        .set("leaf.upstream_timeout", "1s")
        .set("leaf.wait_timeout", "20s")
        .start();
    attach(&shard, "orders", 10);
    shard.connect().next("orders").expect("an id");
    drop(listener);
}

#[test]
fn partitioned_old_leader_that_still_accepts_is_left_for_the_new_one() {
    let centre = Centre::of(
        Server::options()
            .set("leaf.wait_timeout", "500ms")
            .set("leaf.lossless_failover", "on"),
    );
    centre.create("orders", "");
    let standby = Server::options()
        .set("synchronous_standby_names", "")
        .start_standby_of(&centre.0);
    standby.catch_up_with(&centre.0);
    centre.0.reload("synchronous_standby_names", "*");
    let (old, new) = (&centre.0, &standby);
    let upstream = format!(
        "host={},{} port={},{} user=shard dbname=postgres",
        old.host(),
        new.host(),
        old.port(),
        new.port()
    );
    let shard = Server::options()
        .set("leaf.upstream", &upstream)
        .set("leaf.upstream_timeout", "1s")
        .set("leaf.wait_timeout", "20s")
        .start();
    attach(&shard, "orders", 10);
    let mut client = shard.connect();
    client.run("SELECT leaf_tag_alter('orders', max_step => 100)");
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut client, "orders", 100));
    // The old leader goes on, but nobody confirms what it commits.
    new.promote();
    for _ in 0..20 {
        ledger.add(draw_many(&mut client, "orders", 500));
    }
    let host = client.text("SELECT host FROM leaf.stat_upstream");
    assert!(host.contains(&new.host()), "{host}");
    assert!(old.connect().number("SELECT max_id FROM leaf.alloc") < ledger.highest());
}
