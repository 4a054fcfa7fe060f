//! Two primaries that insert into one table, and replicate to each other.

use super::{Numbers, manual, nodes, run};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Server, wait_until};
use std::thread;

const TEST: &str = "primaries_that_replicate_to_each_other_have_all_rows";

/// Rows that each of the two inserts.
const ROWS: i64 = 500;

fn count(client: &mut Client) -> i64 {
    client.number("SELECT count(*) FROM orders")
}

fn have_all_rows(numbers: Numbers) {
    let blocks = manual(TEST);
    let (_centre, servers) = nodes::<2>(numbers, || {
        Server::options()
            .set("wal_level", "logical")
            .set("wal_retrieve_retry_interval", "100ms")
    });
    let [a, b] = &servers;
    let hosts = [("a", a), ("b", b)];
    for server in &servers {
        run(&mut server.connect(), &blocks[0], &hosts);
    }
    let (of_a, of_b) = (&blocks[1], &blocks[2]);
    let version = a
        .connect()
        .number("SELECT current_setting('server_version_num')::bigint");
    // Before PostgreSQL 16, what came from the other one would be sent back to it.
    let both_ways = version >= 160_000;
    if both_ways {
        run(&mut a.connect(), of_a, &hosts);
        run(&mut b.connect(), of_b, &hosts);
    } else {
        let one_way = of_b.replace("origin = none, ", "");
        run(&mut b.connect(), &one_way, &hosts);
    }
    thread::scope(|scope| {
        for (number, server) in servers.iter().enumerate() {
            scope.spawn(move || {
                let mut client = server.connect();
                for _ in 0..ROWS / 5 {
                    client.run(&format!(
                        "INSERT INTO orders (item) SELECT 'server {number}' FROM generate_series(1, 5)"
                    ));
                }
            });
        }
    });
    wait_until("b has all rows", || count(&mut b.connect()) == 2 * ROWS);
    let of_a = if both_ways { 2 * ROWS } else { ROWS };
    wait_until("a has all rows", || count(&mut a.connect()) == of_a);
    for server in &servers {
        let mut client = server.connect();
        let failed = "SELECT count(*) FROM pg_stat_subscription_stats WHERE apply_error_count > 0";
        assert_eq!(client.number(failed), 0, "{}", server.log());
    }
}

#[test]
fn primaries_that_replicate_to_each_other_have_all_rows() {
    have_all_rows(Numbers::Stripes);
    have_all_rows(Numbers::Fed);
}
