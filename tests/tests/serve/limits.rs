//! Limits on clients: slow, broken and many.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::time::Duration;

use leaf_tests::{Serve, Server, wait_until};

const TIMED_OUT: &str = "leafctl_connections_timed_out_total";

fn connect(serve: &Serve) -> TcpStream {
    let stream = TcpStream::connect(serve.address()).expect("a connection");
    stream
        .set_read_timeout(Some(Duration::from_secs(60)))
        .expect("a timeout");
    stream
}

/// Whether the other side has closed a connection from which nothing is to come.
fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).expect("its mode");
    match stream.read(&mut [0; 64]) {
        Ok(0) => true,
        Ok(read) => panic!("{read} bytes came"),
        Err(error) => error.kind() != std::io::ErrorKind::WouldBlock,
    }
}

#[test]
fn client_that_sends_a_header_byte_by_byte_is_disconnected() {
    let (server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--io-timeout=500ms"]);
    let mut slow = connect(&serve);
    let mut silent = connect(&serve);
    slow.write_all(b"GET /v1/segment/orders HTTP/1.1\r\nx: ")
        .expect("a start");
    wait_until("it is disconnected", || slow.write_all(b"x").is_err());
    wait_until("so is one that sends nothing", || is_closed(&mut silent));
    assert_eq!(serve.metric(TIMED_OUT), 2.0);
    serve.ids("orders", 1);
}

#[test]
fn idle_connection_is_closed() {
    let (server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--idle-timeout=500ms", "--io-timeout=1h"]);
    let mut stream = connect(&serve);
    stream
        .write_all(b"GET /v1/segment/orders?format=text HTTP/1.1\r\nhost: localhost\r\n\r\n")
        .expect("a request");
    // To the end, which only the server can bring.
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    assert!(answer.ends_with("\r\n\r\n1\n"), "{answer}");
}

#[test]
fn client_that_does_not_take_its_answers_is_disconnected() {
    let (server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--io-timeout=500ms"]);
    let stream = connect(&serve);
    let mut writer = stream.try_clone().expect("a copy");
    let request = b"GET /v1/segment/orders?count=10000 HTTP/1.1\r\nhost: localhost\r\n\r\n";
    wait_until("it is disconnected", || writer.write_all(request).is_err());
    drop(stream);
    assert!(serve.metric(TIMED_OUT) >= 1.0);
    assert!(serve.resident() < 200 << 20, "{}", serve.resident());
}

#[test]
fn large_headers_are_refused() {
    let server = Server::start();
    let serve = Serve::start(&server, &[]);
    let long = format!(
        "GET / HTTP/1.1\r\nhost: localhost\r\nx: {}\r\n\r\n",
        "x".repeat(20_000)
    );
    let many = format!(
        "GET / HTTP/1.1\r\nhost: localhost\r\n{}\r\n",
        "x: x\r\n".repeat(100)
    );
    for request in [long, many] {
        let answer = serve.raw(request.as_bytes());
        assert!(
            answer.starts_with(b"HTTP/1.1 431 "),
            "{}",
            String::from_utf8_lossy(&answer)
        );
    }
    let path = format!(
        "GET /{} HTTP/1.1\r\nhost: localhost\r\n\r\n",
        "x".repeat(20_000)
    );
    let answer = serve.raw(path.as_bytes());
    assert!(
        answer.starts_with(b"HTTP/1.1 4"),
        "{}",
        String::from_utf8_lossy(&answer)
    );
}

#[test]
fn connection_above_the_limit_is_told_so() {
    let (server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--max-connections=3"]);
    let mut open: Vec<_> = (0..3).map(|_| connect(&serve)).collect();
    let mut above = String::new();
    wait_until("there are too many", || {
        above.clear();
        let mut stream = connect(&serve);
        let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        stream.write_all(request).is_ok()
            && stream.read_to_string(&mut above).is_ok()
            && above.contains(" 503 ")
    });
    assert!(
        above.contains("retry-after: 1\r\n") && above.contains("too_many_connections"),
        "{above}"
    );
    open.clear();
    wait_until("there is room again", || {
        serve
            .try_get("/v1/segment/orders")
            .is_ok_and(|answer| answer.status == 200)
    });
    assert!(serve.metric("leafctl_connections_refused_total") >= 1.0);
}

#[test]
fn ten_thousand_idle_connections_take_bounded_memory_and_hinder_nobody() {
    let (server, _) = Server::with_orders(1000);
    let serve = Serve::start(
        &server,
        &[
            "--max-connections=12000",
            "--idle-timeout=10min",
            "--log-level=info",
        ],
    );
    serve.ids("orders", 1);
    let allowed = nofile();
    let count = 10_000.min(allowed.saturating_sub(500));
    if count < 10_000 {
        println!("this process may open only {allowed} files: {count} connections");
    }
    let before = serve.resident();
    // Each asks something once, and at once: after 10 s without a request it would be closed.
    let idle: Vec<_> = (0..count)
        .map(|_| {
            let mut stream = connect(&serve);
            stream
                .write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
                .expect("a request");
            stream.read_exact(&mut [0; 15]).expect("an answer");
            stream
        })
        .collect();
    wait_until("all are accepted", || {
        serve.metric("leafctl_connections") > count as f64
    });
    let each = serve.resident().saturating_sub(before) / count as u64;
    println!("{count} connections, {each} bytes each");
    assert!(each < 32_768, "{each} bytes per connection");
    assert_eq!(serve.ids("orders", 100).len(), 100);
    drop(idle);
    wait_until("all are closed", || {
        serve.metric("leafctl_connections") < 10.0
    });
}

/// How many files this process may open.
fn nofile() -> usize {
    let limits = std::fs::read_to_string("/proc/self/limits").expect("limits");
    let line = limits
        .lines()
        .find_map(|line| line.strip_prefix("Max open files"))
        .expect("the limit");
    line.split_whitespace()
        .next()
        .expect("a number")
        .parse()
        .expect("a number")
}

#[test]
fn shortage_of_file_descriptors_passes() {
    let (server, _) = Server::with_orders(1000);
    let serve = Serve::command(&server.connection_string(), &["--tag=orders"]);
    let mut limited = Command::new("sh");
    limited
        .args(["-c", "ulimit -n 60; exec \"$@\"", "sh"])
        .arg(serve.get_program())
        .args(serve.get_args());
    let serve = Serve::launch(&mut limited);
    serve.wait_ready();
    let open: Vec<_> = (0..100).map(|_| connect(&serve)).collect();
    wait_until("no file descriptor is left", || {
        serve.log().contains("could not accept a connection")
    });
    let said = serve.log().matches("could not accept a connection").count();
    assert!(said < 10, "it was said {said} times");
    drop(open);
    wait_until("it accepts again", || {
        serve
            .try_get("/v1/segment/orders")
            .is_ok_and(|answer| answer.status == 200)
    });
}

#[test]
fn foreign_host_is_refused_unless_it_is_allowed() {
    let (server, _) = Server::with_orders(1000);
    let status = |serve: &Serve, path: &str, host: &str| {
        let answer = serve.get_with(path, &[("host", host)]);
        answer.expect("an answer").status
    };
    let name = "--allow-host=ids.example.com";
    let local = Serve::start(&server, &[name]);
    let open = Serve::start(&server, &[name, "--listen=0.0.0.0:0", "--no-auth"]);
    for serve in [&local, &open] {
        for path in ["/v1/segment/orders", "/", "/v1/status", "/nowhere"] {
            assert_eq!(status(serve, path, "evil.example.com"), 421, "{path}");
        }
        for own in [
            "localhost",
            "127.0.0.1:8080",
            "[::1]",
            "10.0.0.1",
            "ids.example.com",
        ] {
            assert_eq!(status(serve, "/v1/segment/orders", own), 200, "{own}");
        }
    }
}

#[test]
fn page_of_another_site_draws_no_ids() {
    let (server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--allow-host=ids.example.com"]);
    let status = |path: &str, headers: &[(&str, &str)]| {
        let answer = serve.get_with(path, headers);
        answer.expect("an answer").status
    };
    let own = format!("http://{}", serve.address());
    for header in [
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
        ("origin", "https://evil.example.com"),
        ("origin", "null"),
        ("origin", "http://localhost:1"),
    ] {
        for path in [
            "/v1/segment/orders",
            "/v1/snowflake",
            "/v1/status",
            "/api/segment/get/orders",
            "/tinyid/id/nextId?bizType=orders",
        ] {
            assert_eq!(status(path, &[header]), 403, "{path} {header:?}");
        }
        for path in ["/metrics", "/healthz", "/readyz", "/"] {
            assert_eq!(status(path, &[header]), 200, "{path} {header:?}");
        }
    }
    // What a browser adds for a proxy is no token.
    let basic = [
        ("sec-fetch-site", "cross-site"),
        ("authorization", "Basic eDp5"),
    ];
    assert_eq!(status("/v1/segment/orders", &basic), 403);
    for header in [
        ("sec-fetch-site", "same-origin"),
        ("sec-fetch-site", "none"),
        ("origin", own.as_str()),
        ("origin", "https://ids.example.com"),
    ] {
        assert_eq!(status("/v1/segment/orders", &[header]), 200, "{header:?}");
    }
    let answer = serve.get("/v1/segment/orders");
    assert_eq!(answer.ids(), [5], "no id was drawn for the others");
}
