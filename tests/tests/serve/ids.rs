//! `/v1`: ids and decoded ids, and what is answered instead of them.

use std::thread;
use std::time::Instant;

use leaf_tests::{Draw, Ledger, Serve, Server, Snowflake, wait_until};

#[test]
fn ids_of_a_tag_are_unique_and_ascend() {
    let (server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &[]);
    let mut ledger = Ledger::new();
    let mut highest = 0;
    for count in [1, 1, 2, 100, 999, 10_000, 1] {
        let ids = serve.ids("orders", count);
        assert_eq!(ids.len(), count);
        assert!(ids.is_sorted_by(|a, b| a < b) && ids[0] > highest);
        highest = ids[count - 1];
        ledger.add(ids);
    }
    // Beside what others draw.
    ledger.add([server.connect().next("orders").expect("an id")]);
}

#[test]
fn ids_are_strings_in_json_and_lines_in_text_and_never_cached() {
    let (server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &[]);
    let json = serve.get("/v1/segment/orders?count=2");
    assert_eq!(json.header("content-type"), "application/json");
    assert_eq!(json.body, "{\"ids\":[\"1\",\"2\"]}\n");
    let text = serve.get("/v1/segment/orders?count=2&format=text");
    assert_eq!(text.body, "3\n4\n");
    assert!(text.header("content-type").starts_with("text/plain"));
    let accepted = serve
        .get_with("/v1/segment/orders", &[("accept", "text/plain")])
        .expect("an answer");
    assert_eq!(accepted.body, "5\n");
    for path in [
        "/v1/segment/orders",
        "/v1/snowflake",
        "/v1/segment/nothing",
        "/nowhere",
    ] {
        assert_eq!(
            serve.get(path).header("cache-control"),
            "no-store",
            "{path}"
        );
    }
}

#[test]
fn names_of_tags_may_have_any_characters() {
    let server = Server::start();
    server.connect().run("SELECT leaf_tag_create('a/b ä?')");
    let serve = Serve::start(&server, &[]);
    assert_eq!(serve.ids("a%2Fb%20%C3%A4%3F", 2), [1, 2]);
}

#[test]
fn wrong_requests_get_a_problem_of_one_line() {
    let (server, mut client) = Server::with_orders(1000);
    client.run("SELECT leaf_tag_create('small', max_value => 5)");
    let serve = Serve::start(&server, &[]);
    for (path, status, code) in [
        ("/v1/segment/orders?format=xml", 400, "bad_format"),
        ("/v1/segment/", 404, "not_found"),
        ("/v1/segment/%FF", 400, "bad_tag"),
        ("/v1/segment/small?count=6", 409, "exhausted"),
        ("/v1/decode/x", 400, "bad_id"),
        ("/v1/decode/-1", 400, "bad_id"),
        ("/nowhere", 404, "not_found"),
    ] {
        assert_eq!(serve.get(path).problem(), (status, code.into()), "{path}");
    }
    let long = format!("/v1/segment/{}", "a".repeat(129));
    assert_eq!(serve.get(&long).json()["code"], "bad_tag");
    let posted = serve.post("/v1/segment/orders", "");
    assert_eq!(posted.problem(), (405, "method_not_allowed".into()));
    let with_body = serve
        .raw(b"GET /v1/segment/orders HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1\r\n\r\nx");
    assert!(
        with_body.starts_with(b"HTTP/1.1 413 "),
        "{}",
        String::from_utf8_lossy(&with_body)
    );
}

#[test]
fn tag_is_served_as_soon_as_the_role_may_draw() {
    let (server, mut client) = Server::with_orders(1000);
    client.run("CREATE ROLE poor LOGIN");
    let connection = server
        .connection_string()
        .replace("user=postgres", "user=poor");
    let serve = Serve::launch(&mut Serve::command(&connection, &[]));
    assert_eq!(serve.get("/v1/segment/orders").status, 403);
    client.let_draw("orders", "poor");
    wait_until("the granted tag is served", || {
        serve.get("/v1/segment/orders").status == 200
    });
}

#[test]
fn tag_is_served_as_soon_as_it_is_created_and_not_after_it_is_dropped() {
    let server = Server::start();
    let serve = Serve::start(&server, &[]);
    assert_eq!(serve.get("/v1/segment/late").status, 404);
    server.connect().run("SELECT leaf_tag_create('late')");
    wait_until("the new tag is served", || {
        serve.get("/v1/segment/late").status == 200
    });
    let is_measured = || serve.get("/metrics").body.contains("\"late\"");
    assert!(is_measured());
    server.connect().run("SELECT leaf_tag_drop('late')");
    wait_until("its last ids are drawn", || {
        serve.get("/v1/segment/late?count=100").status == 404
    });
    assert!(!is_measured());
}

#[test]
fn storm_of_made_up_names_is_no_storm_of_statements_and_takes_bounded_memory() {
    let (server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &["--log-level=info", "--wait=30s"]);
    serve.ids("orders", 1);
    let began = Instant::now();
    let ask = |number: u32| {
        serve
            .get(&format!("/v1/segment/made%20up%20{number}"))
            .status
    };
    let answers: Vec<u16> = thread::scope(|scope| {
        let asking: Vec<_> = (0..8)
            .map(|first| scope.spawn(move || (first..5_000).step_by(8).map(ask).collect()))
            .collect();
        let join = |asking: thread::ScopedJoinHandle<'_, Vec<u16>>| asking.join().expect("answers");
        asking.into_iter().flat_map(join).collect()
    });
    assert!(answers.iter().all(|status| [404, 429].contains(status)));
    // 1,000 at once and 100 a second are asked for, as the manual says.
    let asked = answers.iter().filter(|status| **status == 404).count();
    let most = 1_001.0 + 100.0 * began.elapsed().as_secs_f64();
    assert!(asked as f64 <= most, "{asked} of at most {most} names");
    // One that is served is not affected.
    serve.ids("orders", 1);
    let metrics = serve.get("/metrics").body;
    assert!(metrics.contains("tag=\"orders\""), "{metrics}");
    assert!(!metrics.contains("made up"), "{metrics}");
    let status = serve.get("/v1/status").json();
    assert_eq!(status["tags"].as_array().map(Vec::len), Some(1), "{status}");
}

#[test]
fn only_named_tags_are_served_and_their_ids_are_at_hand_at_the_start() {
    let (server, mut client) = Server::with_orders(1000);
    client.run("SELECT leaf_tag_create('items')");
    let serve = Serve::start(&server, &["--tag=orders"]);
    serve.wait_ready();
    assert!(client.number("SELECT max_id FROM leaf.alloc WHERE biz_tag = 'orders'") > 1);
    assert_eq!(serve.ids("orders", 1), [1]);
    let other = serve.get("/v1/segment/items");
    assert_eq!(other.problem(), (404, "unknown_tag".into()));
    assert_eq!(
        client.number("SELECT max_id FROM leaf.alloc WHERE biz_tag = 'items'"),
        1
    );
}

#[test]
fn snowflake_ids_are_unique_and_decoded_as_the_database_does() {
    let server = Server::start();
    let mut client = server.connect();
    let serve = Serve::start(&server, &["--node=here"]);
    let mut ledger = Ledger::new();
    let mut ids = serve.get("/v1/snowflake?count=1000").ids();
    ids.extend(serve.get("/v1/snowflake").ids());
    assert!(ids.is_sorted_by(|a, b| a < b));
    ledger.add(ids.iter().copied());
    ledger.add(client.snowflakes(1000).expect("ids"));
    let decoded = serve.get(&format!("/v1/decode/{}", ids[0])).json();
    let fields = client
        .query_one("SELECT worker_id, sequence, to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.MS') FROM leaf_snowflake_decode($1)", &[&ids[0]])
        .expect("fields");
    assert_eq!(decoded["id"], ids[0].to_string());
    assert_eq!(decoded["worker_id"], fields.get::<_, i32>(0));
    assert_eq!(decoded["sequence"], fields.get::<_, i32>(1));
    let shown = decoded["created_at"].as_str().expect("a time");
    let expected = fields.get::<_, String>(2);
    let at: String = shown.trim_end_matches('Z').to_owned();
    assert!(
        expected.starts_with(&at) || at.starts_with(expected.trim_end_matches('0')),
        "{shown} {expected}"
    );
    assert_eq!(
        client.number("SELECT count(*) FROM leaf.worker WHERE node = 'here'"),
        1
    );
}

#[test]
fn head_and_requests_without_host_draw_nothing() {
    let (server, _) = Server::with_orders(1000);
    let serve = Serve::start(&server, &[]);
    let request = |text: String| {
        let answer = serve.raw(text.as_bytes());
        String::from_utf8_lossy(&answer).into_owned()
    };
    serve.get("/v1/snowflake").ids();
    assert_eq!(serve.ids("orders", 1), [1]);
    for path in [
        "/v1/segment/orders",
        "/v1/snowflake",
        "/api/segment/get/orders",
        "/api/snowflake/get/x",
        "/tinyid/id/nextId?bizType=orders",
        "/tinyid/id/nextIdSimple?bizType=orders",
        "/tinyid/id/nextSegmentId?bizType=orders",
        "/tinyid/id/nextSegmentIdSimple?bizType=orders",
    ] {
        let head = format!("HEAD {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
        let answer = request(head);
        assert!(answer.starts_with("HTTP/1.1 405 "), "{path}: {answer}");
        for version in ["1.0", "1.1"] {
            let answer = request(format!(
                "GET {path} HTTP/{version}\r\nconnection: close\r\n\r\n"
            ));
            assert!(answer.contains(" 400 "), "{path}: {answer}");
        }
    }
    assert_eq!(
        serve.metric("leafctl_ids_total{kind=\"snowflake\",tag=\"\"}"),
        1.0
    );
    let old = request("GET /v1/segment/orders HTTP/1.0\r\nhost: localhost\r\n\r\n".into());
    assert!(old.ends_with("{\"ids\":[\"2\"]}\n"), "{old}");
}

#[test]
fn name_that_the_database_cannot_store_is_that_of_no_tag() {
    let server = Server::start();
    let mut client = server.connect();
    client.run(
        "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'",
    );
    server
        .connect_as("postgres", "latin")
        .run("CREATE EXTENSION leaf");
    let connection = server
        .connection_string()
        .replace("dbname=postgres", "dbname=latin");
    let serve = Serve::launch(&mut Serve::command(&connection, &[]));
    let answer = serve.get("/v1/segment/%E6%97%A5");
    assert_eq!(answer.json()["code"], "unknown_tag");
}

#[test]
fn forgotten_ids_are_handed_out_by_nobody() {
    let (server, mut client) = Server::with_orders(1000);
    let serve = Serve::start(&server, &[]);
    let id = serve.ids("orders", 1)[0];
    serve.get("/v1/snowflake");
    let worker = || serve.get("/v1/status").json()["snowflake"]["worker_id"].clone();
    let before = worker();
    let granted = client.number("SELECT max_id FROM leaf.alloc");
    assert!(id < granted);
    assert_eq!(serve.get("/v1/forget").status, 405);
    assert_eq!(serve.post("/v1/forget", "").status, 200);
    assert_eq!(serve.ids("orders", 1), [granted]);
    serve.get("/v1/snowflake");
    assert_ne!(worker(), before);
    // Elsewhere, anybody could waste ids and worker ids so.
    let open = Serve::start(&server, &["--listen=0.0.0.0:0", "--no-auth"]);
    assert_eq!(open.post("/v1/forget", "").status, 401);
}
