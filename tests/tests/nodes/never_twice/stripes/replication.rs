//! Rows of other nodes do not change those of this one.

use super::{Stripe, striped};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Server, draw_many, feed, refused, wait_until};

/// The stripe columns of the tag `orders`.
fn stripe_of(client: &mut Client) -> String {
    client.text(
        "SELECT concat_ws(' ', stripes, stripe, stripe_width)
           FROM leaf.alloc WHERE biz_tag = 'orders'",
    )
}

#[test]
fn plain_sql_cannot_change_the_stripe() {
    let (_server, mut client) = striped();
    let before = stripe_of(&mut client);
    for change in [
        "stripes = 8",
        "stripe = 2",
        "stripes = 1, stripe = 0",
        "stripe_width = 200",
    ] {
        let update = format!("UPDATE leaf.alloc SET {change}");
        refused(client.batch_execute(&update), "55000");
        // In a session that is a replica, the row is skipped.
        client.run(&format!(
            "SET session_replication_role = replica;
             UPDATE leaf.alloc SET description = '{change}', {change};
             RESET session_replication_role"
        ));
        assert_eq!(stripe_of(&mut client), before, "{change}");
    }
    client.run("SELECT leaf_tag_create('plain')");
    let all = "UPDATE leaf.alloc SET stripes = 2, stripe = 1 WHERE biz_tag = 'plain'";
    refused(client.batch_execute(all), "55000");
    // What is no change is none.
    client.run("UPDATE leaf.alloc SET stripes = stripes, stripe = stripe, step = 20");
}

/// What functions do in such a session is not replayed from anywhere.
#[test]
fn functions_work_in_a_session_that_is_a_replica() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("SET session_replication_role = replica");
    let stripe = Stripe::of(4, 1);
    for _ in 0..2 {
        stripe.create(&mut client, "");
        let ids = draw_many(&mut client, "orders", 250);
        assert_eq!(ids, stripe.from(1).take(250).collect::<Vec<_>>());
        client.run("SELECT leaf_tag_alter('orders', advance_to => 2000)");
        assert_eq!(client.next("orders").expect("an id"), 2_100);
        client.run("SELECT leaf_tag_drop('orders')");
        refused(client.next("orders"), "42704");
    }
}

/// Two servers that replicate the catalog to each other.
struct Pair {
    servers: [Server; 2],
    clients: [Client; 2],
    marks: i64,
}

impl Pair {
    /// `create` is called for both before their rows are replicated.
    fn start(create: impl Fn(usize, &mut Client)) -> Pair {
        let server = || {
            Server::options()
                .fresh()
                .set("wal_level", "logical")
                .set("wal_retrieve_retry_interval", "100ms")
                .set("leaf.max_step", "1000")
                .start()
        };
        let servers = [server(), server()];
        let mut clients = [servers[0].connect(), servers[1].connect()];
        for (number, client) in clients.iter_mut().enumerate() {
            create(number, client);
            client.run(&format!(
                "CREATE TABLE mark0 (n bigint PRIMARY KEY); CREATE TABLE mark1 (n bigint PRIMARY KEY);
                 CREATE PUBLICATION p FOR TABLE leaf.alloc, mark{number}"
            ));
        }
        for (number, client) in clients.iter_mut().enumerate() {
            client.run(&format!(
                "CREATE SUBSCRIPTION s{number} CONNECTION '{}' PUBLICATION p WITH (copy_data = false)",
                servers[1 - number].connection_string()
            ));
        }
        let mut pair = Pair {
            servers,
            clients,
            marks: 0,
        };
        pair.catch_up();
        pair
    }

    /// Waits until each has all that the other has committed.
    fn catch_up(&mut self) {
        self.marks += 1;
        let marks = self.marks;
        for from in [0, 1] {
            self.clients[from].run(&format!("INSERT INTO mark{from} VALUES ({marks})"));
            let last = format!("SELECT coalesce(max(n), 0) FROM mark{from}");
            let to = &mut self.clients[1 - from];
            wait_until("the other one has caught up", || to.number(&last) == marks);
        }
    }
}

#[test]
fn nodes_that_replicate_to_each_other_stay_in_their_stripes() {
    let mut pair = Pair::start(|number, client| {
        Stripe::of(4, number as i64).create(client, ", start => -500");
    });
    let stripes = [Stripe::of(4, 0), Stripe::of(4, 1)];
    let before = [0, 1].map(|number| stripe_of(&mut pair.clients[number]));
    let mut ledger = Ledger::new();
    let mut starts = [-500, -500];
    for round in 0..5 {
        for number in [0, 1] {
            // One of them is much faster.
            let count = [2_000, 150][number];
            let ids = draw_many(&mut pair.clients[number], "orders", count);
            let expected: Vec<i64> = stripes[number].from(starts[number]).take(count).collect();
            assert_eq!(ids, expected, "{round}: not moved by the other one");
            starts[number] = ids[count - 1] + 1;
            ledger.add(ids);
        }
        pair.clients[0].run("SELECT leaf_tag_alter('orders', description => 'of the first')");
        pair.catch_up();
    }
    for number in [0, 1] {
        assert_eq!(stripe_of(&mut pair.clients[number]), before[number]);
    }

    // A tag that is created on one of them is none of the other.
    let create = "SELECT leaf_tag_create('new', stripes => 4, stripe => ";
    pair.clients[0].run(&format!("{create} 0)"));
    pair.catch_up();
    refused(pair.clients[1].next("new"), "42704");
    assert!(
        pair.servers[1]
            .log()
            .contains("did not store the row of tag \"new\"")
    );
    pair.clients[1].run(&format!("{create} 1)"));
    pair.catch_up();
    assert_eq!(pair.clients[0].next("new").expect("an id"), 1);
    assert_eq!(pair.clients[1].next("new").expect("an id"), 1_000_000);
    // Nor does one drop the other's.
    pair.clients[0].run("SELECT leaf_tag_drop('new'), leaf_tag_drop('orders')");
    pair.catch_up();
    assert_eq!(pair.clients[1].next("new").expect("an id"), 1_000_001);
    let next = stripes[1].from(starts[1]).next();
    assert_eq!(pair.clients[1].next("orders").ok(), next);
}

/// It has the row of the original, with its incarnation, and is no node of its own.
#[test]
fn copy_of_a_node_follows_its_position() {
    let mut pair = Pair::start(|_, client| {
        client.run(
            "INSERT INTO leaf.alloc (biz_tag, max_id, step, stripes, stripe, stripe_width, incarnation)
                 VALUES ('orders', 1, 30, 4, 1, 100, '7c9e6679-7425-40de-944b-e07fc1f90ae7')",
        );
    });
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut pair.clients[0], "orders", 1_000));
    pair.catch_up();
    let position = "SELECT max_id FROM leaf.alloc";
    let [there, here] = [0, 1].map(|number| pair.clients[number].number(position));
    assert_eq!(there, here);
    pair.clients[0].run("SELECT leaf_tag_alter('orders', advance_to => 90000)");
    pair.catch_up();
    assert_eq!(pair.clients[1].number(position), 90_000);
    ledger.add(draw_many(&mut pair.clients[0], "orders", 1_000));
    pair.catch_up();
    ledger.add(draw_many(&mut pair.clients[1], "orders", 1_000));
}

#[test]
fn dump_of_another_node_does_not_overwrite_a_tag() {
    let (here, mut client) = striped();
    client.next("orders").expect("an id");
    let there = Server::options().fresh().start();
    let mut other = there.connect();
    Stripe::of(4, 2).create(&mut other, ", start => 5000");
    other.run("SELECT leaf_tag_create('plain')");
    for options in [
        &["--data-only", "--table=leaf.alloc"][..],
        &[
            "--data-only",
            "--table=leaf.alloc",
            "--inserts",
            "--on-conflict-do-nothing",
        ],
    ] {
        let dump = there
            .program("pg_dump")
            .args(options)
            .arg("postgres")
            .output();
        let dump = dump.expect("a dump").stdout;
        assert!(!dump.is_empty());
        for role in ["origin", "replica"] {
            let before = stripe_of(&mut client);
            let mut restore = here.program("psql");
            restore.args(["-X", "-q", "-d", "postgres"]);
            let script = format!("SET session_replication_role = {role};\n");
            feed(&mut restore, &[script.as_bytes(), &dump].concat());
            assert_eq!(stripe_of(&mut client), before, "{options:?} {role}");
            assert!(client.next("orders").expect("an id") < 200);
        }
    }
    // The row without a stripe is restored as ever.
    client.next("plain").expect("an id");
}
