//! The client library's examples do what they say, against a real server.

use leaf_tests::{Draw, Ledger, Server, Snowflake};

#[path = "../../../sdk/examples/async_worker.rs"]
mod async_worker;
#[path = "../../../sdk/examples/batch_import.rs"]
mod batch_import;
#[path = "../../../sdk/examples/order_json.rs"]
mod order_json;
#[path = "../../../sdk/examples/service.rs"]
mod service;

fn server() -> Server {
    let server = Server::start();
    server.connect().run(
        "SELECT leaf_tag_create('orders');
         CREATE TABLE orders (id bigint PRIMARY KEY);
         CREATE TABLE items (order_id bigint REFERENCES orders)",
    );
    server
}

#[test]
fn service_gives_every_request_an_id_of_its_own() {
    let server = server();
    let handled = service::run(&server.connection_string(), 500).expect("it runs");
    let mut ledger = Ledger::new();
    ledger.add(handled.iter().map(|handled| handled.id.get()));
    assert_eq!(ledger.len(), 4 * 500);
    assert_eq!(
        (0..4)
            .filter(|&n| handled.iter().any(|it| it.thread == n))
            .count(),
        4
    );
    // What it did not use came back.
    assert_eq!(
        server.connect().next("orders").expect("an id"),
        ledger.highest() + 1
    );
}

#[test]
fn batch_import_loads_rows_that_refer_to_each_other() {
    let server = server();
    let loaded = batch_import::run(&server.connection_string(), 5_000);
    assert_eq!(loaded.expect("it runs"), 5_000);
}

#[test]
fn async_worker_draws_both_kinds_of_ids() {
    let server = server();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let pairs = runtime.block_on(async_worker::run(&server.connection_string(), 300));
    let pairs = pairs.expect("it runs");
    let (mut orders, mut events) = (Ledger::new(), Ledger::new());
    for (order, event) in pairs {
        orders.add([order.get()]);
        events.add([event.get()]);
    }
    assert_eq!((orders.len(), events.len()), (300, 300));
}

#[test]
fn order_in_json_has_its_id_as_a_string() {
    let server = server();
    let (order, json) = order_json::run(&server.connection_string()).expect("it runs");
    let expected = format!("{{\"id\":\"{}\",\"item\":\"tea\"}}", order.id);
    assert_eq!(json, expected);
    let read: order_json::Order = serde_json::from_str(&json).expect("what was written");
    assert_eq!(read, order);
    // Other systems may have written the number.
    let number = json.replace(&format!("\"{}\"", order.id), &order.id.to_string());
    let read: order_json::Order = serde_json::from_str(&number).expect("an integer");
    assert_eq!(read, order);
    server.connect().parts(order.id.get());
}
