//! How often a query draws.

use leaf_tests::{Draw, Server};

#[test]
fn explain_draws_nothing_and_explain_analyze_draws() {
    let (_server, mut client) = Server::with_orders(10);
    client.run("CREATE TABLE rows AS SELECT generate_series(1, 1000) AS n; ANALYZE rows");
    assert_eq!(client.next("orders").expect("an id"), 1);
    let calls = [
        "SELECT leaf_segment_next('orders')",
        "SELECT * FROM leaf_segment_batch('orders', 5)",
        "SELECT * FROM leaf_segment_reserve('orders', 5)",
        "SELECT count(*) FROM rows WHERE n = leaf_segment_next('orders')",
        "INSERT INTO rows SELECT leaf_segment_next('orders')",
        "SELECT leaf_tag_alter('orders', advance_to => 1000000)",
        "SELECT leaf_tag_drop('orders')",
    ];
    for call in calls {
        client.run(&format!("EXPLAIN (VERBOSE) {call}"));
    }
    assert_eq!(client.next("orders").expect("an id"), 2);
    client.run("EXPLAIN (ANALYZE) SELECT leaf_segment_next('orders') FROM rows LIMIT 7");
    assert_eq!(client.next("orders").expect("an id"), 10);
}

#[test]
fn queries_draw_as_often_as_they_compute_a_row() {
    let (_server, mut client) = Server::with_orders(10);
    let mut next = 1;
    for (query, expected) in [
        ("SELECT leaf_segment_next('orders') UNION SELECT leaf_segment_next('orders')", 2),
        ("SELECT DISTINCT leaf_segment_next('orders') FROM generate_series(1, 20)", 20),
        ("SELECT leaf_segment_next('orders') FROM generate_series(1, 20) LIMIT 4", 4),
        ("SELECT n::bigint FROM generate_series(1, 3) AS n WHERE leaf_segment_next('orders') > 0", 3),
        ("WITH w AS (SELECT leaf_segment_next('orders') AS id) SELECT a.id FROM w AS a JOIN w AS b USING (id)", 1),
        ("SELECT a.id FROM (SELECT leaf_segment_next('orders') AS id FROM generate_series(1, 5)) AS a WHERE a.id = a.id", 5),
        ("SELECT b FROM generate_series(1, 4) AS n, LATERAL leaf_segment_batch('orders', n) AS b", 10),
        ("WITH RECURSIVE r AS (SELECT leaf_segment_next('orders') AS id, 1 AS n
                        UNION ALL SELECT leaf_segment_next('orders'), n + 1 FROM r WHERE n < 15) SELECT id FROM r", 15),
        ("SELECT id FROM leaf_segment_batch('orders', 6) WITH ORDINALITY AS b (id, n) WHERE n <= 6", 6),
        ("SELECT CASE WHEN n > 5 THEN leaf_segment_next('orders') END FROM generate_series(6, 9) AS n", 4),
    ] {
        let drawn = client.numbers(query);
        assert_eq!(drawn.len() as i64, expected, "{query}");
        next += expected;
        assert_eq!(client.next("orders").expect("an id"), next, "{query}");
        next += 1;
    }
    // Rows are sorted first and numbered then, unless they are sorted by their ids.
    let order =
        "SELECT leaf_segment_next('orders'), n FROM generate_series(1, 50) AS n ORDER BY n DESC";
    let drawn = client.numbers(order);
    assert!(drawn.is_sorted(), "{drawn:?}");
    assert_eq!(drawn[0], next);
}
