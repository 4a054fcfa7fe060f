//! A shard becomes two: a copy of it goes on with half of the rows.

use super::{Numbers, manual, nodes, run};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Options, Server, draw_many};

/// The rows of the table `orders` of a shard that is to be split.
const ROWS: i64 = 400;

/// A copy skips nothing, and the original soon grants again: what keeps them apart is only the
/// stripe or the centre.
fn options() -> Options {
    Server::options()
        .set("leaf.history_skip", "0")
        .set("leaf.max_step", "50")
}

fn fill(shard: &Server) {
    shard.connect().run(&format!(
        "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'), customer bigint);
         INSERT INTO orders (customer) SELECT n FROM generate_series(1, {ROWS}) AS n"
    ));
}

/// Each half deletes the customers of the other one, and both insert; no id of theirs, nor of
/// other nodes, is the same.
fn halves_go_on(halves: [&mut Client; 2], others: &[&Server]) {
    let mut ledger = Ledger::new();
    let mut both = halves.into_iter().enumerate().collect::<Vec<_>>();
    for (half, client) in &mut both {
        client.run(&format!("DELETE FROM orders WHERE customer % 2 <> {half}"));
    }
    for _ in 0..3 {
        for (half, client) in &mut both {
            client.run(&format!(
                "INSERT INTO orders (customer) SELECT 2 * n + {half} FROM generate_series(1, 300) AS n"
            ));
        }
        for server in others {
            ledger.add(draw_many(&mut server.connect(), "orders", 300));
        }
    }
    for (_, client) in &mut both {
        let ids = client.numbers("SELECT id FROM orders");
        assert_eq!(ids.len() as i64, ROWS / 2 + 900);
        ledger.add(ids);
    }
}

/// A copy that was a standby of the shard.
fn promoted_standby_of(shard: &Server) -> Server {
    let standby = Server::options().start_standby_of(shard);
    standby.catch_up_with(shard);
    standby.promote();
    standby
}

#[test]
fn shard_with_fed_tags_is_split_and_both_halves_go_on() {
    let (centre, [shard, other]) = nodes(Numbers::Fed, options);
    let centre = centre.expect("a centre");
    fill(&shard);
    let copy = promoted_standby_of(&shard);
    halves_go_on(
        [&mut shard.connect(), &mut copy.connect()],
        &[&other, &centre.0],
    );
}

#[test]
fn shard_with_fed_tags_is_split_within_its_server() {
    let (_centre, [shard]) = nodes(Numbers::Fed, options);
    fill(&shard);
    shard
        .connect_as("postgres", "template1")
        .run("CREATE DATABASE half TEMPLATE postgres");
    let mut copy = shard.connect_as("postgres", "half");
    halves_go_on([&mut shard.connect(), &mut copy], &[]);
}

#[test]
fn shard_with_a_stripe_is_split_with_a_stripe_that_nobody_has() {
    let (_, [shard, other]) = nodes(Numbers::Stripes, options);
    fill(&shard);
    let copy = promoted_standby_of(&shard);
    let blocks = manual("shard_with_a_stripe_is_split_with_a_stripe_that_nobody_has");
    run(&mut copy.connect(), &blocks[0], &[]);
    halves_go_on([&mut shard.connect(), &mut copy.connect()], &[&other]);
}
