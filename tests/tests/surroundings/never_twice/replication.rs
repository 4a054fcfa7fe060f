//! Logical replication, with leaf at both ends.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Mode, Server, Snowflake, draw_many, refused, wait_until};

/// A server that can be decoded, with the tag `orders`.
pub fn publisher() -> (Server, Client) {
    let server = Server::options().set("wal_level", "logical").start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders', step => 1000)");
    (server, client)
}

/// A publisher of all its tables and a subscriber that has them, too.
struct Pair {
    publisher: Server,
    subscriber: Server,
    from: Client,
    to: Client,
    marks: i64,
}

impl Pair {
    fn start() -> Pair {
        let (publisher, mut from) = publisher();
        let subscriber = Server::options()
            .set("wal_retrieve_retry_interval", "100ms")
            .start();
        let mut to = subscriber.connect();
        let tables = "CREATE TABLE t (id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'),
                                      flake bigint DEFAULT leaf_snowflake_next());
                      CREATE TABLE mark (n bigint PRIMARY KEY)";
        from.run(tables);
        to.run(tables);
        from.run("INSERT INTO t DEFAULT VALUES; CREATE PUBLICATION everything FOR ALL TABLES");
        to.run(&format!(
            "CREATE SUBSCRIPTION everything CONNECTION '{}' PUBLICATION everything",
            publisher.connection_string()
        ));
        let mut pair = Pair {
            publisher,
            subscriber,
            from,
            to,
            marks: 0,
        };
        wait_until("all tables are copied", || {
            let left = "SELECT count(*) FROM pg_subscription_rel WHERE srsubstate <> 'r'";
            pair.to.number(left) == 0
        });
        pair.catch_up();
        pair
    }

    /// Waits until the subscriber has all that the publisher has committed.
    fn catch_up(&mut self) {
        self.marks += 1;
        self.from
            .run(&format!("INSERT INTO mark VALUES ({})", self.marks));
        wait_until("the subscriber has caught up", || {
            self.to.number("SELECT coalesce(max(n), 0) FROM mark") == self.marks
        });
    }

    fn numbers(&mut self, query: &str) -> [i64; 2] {
        [self.from.number(query), self.to.number(query)]
    }
}

#[test]
fn subscriber_that_takes_over_goes_on_above_the_publisher() {
    let mut pair = Pair::start();
    let (mut ledger, mut flakes) = (Ledger::new(), Ledger::new());
    for _ in 0..5 {
        pair.from
            .run("INSERT INTO t SELECT FROM generate_series(1, 3000)");
        pair.from.run("SELECT leaf_segment_reserve('orders', 500)");
    }
    pair.catch_up();
    let [here, there] = pair.numbers("SELECT max_id FROM leaf.alloc WHERE biz_tag = 'orders'");
    assert_eq!(here, there);
    // These come of what is granted already: nothing is left to replicate.
    ledger.add(pair.from.batch("orders", 100).expect("ids"));
    let Pair {
        mut publisher,
        mut to,
        subscriber: _subscriber,
        ..
    } = pair;
    publisher.stop(Mode::Immediate);
    let rows = to.query("SELECT id, flake FROM t", &[]).expect("rows");
    for row in rows {
        ledger.add([row.get(0)]);
        flakes.add([row.get(1)]);
    }
    assert_eq!(ledger.len(), 15_101);
    ledger.add(draw_many(&mut to, "orders", 5_000));
    flakes.add(to.snowflakes(5_000).expect("ids"));
    assert!(ledger.highest() >= here);
}

#[test]
fn changes_of_tags_reach_the_subscribers_memory() {
    let mut pair = Pair::start();
    pair.to.next("orders").expect("an id");
    let mut warm = pair.subscriber.connect();
    warm.next("orders").expect("an id");
    pair.from
        .run("SELECT leaf_tag_alter('orders', advance_to => 50000000)");
    pair.catch_up();
    assert!(warm.next("orders").expect("an id") >= 50_000_000);
    // Its row is a copy of one that may have granted ids since: it skips by its step.
    pair.from
        .run("SELECT leaf_tag_create('new', step => 100, start => 5)");
    pair.catch_up();
    assert_eq!(warm.next("new").expect("an id"), 1_005);
    pair.from.run(
        "BEGIN; SELECT leaf_tag_drop('new'); SELECT leaf_tag_create('new', step => 100, start => 7000); COMMIT",
    );
    pair.catch_up();
    assert_eq!(warm.next("new").expect("an id"), 8_000);
    pair.from.run("SELECT leaf_tag_drop('new')");
    pair.catch_up();
    refused(warm.next("new"), "42704");
    pair.from.run("TRUNCATE leaf.alloc");
    pair.catch_up();
    refused(warm.next("orders"), "42704");
}

/// What the publisher writes would move the subscriber's rows back: they stay, and
/// replication goes on.
#[test]
fn subscriber_that_draws_is_never_moved_back() {
    let mut pair = Pair::start();
    let mut ledger = Ledger::new();
    for _ in 0..5 {
        ledger.add(draw_many(&mut pair.to, "orders", 1_500));
        draw_many(&mut pair.from, "orders", 1_500);
        pair.catch_up();
        ledger.add(draw_many(&mut pair.to, "orders", 1_500));
    }
    let [here, there] = pair.numbers("SELECT max_id FROM leaf.alloc");
    assert!(here < there, "{here} {there}");
}

#[test]
fn leases_that_end_at_the_publisher_do_not_stop_replication() {
    let mut pair = Pair::start();
    let lease = pair.from.register("'node', ahead => '2 hours'");
    let lease = lease.expect("a lease");
    pair.catch_up();
    let ceiling = pair.to.ceiling(lease.worker_id);
    assert_eq!(ceiling, lease.ceiling);
    pair.from.run(&format!(
        "SELECT leaf_worker_release({}, '{}', {}, now())",
        lease.worker_id, lease.nonce, lease.token
    ));
    pair.catch_up();
    assert!(pair.from.ceiling(lease.worker_id) < ceiling);
    assert_eq!(pair.to.ceiling(lease.worker_id), ceiling);
    // A row that may be deleted there and not here stays here.
    wait_until("the ceiling has passed", || {
        pair.from.clock() > pair.from.ceiling(lease.worker_id)
    });
    let delete = format!(
        "DELETE FROM leaf.worker WHERE worker_id = {}",
        lease.worker_id
    );
    pair.from.run(&delete);
    pair.catch_up();
    assert_eq!(pair.to.ceiling(lease.worker_id), ceiling);
    refused(pair.to.batch_execute(&delete), "55006");
}

/// What the publisher has fed may be on its way, or lost.
#[test]
fn subscriber_of_a_centre_feeds_nothing_before_somebody_vouches() {
    let mut pair = Pair::start();
    for server in [&pair.publisher, &pair.subscriber] {
        server.reload("leaf.allow_unreplicated_centre", "on");
    }
    pair.from.feed("orders", 1000).expect("numbers");
    pair.catch_up();
    pair.to.run("ALTER SUBSCRIPTION everything DISABLE");
    pair.from.feed("orders", 60_000).expect("numbers");
    assert_eq!(pair.to.feed("orders", 1000).expect_err("none"), "55000");
    pair.to.run("SELECT leaf_tag_vouch()");
    pair.to.feed("orders", 1000).expect("numbers");
}
