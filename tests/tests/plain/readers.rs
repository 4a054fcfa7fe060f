//! What the plain edition has in place of the library's code.

use leaf_core::snowflake::Layout;
use leaf_tests::{Draw, Server};

#[test]
fn layouts_are_those_of_the_library() {
    let server = Server::options().plain().start();
    let mut client = server.connect();
    for (name, layout) in Layout::NAMED {
        let of = |column| format!("SELECT {column}::bigint FROM leaf.layout('{name}')");
        let fields = ["tick_us", "ticks", "worker_ids"].map(|it| client.number(&of(it)) as u64);
        let expected = [layout.tick_us(), layout.ticks(), layout.worker_ids()];
        assert_eq!(fields, expected, "{name}");
    }
    let error = client
        .batch_execute("SELECT leaf.layout('other')")
        .expect_err("there is none");
    let hint = error
        .as_db_error()
        .and_then(|it| it.hint().map(str::to_owned));
    let hint = hint.unwrap_or_default();
    assert!(hint.contains(&Layout::forms()), "{hint}");
}
