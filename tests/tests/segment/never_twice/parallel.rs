//! Parallel plans draw as any other session does.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Server};

/// A session whose planner takes parallel workers wherever it may.
fn parallel(server: &Server) -> Client {
    let mut client = server.connect();
    client.run(
        "CREATE TABLE many AS SELECT n FROM generate_series(1, 100000) AS n;
         ALTER TABLE many SET (parallel_workers = 4);
         ANALYZE many;
         SET parallel_setup_cost = 0;
         SET parallel_tuple_cost = 0;
         SET min_parallel_table_scan_size = 0;
         SET max_parallel_workers_per_gather = 4",
    );
    client
}

const SNOWFLAKES: &str = "SELECT leaf_snowflake_next() FROM many";

const QUERY: &str = "SELECT leaf_segment_next('orders') FROM many";

/// Panics unless the query really draws in workers.
fn assert_parallel(client: &mut Client, query: &str) {
    let plan = client.plan(&format!("(VERBOSE) {query}"));
    let (_, below) = plan
        .split_once("Gather")
        .unwrap_or_else(|| panic!("{plan}"));
    let node = below.split("->").nth(1).unwrap_or_else(|| panic!("{plan}"));
    assert!(node.contains("_next"), "not in the workers: {plan}");
}

#[test]
fn parallel_plans_never_repeat_an_id() {
    let server = Server::options().set("max_worker_processes", "12").start();
    let mut client = parallel(&server);
    client.run("SELECT leaf_tag_create('orders', step => 1000)");
    assert_parallel(&mut client, QUERY);
    let mut ledger = Ledger::new();
    for leader in ["on", "off"] {
        client.run(&format!("SET parallel_leader_participation = {leader}"));
        for cache in [1, 7, 1024] {
            client.run(&format!(
                "SELECT leaf_tag_alter('orders', cache => {cache})"
            ));
            let rows = client.query(QUERY, &[]).expect("no caller fails");
            assert_eq!(rows.len(), 100_000);
            ledger.add(rows.iter().map(|row| row.get(0)));
        }
    }
}

#[test]
fn parallel_plans_never_repeat_a_snowflake_id() {
    let server = Server::options().set("max_worker_processes", "12").start();
    let mut client = parallel(&server);
    assert_parallel(&mut client, SNOWFLAKES);
    let mut ledger = Ledger::new();
    for leader in ["off", "on"] {
        // With the leader off, the very first id is a worker's.
        client.run(&format!("SET parallel_leader_participation = {leader}"));
        for _ in 0..3 {
            let rows = client.query(SNOWFLAKES, &[]).expect("no caller fails");
            assert_eq!(rows.len(), 100_000);
            ledger.add(rows.iter().map(|row| row.get(0)));
        }
    }
}

#[test]
fn parallel_worker_says_that_it_cannot_see_a_new_tag() {
    let server = Server::options().set("max_worker_processes", "12").start();
    let mut client = parallel(&server);
    assert_parallel(&mut client, QUERY);
    client.run("SET parallel_leader_participation = off");
    client.run("BEGIN; SELECT leaf_tag_create('orders')");
    client.run("SAVEPOINT before");
    let error = client
        .query(QUERY, &[])
        .expect_err("workers cannot draw from it");
    let error = error.as_db_error().expect("an error of the server");
    let text = format!("{} {}", error.message(), error.detail().unwrap_or(""));
    assert!(text.contains("parallel"), "{error:?}");
    assert!(error.hint().is_some(), "{error:?}");
    client.run("ROLLBACK TO before; SET max_parallel_workers_per_gather = 0");
    assert_eq!(client.query(QUERY, &[]).expect("ids").len(), 100_000);
    client.run("COMMIT; SET max_parallel_workers_per_gather = 4");
    assert_eq!(client.query(QUERY, &[]).expect("ids").len(), 100_000);
}
