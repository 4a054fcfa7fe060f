//! What a caller does not read is not lost, and a tag can be used up to its end.

use leaf_tests::{Draw, Mode, Server, draw_many, refused};

#[test]
fn batch_draws_only_what_is_read() {
    let (_server, mut client) = Server::with_orders(100_000);
    let first = client.next("orders").expect("an id");
    let read = client
        .query(
            "SELECT leaf_segment_batch('orders', 2147483647) LIMIT 10",
            &[],
        )
        .expect("ten ids");
    assert_eq!(read.len(), 10);
    // Whoever built the whole set first would have used up two thousand million.
    let next = client.next("orders").expect("an id");
    assert!(next < first + 1_000_000, "{first}, then {next}");
}

#[test]
fn ids_that_a_new_tags_transaction_did_not_use_are_not_lost() {
    let server = Server::start();
    let (mut creator, mut other) = (server.connect(), server.connect());
    creator.run("BEGIN; SELECT leaf_tag_create('orders', step => 1000)");
    assert_eq!(creator.rows("orders", 3).expect("ids"), [1, 2, 3]);
    creator.run("COMMIT");
    assert_eq!(other.next("orders").expect("an id"), 4);
}

const BIGINT_MAX: i64 = i64::MAX;

#[test]
fn exhausted_tag_is_2200h_and_goes_to_the_very_end() {
    let (_server, mut client) = Server::with_orders(1000);
    client.run("SELECT leaf_tag_create('small', max_value => 10)");
    assert_eq!(
        client.batch("small", 10).expect("ids"),
        (1..=10).collect::<Vec<_>>()
    );
    for _ in 0..3 {
        refused(client.next("small"), "2200H");
        refused(client.batch("small", 2), "2200H");
        refused(client.reserve("small", 1), "2200H");
    }
    client.next("orders").expect("others go on");

    let start = BIGINT_MAX - 9;
    client.run(&format!("SELECT leaf_tag_create('end', start => {start})"));
    for n in 0..9 {
        assert_eq!(client.next("end").expect("an id"), start + n);
    }
    // max_id is the first number not granted, so the last of all bigints may be
    // kept back; what is returned must never wrap around.
    match client.next("end") {
        Ok(id) => assert_eq!(id, BIGINT_MAX),
        refusal => {
            refused(refusal, "2200H");
        }
    }
    for _ in 0..3 {
        refused(client.next("end"), "2200H");
        refused(client.reserve("end", 1), "2200H");
    }
}

#[test]
fn reserve_beyond_the_end_is_2200h_and_takes_nothing() {
    let (_server, mut client) = Server::with_orders(1000);
    client.run("SELECT leaf_tag_create('small', step => 5, start => 10, max_value => 10)");
    let error = refused(client.reserve("small", 2), "2200H");
    assert!(error.message().contains("too few ids"), "{error:?}");
    refused(client.reserve("small", 1_000_000_000), "2200H");
    let block = client.reserve("small", 1).expect("all there is");
    assert_eq!((block.first, block.last), (10, 10));
    let error = refused(client.next("small"), "2200H");
    assert!(error.message().contains("maximum value"), "{error:?}");
}

/// Segments and blocks are small parts of what is left, and so is the skip of another history.
#[test]
fn narrow_tag_outlives_hundreds_of_failovers() {
    let options = Server::options().set("leaf.max_step", "1000000");
    let (mut server, mut client) = options.start_with_orders(1000);
    client.run(
        "SELECT leaf_tag_create('narrow', start => 2147483647 - 15000000, max_value => 2147483647)",
    );
    let error = refused(client.reserve("narrow", 100_000), "2200H");
    let detail = error.detail().unwrap_or_default();
    assert!(
        detail.contains("of which a block can have 1500"),
        "{error:?}"
    );
    client.reserve("narrow", 1_500).expect("a block");
    draw_many(&mut client, "narrow", 100_000);
    for _ in 0..3 {
        let left = client.stat("narrow", "ids_left");
        let failovers = client.number("SELECT leaf.failovers_left('narrow')");
        assert!(failovers > 400, "{failovers}");
        drop(client);
        server.stop(Mode::Fast);
        server.write("leaf_new_history.signal", b"");
        server.start_again();
        client = server.connect();
        client.next("narrow").expect("an id");
        let lost = left - client.stat("narrow", "ids_left");
        assert!(lost < 50_000, "{lost} of {left}");
    }
}

#[test]
fn ids_that_are_held_back_after_a_failover_are_counted_and_released() {
    let options = Server::options().set("leaf.history_skip", "1000000");
    let (mut server, mut client) = options.start_with_orders(1000);
    client.run("SELECT leaf_tag_create('few', max_value => 1000000)");
    client.reserve("few", 10).expect("a block");
    drop(client);
    server.stop(Mode::Fast);
    server.write("leaf_new_history.signal", b"");
    server.start_again();
    let mut client = server.connect();
    let error = refused(client.next("few"), "2200H");
    assert!(error.message().contains("held back"), "{error:?}");
    let detail = error.detail().unwrap_or_default();
    assert!(detail.starts_with("999990 ids are left"), "{error:?}");
    // The way out that it names.
    server.reload("leaf.history_skip", "0");
    assert_eq!(client.next("few").expect("an id"), 11);
}
