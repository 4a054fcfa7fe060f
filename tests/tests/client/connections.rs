//! The client library's connections: statements that have to wait, and hosts that do
//! not answer.

use crate::PATIENCE;
use leaf_sdk::{Config, Error, IdSource, Leaf, SegmentSource};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Mode, Server, Tls, wait_until};
use std::io::{Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::time::Duration;

/// Longer than any test.
const HOUR: Duration = Duration::from_secs(3600);

/// A server on which callers wait for ten minutes, with the tags `locked`, whose row
/// the session returned has locked, and `orders`.
fn server_with_a_locked_tag(tls: Option<&Tls>) -> (Server, Client) {
    let options = Server::options()
        .set("leaf.wait_timeout", "10min")
        .set("statement_timeout", "0");
    let options = match tls {
        Some(tls) => options.tls(tls),
        None => options,
    };
    let (server, mut client) = options.start_with_orders(100);
    client.run("SELECT leaf_tag_create('locked')");
    client.run("BEGIN; SELECT * FROM leaf.alloc WHERE biz_tag = 'locked' FOR UPDATE");
    (server, client)
}

/// A configuration that tries everything once.
fn config(connection: &str) -> Config {
    Config::new(connection)
        .expect("a connection string")
        .timeout(PATIENCE)
        .query_timeout(HOUR)
        .retry_between(HOUR, HOUR)
}

/// Statements of the client library that are being executed.
fn statements(server: &Server) -> i64 {
    server.connect().number(
        "SELECT count(*) FROM pg_stat_activity
          WHERE application_name = 'leaf-sdk' AND state = 'active'",
    )
}

/// Requests ids of the locked tag until its statement waits at the server: a request to cancel that comes while the
/// server still reads would be ignored.
#[must_use = "a tag that has no source and no ids is forgotten"]
fn wait_for_the_lock(server: &Server, leaf: &Leaf) -> SegmentSource {
    let locked = leaf.segment("locked");
    assert!(locked.try_next().is_none());
    let waits = "SELECT count(*) FROM pg_stat_activity
                  WHERE application_name = 'leaf-sdk' AND state = 'active' AND wait_event_type <> 'Client'";
    wait_until("the statement waits", || {
        server.connect().number(waits) == 1
    });
    locked
}

#[test]
fn handle_connects_before_ids_are_requested_and_says_if_it_cannot() {
    let mut server = Server::start();
    let leaf = Leaf::new(config(&server.connection_string())).expect("a handle");
    assert_eq!(leaf.health().is_reachable, None);
    leaf.connect().expect("a connection");
    assert_eq!(leaf.health().is_reachable, Some(true));
    server.stop(Mode::Fast);
    // Without a call that would ask the server.
    wait_until("the end of the connection is noticed", || {
        leaf.health().is_reachable == Some(false)
    });
    let leaf = Leaf::new(config(&server.connection_string())).expect("a handle");
    assert!(matches!(leaf.connect(), Err(Error::Connection(_))));
    assert_eq!(leaf.health().is_reachable, Some(false));
}

#[test]
fn tag_that_waits_hinders_no_other_when_the_handle_is_closed() {
    let (server, mut holder) = server_with_a_locked_tag(None);
    let config = config(&server.connection_string()).timeout(Duration::from_secs(3));
    let leaf = Leaf::new(config).expect("a handle");
    let _locked = wait_for_the_lock(&server, &leaf);
    leaf.segment("orders").next().expect("an id");
    leaf.close().expect_err("one tag waits");
    let position = "SELECT max_id FROM leaf.alloc WHERE biz_tag = 'orders'";
    assert_eq!(server.connect().number(position), 2);
    holder.run("ROLLBACK");
}

/// As psql does, it goes on without a password file that is none.
#[test]
fn file_of_a_connection_string_that_has_no_end_is_not_read() {
    let (server, _) = Server::with_orders(100);
    let folder = tempfile::tempdir().expect("a folder");
    let pipe = folder.path().join("pipe");
    let made = Command::new("mkfifo")
        .arg("-m")
        .arg("600")
        .arg(&pipe)
        .status();
    assert!(made.expect("mkfifo").success());
    let large = folder.path().join("large");
    std::fs::File::create(&large)
        .and_then(|file| file.set_len(2 << 20))
        .expect("a file");
    for file in [pipe.as_path(), "/dev/zero".as_ref(), &large] {
        let file = file.display();
        let connection = format!("{} passfile={file}", server.connection_string());
        let leaf = Leaf::new(config(&connection)).expect("a handle");
        leaf.segment("orders").next().expect("an id");
        leaf.close().expect("an end");
        for named in ["service=a servicefile", "sslmode=verify-full sslrootcert"] {
            let connection = format!("host=localhost {named}={file}");
            let refused = Config::new(&connection).and_then(|config| Leaf::new(config)?.connect());
            let error = refused.expect_err("it is not read");
            assert!(
                matches!(error, Error::Config(_)),
                "{named}={file}: {error:?}"
            );
        }
    }
}

#[test]
fn locked_tag_delays_no_other() {
    let (server, _holder) = server_with_a_locked_tag(None);
    let leaf = Leaf::new(config(&server.connection_string())).expect("a handle");
    let _locked = wait_for_the_lock(&server, &leaf);
    leaf.segment("orders").next_n(5_000).expect("ids");
    assert_eq!(statements(&server), 1, "the other statement still waits");
}

#[test]
fn statement_given_up_is_cancelled_at_the_server() {
    let (server, _holder) = server_with_a_locked_tag(None);
    let config = config(&server.connection_string()).query_timeout(Duration::from_secs(1));
    let leaf = Leaf::new(config).expect("a handle");
    let _locked = wait_for_the_lock(&server, &leaf);
    wait_until("it is given up", || {
        leaf.stats()["locked"].last_error.is_some()
    });
    wait_until("it is cancelled", || statements(&server) == 0);
    leaf.segment("orders").next().expect("an id");
}

#[test]
fn statement_given_up_is_cancelled_over_tls() {
    let tls = Tls::new();
    let (server, _holder) = server_with_a_locked_tag(Some(&tls));
    let string = format!(
        "host=127.0.0.1 port={} user=postgres dbname=postgres",
        server.port()
    );
    // Nothing but TLS is accepted.
    server.write(
        "pg_hba.conf",
        b"local all all trust\nhostssl all all all trust\n",
    );
    server.connect().run("SELECT pg_reload_conf()");
    let config = config(&string)
        .query_timeout(Duration::from_secs(1))
        .tls_config(tls.connector());
    let leaf = Leaf::new(config).expect("a handle");
    let _locked = wait_for_the_lock(&server, &leaf);
    wait_until("it is given up", || {
        leaf.stats()["locked"].last_error.is_some()
    });
    wait_until("it is cancelled", || statements(&server) == 0);
}

#[test]
fn statement_of_a_dropped_handle_is_cancelled() {
    let (server, _holder) = server_with_a_locked_tag(None);
    let leaf = Leaf::new(config(&server.connection_string())).expect("a handle");
    let locked = wait_for_the_lock(&server, &leaf);
    drop((locked, leaf));
    wait_until("it is cancelled", || statements(&server) == 0);
}

#[test]
fn host_that_accepts_and_never_answers_is_left_for_the_next() {
    let server = Server::start();
    server.connect().run("SELECT leaf_tag_create('orders')");
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let string = format!(
        "host=127.0.0.1,{} port={},{} user=postgres dbname=postgres connect_timeout=1",
        server.host(),
        silent.local_addr().expect("an address").port(),
        server.port()
    );
    let leaf = Leaf::new(config(&string)).expect("a handle");
    leaf.segment("orders").next().expect("an id");

    let port = silent.local_addr().expect("an address").port();
    let alone = format!("host=127.0.0.1 port={port} user=postgres connect_timeout=1");
    let config = config(&alone).timeout(Duration::from_millis(1_500));
    let alone = Leaf::new(config).expect("a handle");
    let mut said = String::new();
    wait_until("the error names the host", || {
        said = alone
            .segment("orders")
            .next()
            .expect_err("no server")
            .to_string();
        said.contains(&format!("host \"127.0.0.1\", port {port} did not answer"))
    });
}

#[test]
fn connections_are_few() {
    let (server, _holder) = server_with_a_locked_tag(None);
    let config = config(&server.connection_string());
    let leaf = Leaf::new(config).expect("a handle");
    let _locked = wait_for_the_lock(&server, &leaf);
    let mut client = server.connect();
    for n in 0..10 {
        let tag = format!("tag{n}");
        client.run(&format!("SELECT leaf_tag_create('{tag}')"));
        leaf.segment(&tag).next().expect("an id");
    }
    let all = "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leaf-sdk'";
    assert!(client.number(all) <= 4);
}

/// More than an impostor of the server may send, and more than sockets keep.
const MUCH: usize = 128 << 20;

#[test]
fn impostor_of_the_server_cannot_fill_the_memory() {
    let impostor = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = impostor.local_addr().expect("an address").port();
    let sending = std::thread::spawn(move || {
        let (mut client, _) = impostor.accept().expect("a client");
        let _ = client.read(&mut [0; 1024]);
        // A message of two gigabytes.
        let mut sent = client.write(b"E\x7f\xff\xff\xff").expect("a header");
        let zeros = vec![0; 1 << 16];
        while sent < MUCH {
            match client.write(&zeros) {
                Ok(count) => sent += count,
                Err(_) => break,
            }
        }
        sent
    });
    let string = format!("host=127.0.0.1 port={port} user=postgres dbname=postgres");
    let leaf = Leaf::new(config(&string)).expect("a handle");
    let error = leaf.connect().expect_err("no server");
    assert!(error.to_string().contains("too much"), "{error}");
    assert!(sending.join().expect("no panic") < MUCH);
}
