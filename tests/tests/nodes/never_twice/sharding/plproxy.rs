use super::{Numbers, manual, nodes, run};
use leaf_tests::{Draw, Ledger, Server, has_extension_of_debian};

/// The router is the centre, and draws nothing itself.
#[test]
fn rows_that_plproxy_spreads_have_different_ids() {
    let (centre, shards) = nodes::<2>(Numbers::Fed, Server::options);
    let centre = centre.expect("a centre");
    let mut router = centre.0.connect();
    if !has_extension_of_debian(&mut router, "plproxy") {
        return;
    }
    let blocks = manual("rows_that_plproxy_spreads_have_different_ids");
    let [on_shards, on_router] = &blocks[..] else {
        panic!("two blocks: {blocks:?}");
    };
    for shard in &shards {
        run(&mut shard.connect(), on_shards, &[]);
    }
    let hosts = [("shard1", &shards[0]), ("shard2", &shards[1])];
    run(&mut router, on_router, &hosts);
    let mut ledger = Ledger::new();
    ledger.add(
        router.numbers(
            "SELECT add_order(customer, 'a book') FROM generate_series(1, 500) AS customer",
        ),
    );
    // Both have rows.
    for shard in &shards {
        let mut client = shard.connect();
        assert!(client.number("SELECT count(*) FROM orders") > 100);
        // Whoever inserts at a shard gets others.
        ledger.add(
            client.numbers(
                "INSERT INTO orders (customer) SELECT generate_series(1, 100) RETURNING id",
            ),
        );
    }
}
