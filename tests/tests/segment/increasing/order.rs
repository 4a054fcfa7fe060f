//! The order of the calls is the order of the ids.

use leaf_tests::{Draw, Order, Server};

#[test]
fn batch_larger_than_a_step_ascends() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders', step => 10); SET leaf.wait_timeout = '30s'");
    let order = Order::new();
    let ids = order
        .ascending(|| client.batch("orders", 25_000))
        .expect("a batch");
    assert_eq!(ids.len(), 25_000);
    order
        .ascending(|| client.next("orders").map(|id| vec![id]))
        .expect("an id");
}

#[test]
fn column_default_draws_in_the_order_of_rows() {
    let server = Server::start();
    let mut client = server.connect();
    client.run(
        "SELECT leaf_tag_create('orders', step => 100);
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'), n int);
         INSERT INTO orders (n) SELECT generate_series(1, 10000)",
    );
    let disorder = "SELECT count(*) FROM orders AS a JOIN orders AS b ON b.n = a.n + 1
                     WHERE b.id <= a.id";
    assert_eq!(client.number(disorder), 0);
    assert_eq!(
        client.number("SELECT count(DISTINCT id) FROM orders"),
        10_000
    );
}
