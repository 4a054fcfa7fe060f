//! The process: its start, its end, signals, and what it logs.

use std::io::Write;

use leaf_tests::{Draw, Mode, Serve, Server, Signal, wait_for_caller, wait_until};

/// Where a tag stands: the first number that is not granted.
fn max_id(server: &Server) -> i64 {
    server
        .connect()
        .number("SELECT max_id FROM leaf.alloc WHERE biz_tag = 'orders'")
}

#[test]
fn graceful_end_hands_ids_back() {
    let (server, _) = Server::with_orders(1000);
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let serve = Serve::start(&server, &[]);
        let last = *serve.ids("orders", 10).last().expect("ids");
        assert!(max_id(&server) > last + 1);
        serve.signal(signal);
        let (status, log) = serve.ended();
        assert!(status.success(), "{status}\n{log}");
        assert_eq!(max_id(&server), last + 1, "{log}");
    }
}

#[test]
fn graceful_end_returns_the_worker_id() {
    let server = Server::start();
    let serve = Serve::start(&server, &["--node=here"]);
    serve.get("/v1/snowflake").ids();
    let leased = "SELECT count(*) FROM leaf.worker WHERE node = 'here' AND leased_until > now()";
    let mut client = server.connect();
    assert_eq!(client.number(leased), 1);
    serve.stop();
    assert_eq!(client.number(leased), 0);
}

#[test]
fn requests_under_way_end_before_the_process_does() {
    let (server, mut client) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--wait=30s"]);
    // The row is locked: the request waits.
    let mut transaction = client.transaction().expect("a transaction");
    transaction
        .execute("SELECT * FROM leaf.alloc FOR UPDATE", &[])
        .expect("a lock");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| serve.get("/v1/segment/orders"));
        wait_for_caller(&server);
        serve.signal(Signal::SIGTERM);
        wait_until("no connection is accepted", || {
            std::net::TcpStream::connect(serve.address()).is_err()
        });
        transaction.commit().expect("a commit");
        let answer = waiting.join().expect("no panic");
        assert_eq!(answer.ids().len(), 1);
    });
    let (status, log) = serve.ended();
    assert!(status.success(), "{status}\n{log}");
}

#[test]
fn second_signal_ends_it_at_once() {
    let (server, mut client) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--wait=1h", "--grace=1h"]);
    let mut transaction = client.transaction().expect("a transaction");
    transaction
        .execute("SELECT * FROM leaf.alloc FOR UPDATE", &[])
        .expect("a lock");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| serve.try_get("/v1/segment/orders"));
        wait_for_caller(&server);
        serve.signal(Signal::SIGTERM);
        wait_until("no connection is accepted", || {
            std::net::TcpStream::connect(serve.address()).is_err()
        });
        serve.signal(Signal::SIGTERM);
        assert!(waiting.join().expect("no panic").is_err());
    });
    let (status, _) = serve.ended();
    assert_eq!(status.code(), Some(130));
    transaction.rollback().expect("a rollback");
}

#[test]
fn end_is_bounded_by_grace_even_if_the_database_takes_nothing_back() {
    let (server, mut client) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--wait=1h", "--grace=2s"]);
    serve.ids("orders", 1);
    let mut transaction = client.transaction().expect("a transaction");
    transaction
        .execute("SELECT * FROM leaf.alloc FOR UPDATE", &[])
        .expect("a lock");
    serve.signal(Signal::SIGTERM);
    let (status, log) = serve.ended();
    assert!(status.success(), "{status}");
    assert!(log.contains("within --grace"), "{log}");
    transaction.rollback().expect("a rollback");
}

#[test]
fn half_sent_header_does_not_delay_the_end() {
    let (server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--grace=1h", "--io-timeout=1h"]);
    let mut stream = std::net::TcpStream::connect(serve.address()).expect("a connection");
    stream.write_all(b"GET / HTTP/1.1\r\nho").expect("a start");
    wait_until("the connection is there", || {
        serve.metric("leafctl_connections") >= 2.0
    });
    serve.signal(Signal::SIGTERM);
    let (status, log) = serve.ended();
    assert!(status.success(), "{status}\n{log}");
}

#[test]
fn missing_tag_does_not_keep_others_from_being_fetched_nor_the_server_from_being_unready() {
    let (server, mut client) = Server::with_orders(1000);
    let tags: Vec<_> = (0..8).map(|number| format!("tag{number}")).collect();
    let mut options = vec!["--tag=missing".to_owned()];
    for tag in &tags {
        client.run(&format!("SELECT leaf_tag_create('{tag}')"));
        options.push(format!("--tag={tag}"));
    }
    let options: Vec<_> = options.iter().map(String::as_str).collect();
    let serve = Serve::start(&server, &options);
    for tag in &tags {
        let name = format!("leafctl_buffered_ids{{tag=\"{tag}\"}}");
        wait_until("its ids are at hand", || serve.metric(&name) > 0.0);
    }
    assert_eq!(serve.get("/readyz").status, 503);
    client.run("SELECT leaf_tag_create('missing')");
    serve.wait_ready();
}

#[test]
fn it_starts_while_the_database_is_away_and_becomes_ready_with_it() {
    let (mut server, _) = Server::with_orders(1000);
    server.stop(Mode::Fast);
    for options in [&[][..], &["--tag=orders"]] {
        let serve = Serve::start(&server, options);
        assert_eq!(serve.get("/healthz").body, "ok\n");
        assert_eq!(serve.get("/readyz").status, 503);
        server.start_again();
        serve.wait_ready();
        serve.ids("orders", 1);
        server.stop(Mode::Fast);
        // Ids are still at hand.
        assert_eq!(serve.get("/readyz").status, 200);
    }
}

#[test]
fn address_of_other_machines_needs_tokens_or_a_word() {
    let server = Server::start();
    let connection = server.connection_string();
    let refused = Serve::command(&connection, &["--listen=0.0.0.0:0"])
        .output()
        .expect("leafctl");
    assert_eq!(refused.status.code(), Some(2));
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(
        said.contains("--tokens") && said.contains("--no-auth") && said.lines().count() == 1,
        "{said}"
    );
    Serve::launch(&mut Serve::command(
        &connection,
        &["--listen=0.0.0.0:0", "--no-auth"],
    ))
    .stop();
}

#[test]
fn event_is_one_line_of_the_log_whatever_callers_put_into_it() {
    let server = Server::start();
    let serve = Serve::start(&server, &["--log-level=info"]);
    let forged = "x%0A2026-11-22T18:14:24Z%20%20INFO%20leafctl::serve:%20forged%1B%5B2J%0Dy";
    assert_eq!(serve.get(&format!("/v1/segment/{forged}")).status, 404);
    wait_until("the refusal is logged", || serve.log().contains("forged"));
    let log = serve.log();
    let lines = log.lines().filter(|line| line.contains("forged"));
    for line in lines {
        assert!(line.contains("refill failed"), "{log}");
        assert!(line.contains("\\x1B[2J"), "{log}");
    }
    assert!(!log.contains(['\x1b', '\r']), "{log}");
}

#[test]
fn log_has_a_line_per_request_in_json_and_no_secret() {
    let (server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--log-format=json"]);
    let secret = [("authorization", "Bearer hidden1")];
    serve
        .get_with("/v1/segment/orders?token=hidden2", &secret)
        .expect("an answer");
    serve.get("/tinyid/id/nextId?bizType=orders&token=hidden3");
    wait_until("both are logged", || {
        serve.log().contains("/tinyid/id/nextId")
    });
    let log = serve.log();
    let line = log
        .lines()
        .find(|line| line.contains("/v1/segment/{tag}"))
        .expect("a line");
    let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(line["status"], 200);
    assert!(!log.contains("hidden"), "{log}");
    for line in log.lines() {
        assert!(
            serde_json::from_str::<serde_json::Value>(line).is_ok(),
            "{line}"
        );
    }
}
