//! Faults: no id twice, whatever fails; bounded waits; no crash.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use leaf_tests::{Answers, Clock, Draw, Ledger, Mode, Serve, Server, Stop, wait_until};

#[test]
fn ids_go_on_from_the_buffers_while_the_database_is_away_and_end_with_503() {
    let (mut server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--wait=200ms"]);
    let mut ledger = Ledger::new();
    // On a busy machine, the first ones take longer than a request waits.
    for address in ["/v1/segment/orders", "/v1/snowflake"] {
        wait_until("there are ids", || {
            let answer = serve.get(address);
            let is_served = answer.status == 200;
            if is_served {
                ledger.add(answer.ids());
            }
            is_served
        });
    }
    server.stop(Mode::Immediate);
    ledger.add(serve.ids("orders", 100));
    ledger.add(serve.get("/v1/snowflake?count=100").ids());
    // The last ones, of which there are fewer, one by one.
    let mut answer = serve.get("/v1/segment/orders");
    for address in ["/v1/segment/orders?count=50", "/v1/segment/orders"] {
        while answer.status == 200 {
            ledger.add(answer.ids());
            answer = serve.get(address);
        }
        answer = serve.get("/v1/segment/orders");
    }
    assert_eq!((answer.status, answer.header("retry-after")), (503, "1"));
    assert_eq!(answer.json()["code"], "no_ids");
    let socket = server.host();
    for text in [
        &answer.body,
        &serve.get("/v1/status").body,
        &serve.get("/metrics").body,
    ] {
        assert!(
            !text.contains(&socket) && !text.contains("postgres "),
            "{text}"
        );
    }
    assert_eq!(serve.get("/readyz").status, 503);
    assert_eq!(serve.get("/healthz").status, 200);
    server.start_again();
    wait_until("ids come again", || {
        serve.get("/v1/segment/orders").status == 200
    });
    ledger.add(serve.ids("orders", 1000));
    assert_eq!(serve.get("/readyz").status, 200);
    ledger.add([server.connect().next("orders").expect("an id")]);
}

#[test]
fn request_for_more_than_is_at_hand_takes_no_id_from_others_while_the_database_is_away() {
    let (mut server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--wait=200ms"]);
    wait_until("there are ids", || {
        serve.get("/v1/segment/orders").status == 200
    });
    server.stop(Mode::Immediate);
    let buffered = || serve.get("/v1/status").json()["tags"][0]["buffered"].clone();
    let before = buffered();
    assert_eq!(serve.get("/v1/segment/orders?count=10000").status, 503);
    assert_eq!(buffered(), before);
    assert_eq!(serve.get("/v1/segment/orders").status, 200);
}

/// While the buffers are full, no request would find out.
#[test]
fn idle_server_notices_that_the_database_is_away() {
    let (mut server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--tag=orders"]);
    serve.wait_ready();
    let is_reachable = |expected: f64| serve.metric("leafctl_database_reachable") == expected;
    wait_until("it is reached", || is_reachable(1.0));
    server.stop(Mode::Immediate);
    wait_until("it is not reached", || is_reachable(0.0));
    assert_eq!(serve.get("/readyz").status, 200);
    let logs = |text| wait_until(text, || serve.log().contains(text));
    logs("the database is away");
    server.start_again();
    wait_until("it is reached again", || is_reachable(1.0));
    logs("the database is back");
}

#[test]
fn worker_id_is_leased_at_the_start_where_it_is_asked_for() {
    let (mut server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--tag=orders", "--snowflake"]);
    serve.wait_ready();
    let mut other = server.connect();
    assert_eq!(
        other.number("SELECT count(*) FROM leaf.worker WHERE ceiling > now()"),
        1
    );
    drop(other);
    server.stop(Mode::Immediate);
    assert_eq!(serve.get("/v1/snowflake").status, 200);
    assert_eq!(serve.get("/readyz").status, 200);
    // One that starts now has ids of the tag no more than a worker id.
    let other = Serve::start(&server, &["--snowflake"]);
    assert_eq!(other.get("/readyz").status, 503);
    server.start_again();
    other.wait_ready();
    assert_eq!(other.get("/v1/status").json()["snowflake"]["issued"], "0");
    assert!(other.get("/v1/status").json()["snowflake"]["worker_id"].is_number());
}

#[test]
fn tag_is_never_called_unknown_because_the_database_is_away() {
    let (mut server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--wait=100ms", "--log-level=info"]);
    serve.wait_ready();
    server.stop(Mode::Fast);
    // Waits that begin and end at different times.
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    let answer = serve.get("/v1/segment/orders");
                    assert_eq!(answer.json()["code"], "no_ids", "{answer:?}");
                }
            });
        }
    });
    server.start_again();
    wait_until("ids come", || serve.get("/v1/segment/orders").status == 200);
}

#[test]
fn ids_follow_a_promotion() {
    let mut primary = Server::start();
    primary
        .connect()
        .run("SELECT leaf_tag_create('orders', step => 100)");
    let standby = Server::options().start_standby_of(&primary);
    let hosts = format!(
        "host={},{} user=postgres dbname=postgres",
        primary.host(),
        standby.host()
    );
    let serve = Serve::launch(&mut Serve::command(&hosts, &["--wait=10s"]));
    let mut ledger = Ledger::new();
    ledger.add(serve.ids("orders", 100));
    ledger.add(serve.get("/v1/snowflake?count=100").ids());
    standby.catch_up_with(&primary);
    primary.stop(Mode::Fast);
    standby.promote();
    for _ in 0..10 {
        ledger.add(serve.ids("orders", 1000));
    }
    ledger.add(serve.get("/v1/snowflake?count=100").ids());
    ledger.add([standby.connect().next("orders").expect("an id")]);
}

#[test]
fn killed_in_mid_load_it_repeats_no_id() {
    let (server, _) = Server::with_orders(1000);
    let answers = Answers::since(Instant::now());
    for _ in 0..4 {
        let serve = Serve::start(&server, &["--log-level=info"]);
        let before = answers.len();
        thread::scope(|scope| {
            for caller in 0..4 {
                let (serve, answers) = (&serve, &answers);
                scope.spawn(move || {
                    while let Ok(answer) = serve.try_get("/v1/segment/orders?count=7") {
                        answers.enter("orders", caller, answer.ids());
                        let Ok(answer) = serve.try_get("/v1/snowflake?count=7") else {
                            return;
                        };
                        // The worker id of the one that was killed is still leased.
                        answers.enter("events", caller, answer.ids());
                    }
                });
            }
            wait_until("ids have come", || answers.len() > before + 2_000);
            serve.signal(leaf_tests::Signal::SIGKILL);
        });
    }
    answers.assert_no_repetition();
}

#[test]
fn stepped_clock_repeats_no_id() {
    let (server, _) = Server::with_orders(1000);
    let folder = tempfile::tempdir().expect("a folder");
    let clock = Clock::new(folder.path());
    let cache = format!("--cache={}", folder.path().join("worker.json").display());
    let mut ledger = Ledger::new();
    for _ in 0..2 {
        let mut command = Serve::command(
            &server.connection_string(),
            &[&cache, "--node=here", "--wait=10s"],
        );
        clock.drive(&mut command);
        let serve = Serve::launch(&mut command);
        let mut draw = || {
            wait_until("snowflake ids come", || {
                let answer = serve.get("/v1/snowflake?count=50");
                assert!(answer.status == 200 || answer.status == 503, "{answer:?}");
                answer.status == 200 && {
                    ledger.add(answer.ids());
                    true
                }
            });
            ledger.add(serve.ids("orders", 50));
        };
        for by in [3, 60, 2_000] {
            draw();
            clock.behind(Duration::from_millis(by));
            draw();
            clock.right();
            draw();
        }
        clock.ahead(Duration::from_secs(3));
        draw();
        serve.kill();
        clock.right();
    }
    assert!(ledger.len() > 1_000);
}

#[test]
fn database_that_lets_the_role_in_no_more_is_one_that_is_away() {
    let (server, mut client) = Server::with_orders(10);
    client.run("CREATE ROLE shop LOGIN");
    client.let_draw("orders", "shop");
    let shop = server
        .connection_string()
        .replace("user=postgres", "user=shop");
    let serve = Serve::launch(&mut Serve::command(&shop, &["--wait=100ms"]));
    wait_until("there are ids", || {
        serve.get("/v1/segment/orders").status == 200
    });
    client.run("REVOKE CONNECT ON DATABASE postgres FROM PUBLIC");
    client.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'shop'");
    let draw = || serve.get("/v1/segment/orders?count=1000");
    wait_until("the buffers are empty", || draw().status != 200);
    let answer = draw();
    assert_eq!(
        (answer.status, answer.json()["code"].as_str()),
        (503, Some("no_ids"))
    );
    client.run("GRANT CONNECT ON DATABASE postgres TO PUBLIC");
    wait_until("ids come again", || draw().status == 200);
}

/// Requests that are near to right ones, and some that are far from them.
fn malformed(random: &mut fastrand::Rng) -> Vec<u8> {
    const RIGHT: [&str; 7] = [
        "GET /v1/segment/orders?count=3 HTTP/1.1\r\nhost: localhost\r\naccept: text/plain\r\n\r\n",
        "GET /v1/snowflake?count=2&format=text HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer x\r\n\r\n",
        "GET /v1/decode/1234567890123 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "POST /tinyid/id/nextId HTTP/1.1\r\nhost: localhost\r\ncontent-length: 29\r\n\r\nbizType=orders&batchSize=2&t=1",
        "GET /tinyid/id/nextSegmentIdSimple?bizType=orders&token=%20 HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "GET /decodeSnowflakeId?snowflakeId=99 HTTP/1.0\r\n\r\n",
        "POST /v1/segment/orders HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    ];
    const PIECES: [&str; 12] = [
        "%",
        "%00",
        "%FF",
        "\r\n",
        "\0",
        "?",
        "&",
        "count=",
        "99999999999999999999",
        "/",
        "é",
        " HTTP/1.1\r\n",
    ];
    if random.u8(..) < 16 {
        return (0..random.usize(..2_000)).map(|_| random.u8(..)).collect();
    }
    let mut request = RIGHT[random.usize(..RIGHT.len())].as_bytes().to_vec();
    for _ in 0..random.usize(1..6) {
        let place = random.usize(..=request.len());
        let end = (place + random.usize(..8)).min(request.len());
        match random.u8(..5) {
            0 => drop(request.drain(place..end)),
            1 if place < request.len() => request[place] = random.u8(..),
            2 => request.truncate(place.max(1)),
            3 => request = [&request[..], &request[place..]].concat(),
            _ => {
                let piece = PIECES[random.usize(..PIECES.len())].bytes();
                drop(request.splice(place..end, piece));
            }
        }
    }
    request
}

#[test]
fn malformed_requests_by_the_thousand_crash_nothing() {
    let (server, _) = Server::with_orders(1000);
    let mut serve = Serve::start(&server, &["--log-level=info", "--io-timeout=2s"]);
    serve.ids("orders", 1);
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let before = serve.resident();
    for _ in 0..5_000 {
        let request = malformed(&mut random);
        let mut stream = TcpStream::connect(serve.address()).expect("a connection");
        let mut answer = Vec::new();
        let _ = stream.write_all(&request);
        let _ = stream.shutdown(Shutdown::Write);
        let _ = stream.read_to_end(&mut answer);
        let shown = String::from_utf8_lossy(&request);
        assert!(
            answer.is_empty() || answer.starts_with(b"HTTP/1."),
            "{shown}"
        );
        assert!(
            !answer[answer.len().min(8)..].starts_with(b" 500"),
            "{shown}"
        );
    }
    assert!(serve.is_running(), "{}", serve.log());
    assert!(!serve.log().contains("panicked"), "{}", serve.log());
    let grown = serve.resident().saturating_sub(before);
    assert!(grown < 64 << 20, "{grown} bytes");
    serve.ids("orders", 100);
}

#[test]
fn clients_that_go_away_leave_nothing_behind() {
    let (server, mut client) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--wait=1h"]);
    let mut transaction = client.transaction().expect("a transaction");
    transaction
        .execute("SELECT * FROM leaf.alloc FOR UPDATE", &[])
        .expect("a lock");
    let waiting: Vec<_> = (0..100)
        .map(|_| {
            let mut stream = TcpStream::connect(serve.address()).expect("a connection");
            stream
                .write_all(b"GET /v1/segment/orders HTTP/1.1\r\nhost: localhost\r\n\r\n")
                .expect("a request");
            stream
        })
        .collect();
    wait_until("all are there", || {
        serve.metric("leafctl_connections") > 100.0
    });
    drop(waiting);
    wait_until("all are gone", || {
        serve.metric("leafctl_connections") < 10.0
    });
    transaction.rollback().expect("a rollback");
    serve.ids("orders", 1);
}

#[test]
fn many_callers_at_once_get_no_id_twice() {
    let (server, _) = Server::with_orders(100);
    let serve = Serve::start(&server, &["--log-level=info"]);
    let answers = Answers::since(Instant::now());
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = Stop(&is_over);
        for caller in 0..8 {
            let (serve, answers, is_over) = (&serve, &answers, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    let count = [1, 3, 50, 1_500][usize::from(caller) % 4];
                    answers.enter("orders", caller, serve.ids("orders", count));
                }
            });
        }
        wait_until("ids have come", || answers.len() > 50_000);
        drop(stop);
    });
    answers.assert_no_repetition();
}
