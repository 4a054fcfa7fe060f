//! A coordinator and two workers of Citus, with the statements of the manual's page "Citus". Run by
//! `scripts/test-citus` alone, which builds Citus.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use leaf_tests::page::Page;
use leaf_tests::postgres::{Client, NoTls};
use leaf_tests::{Draw, Ledger, Server, Stop, failed, refused, wait_until};

/// The coordinator and its workers.
struct Fleet {
    coordinator: Server,
    workers: Vec<Server>,
}

fn node() -> Server {
    let server = Server::options()
        .fresh()
        .bare()
        .set("shared_preload_libraries", "citus,leaf")
        .set("wal_level", "logical")
        .set("max_prepared_transactions", "200")
        .set("max_connections", "200")
        .set("leaf.allow_unreplicated_centre", "on")
        .start();
    server.configure(&format!("citus.local_hostname = '{}'\n", server.host()));
    let mut client = server.connect();
    client.run("SELECT pg_reload_conf(); CREATE EXTENSION citus");
    server
}

impl Fleet {
    fn start() -> Fleet {
        let fleet = Fleet {
            coordinator: node(),
            workers: vec![node(), node()],
        };
        let mut client = fleet.coordinator.connect();
        let (host, port) = (fleet.coordinator.host(), fleet.coordinator.port());
        client.run(&format!(
            "SELECT citus_set_coordinator_host('{host}', {port})"
        ));
        for worker in &fleet.workers {
            fleet.add(worker);
        }
        fleet
    }

    fn add(&self, worker: &Server) {
        let (host, port) = (worker.host(), worker.port());
        let add = format!("SELECT citus_add_node('{host}', {port})");
        self.coordinator.connect().run(&add);
    }

    fn all(&self) -> impl Iterator<Item = &Server> {
        [&self.coordinator].into_iter().chain(&self.workers)
    }

    /// The blocks of the page that a test runs, with the coordinator's address.
    fn blocks(&self, test: &str) -> Vec<String> {
        let upstream = self
            .coordinator
            .connection_string()
            .replace("user=postgres", "user=shard");
        let page = Page::read("docs/nodes/citus.md");
        let blocks = page.code_tested_by(test).into_iter();
        blocks
            .map(|block| block.replace("host=coordinator dbname=shop user=shard", &upstream))
            .collect()
    }
}

/// Runs a block, a statement at a time, of which none may fail on any node.
fn run(client: &mut Client, block: &str) {
    for statement in block.split_inclusive(";\n") {
        let asked = statement.replacen(
            "SELECT run_command_on",
            "SELECT success || ' ' || result FROM run_command_on",
            1,
        );
        if asked == statement {
            client.run(statement);
            continue;
        }
        let rows = client.query(&asked, &[]).expect(statement);
        for row in rows {
            let answer: String = row.get(0);
            assert!(answer.starts_with("true"), "{statement}: {answer}");
        }
    }
}

/// All ids of a column, none of which may be there twice.
fn are_different(client: &mut Client, table: &str, column: &str) -> usize {
    let ids = client.numbers(&format!("SELECT {column} FROM {table}"));
    let count = ids.len();
    let mut ledger = Ledger::new();
    ledger.add(ids);
    count
}

/// Inserts at a node until told to stop. What fails, because a node is down, is tried again.
fn insert(node: &str, statement: &str, stop: &AtomicBool, inserted: &AtomicUsize) {
    let mut client = None;
    while !stop.load(Ordering::Relaxed) {
        let connected = client.take().or_else(|| Client::connect(node, NoTls).ok());
        let Some(mut connected) = connected else {
            thread::yield_now();
            continue;
        };
        match connected.execute(statement, &[]) {
            Ok(rows) => {
                inserted.fetch_add(rows as usize, Ordering::Relaxed);
            }
            Err(error) => {
                let code = error.code().map(|code| code.code().to_owned());
                assert_ne!(code.as_deref(), Some("55000"), "{error:?}");
            }
        }
        client = (!connected.is_closed()).then_some(connected);
    }
}

/// With a worker that is killed, a shard that is moved, and a worker that is added.
#[test]
fn fed_by_the_coordinator_all_nodes_draw_different_ids() {
    let mut fleet = Fleet::start();
    let mut client = fleet.coordinator.connect();
    let blocks = fleet.blocks("fed_by_the_coordinator_all_nodes_draw_different_ids");
    let [once, for_each_tag, new_node] = &blocks[..] else {
        panic!("three blocks: {blocks:?}");
    };
    run(&mut client, once);
    run(&mut client, for_each_tag);
    client.run("ALTER TABLE orders ADD COLUMN flake bigint DEFAULT leaf_snowflake_next()");
    let third = node();
    fleet.add(&third);
    run(&mut third.connect(), new_node);
    fleet.workers.push(third);

    let nodes: Vec<String> = fleet.all().map(Server::connection_string).collect();
    let (stop, inserted) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for node in &nodes {
            for statement in [
                "INSERT INTO orders (customer) SELECT generate_series(1, 200)",
                "INSERT INTO orders (customer) SELECT customer + 7 FROM orders LIMIT 200",
                "INSERT INTO orders (customer) VALUES (17), (18)",
            ] {
                let (stop, inserted) = (&stop, &inserted);
                scope.spawn(move || insert(node, statement, stop, inserted));
            }
        }
        let _stop = Stop(&stop);
        let reach = |count| {
            wait_until("rows are inserted", || {
                inserted.load(Ordering::Relaxed) >= count
            });
        };
        reach(20_000);
        fleet.workers[0].kill_postmaster();
        fleet.workers[0].start_again();
        reach(inserted.load(Ordering::Relaxed) + 20_000);
        // Citus keeps connections with a session, and these were to the worker that was killed.
        let mut client = fleet.coordinator.connect();
        client
            .run("SELECT rebalance_table_shards('orders', shard_transfer_mode => 'force_logical')");
        client.run(
            "SELECT citus_move_shard_placement(shardid, s.nodename, s.nodeport, t.nodename, t.nodeport, 'force_logical')
               FROM (SELECT * FROM citus_shards WHERE table_name = 'orders'::regclass ORDER BY shardid LIMIT 1) AS s,
                    LATERAL (SELECT nodename, nodeport FROM pg_dist_node
                              WHERE groupid > 0 AND nodename <> s.nodename LIMIT 1) AS t",
        );
        reach(100_000);
    });
    let rows = are_different(&mut client, "orders", "id");
    assert!(rows >= 100_000, "{rows}");
    assert_eq!(are_different(&mut client, "orders", "flake"), rows);
}

#[test]
fn stripes_of_the_groups_are_drawn_from_on_all_nodes() {
    let fleet = Fleet::start();
    let mut client = fleet.coordinator.connect();
    client.run("CREATE EXTENSION leaf");
    let blocks = fleet.blocks("stripes_of_the_groups_are_drawn_from_on_all_nodes");
    for block in &blocks {
        run(&mut client, block);
    }
    client.run(
        "CREATE TABLE orders (customer bigint, id bigint DEFAULT leaf_segment_next('orders'));
         SELECT create_distributed_table('orders', 'customer')",
    );
    for node in fleet.all() {
        let mut session = node.connect();
        session.run("INSERT INTO orders (customer) SELECT generate_series(1, 1000)");
        session.run("INSERT INTO orders (customer) SELECT customer FROM orders LIMIT 1000");
    }
    assert_eq!(are_different(&mut client, "orders", "id"), 6_000);
}

#[test]
fn tables_that_exist_go_on_above_their_ids() {
    let fleet = Fleet::start();
    let mut client = fleet.coordinator.connect();
    let blocks = fleet.blocks("fed_by_the_coordinator_all_nodes_draw_different_ids");
    run(&mut client, &blocks[0]);
    client.run(
        "CREATE TABLE invoices (customer bigint, id bigserial, PRIMARY KEY (customer, id));
         INSERT INTO invoices SELECT generate_series(1, 500);
         CREATE TABLE items (customer bigint, id bigint, PRIMARY KEY (customer, id));
         SELECT create_distributed_table('items', 'customer');
         INSERT INTO items SELECT n, n FROM generate_series(1, 500) AS n",
    );
    let blocks = fleet.blocks("tables_that_exist_go_on_above_their_ids");
    let [adopted, distributed] = &blocks[..] else {
        panic!("two blocks: {blocks:?}");
    };
    run(&mut client, adopted);
    failed(
        client.query("SELECT leaf_column_adopt('items', 'id')", &[]),
        "0A000",
    );
    run(&mut client, distributed);
    for node in fleet.all() {
        let mut session = node.connect();
        for table in ["invoices", "items"] {
            session.run(&format!(
                "INSERT INTO {table} (customer) SELECT generate_series(1, 100)"
            ));
        }
    }
    for table in ["invoices", "items"] {
        assert_eq!(are_different(&mut client, table, "id"), 800);
    }
}

#[test]
fn worker_refuses_what_other_nodes_hand_out() {
    let fleet = Fleet::start();
    let mut client = fleet.coordinator.connect();
    client.run("CREATE EXTENSION leaf; SELECT leaf_tag_create('orders')");
    client.next("orders").expect("an id");
    let mut worker = fleet.workers[0].connect();
    worker.run("SELECT leaf_tag_create('orders')");
    refused(worker.next("orders"), "55000");
    worker.fails("SELECT leaf_snowflake_next()", "55000");
}
