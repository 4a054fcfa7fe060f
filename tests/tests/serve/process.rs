//! The process: its start, its end, signals, and what it logs.

use leaf_tests::{Draw, Mode, Serve, Server, Signal, wait_until};

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

/// Whether a request is being answered, beside the one that asks.
fn is_waiting(serve: &Serve) -> bool {
    serve.metric("leafctl_connections") >= 2.0
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
        wait_until("the request waits", || is_waiting(&serve));
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
        wait_until("the request waits", || is_waiting(&serve));
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
