//! A table over three servers: hash partitions at a router, through `postgres_fdw`.

use super::{Numbers, manual, nodes, run};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Server, Stop};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

const TEST: &str = "table_over_three_servers_merges_without_a_collision";

/// Rows that each of those who insert inserts.
const ROWS: i64 = 600;

/// Inserts at the router, which sends the rows to where they belong.
fn insert_at_the_router(client: &mut Client) {
    for first in (0..ROWS).step_by(100) {
        client.run(&format!(
            "INSERT INTO orders (customer, item)
             SELECT n % 97, 'router' FROM generate_series({first}, {first} + 99) AS n"
        ));
    }
}

/// Inserts rows of one customer of a shard, at the shard itself.
fn insert_at_the_shard(shard: &Server, customer: i64) {
    let mut client = shard.connect();
    for _ in 0..ROWS / 3 {
        client.run(&format!(
            "INSERT INTO orders (customer, item) SELECT {customer}, 'shard' FROM generate_series(1, 3)"
        ));
    }
}

fn merges_without_a_collision(numbers: Numbers) {
    let blocks = manual(TEST);
    let (_centre, servers) = nodes::<3>(numbers, Server::options);
    let [router, first, second] = &servers;
    let mut client = router.connect();
    let hosts = [("shard1", first), ("shard2", second)];
    for shard in [first, second] {
        run(&mut shard.connect(), &blocks[0], &hosts);
    }
    run(&mut client, &blocks[1], &hosts);
    insert_at_the_router(&mut client);
    let customer = |client: &mut Client, partition: &str| {
        client.number(&format!("SELECT min(customer) FROM {partition}"))
    };
    let customers = ["orders_1", "orders_2"].map(|it| customer(&mut client, it));

    // All three insert at the same time.
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&done);
        scope.spawn(|| {
            let mut reader = router.connect();
            while !done.load(Ordering::Relaxed) {
                let twice = "SELECT count(*) - count(DISTINCT id) FROM orders";
                assert_eq!(reader.number(twice), 0);
            }
        });
        let shards = [first, second].into_iter().zip(customers);
        let shards: Vec<_> = shards
            .map(|(shard, customer)| scope.spawn(move || insert_at_the_shard(shard, customer)))
            .collect();
        insert_at_the_router(&mut client);
        for shard in shards {
            shard.join().expect("rows");
        }
    });
    // The router finds them where it looks for them.
    for customer in customers {
        let found = "SELECT count(*) FROM orders WHERE item = 'shard' AND customer = ";
        assert_eq!(client.number(&format!("{found}{customer}")), ROWS);
    }
    run(&mut client, &blocks[2], &hosts);
    assert_eq!(client.number("SELECT count(*) FROM merged"), 4 * ROWS);
    for server in &servers {
        assert!(server.connect().number("SELECT count(*) FROM orders") > 0);
    }
}

#[test]
fn table_over_three_servers_merges_without_a_collision() {
    merges_without_a_collision(Numbers::Stripes);
    merges_without_a_collision(Numbers::Fed);
}
