//! A grant is durable before any of its ids is seen, whatever the database or the
//! role says about committing.

use leaf_tests::{Draw, Ledger, Mode, Order, Server, Snowflake};
use std::fs;
use std::time::Duration;

/// Commits are asynchronous everywhere, and nothing else writes the log out.
fn careless() -> Server {
    let server = Server::options()
        .clock()
        .set("synchronous_commit", "off")
        .set("wal_writer_delay", "10s")
        .set("wal_writer_flush_after", "1GB")
        .set("bgwriter_lru_maxpages", "0")
        .start();
    server.connect().run(
        "SELECT leaf_tag_create('orders', step => 100);
         ALTER DATABASE postgres SET synchronous_commit = off;
         ALTER ROLE postgres SET synchronous_commit = off;
         ALTER ROLE postgres IN DATABASE postgres SET synchronous_commit = off;
         CHECKPOINT",
    );
    server
}

#[test]
fn asynchronous_commit_never_repeats_an_id() {
    let mut server = careless();
    let mut ledger = Ledger::new();
    for _ in 0..10 {
        let mut client = server.connect();
        assert_eq!(client.text("SHOW synchronous_commit"), "off");
        ledger.add(client.rows("orders", 750).expect("ids"));
        server.restart(Mode::Immediate);
    }
}

#[test]
fn asynchronous_commit_never_repeats_a_reserved_id() {
    let mut server = careless();
    let mut ledger = Ledger::new();
    for round in 1..=10 {
        let mut client = server.connect();
        for _ in 0..round {
            ledger.add(client.reserve("orders", 30).expect("a block").ids());
        }
        server.kill_postmaster();
        server.start_again();
    }
}

#[test]
fn tag_of_an_asynchronous_commit_lives_or_dies_with_its_ids() {
    let mut server = careless();
    for round in 0..5 {
        let tag = format!("new{round}");
        let mut client = server.connect();
        client.run(&format!(
            "BEGIN; SELECT leaf_tag_create('{tag}', step => 10)"
        ));
        let mut ledger = Ledger::new();
        ledger.add(client.rows(&tag, 35).expect("ids"));
        client.run("COMMIT");
        server.restart(Mode::Immediate);

        let mut client = server.connect();
        let kept = "SELECT count(*) FROM leaf.alloc WHERE biz_tag = ";
        if client.number(&format!("{kept}'{tag}'")) == 1 {
            ledger.add(client.rows(&tag, 35).expect("ids"));
        }
    }
}

#[test]
fn tag_is_durable_once_another_session_has_drawn_from_it() {
    let mut server = careless();
    let mut ledger = Ledger::new();
    server
        .connect()
        .run("SELECT leaf_tag_create('late', start => 5000000)");
    ledger.add(server.connect().rows("late", 10).expect("ids"));
    server.restart(Mode::Immediate);
    ledger.add(server.connect().rows("late", 10).expect("the tag is there"));
}

#[test]
fn advance_of_an_asynchronous_commit_is_durable_before_it_is_drawn() {
    let mut server = careless();
    let mut ledger = Ledger::new();
    for round in 1..=5i64 {
        let mut client = server.connect();
        ledger.add(client.rows("orders", 5).expect("ids"));
        client.run(&format!(
            "SELECT leaf_tag_alter('orders', advance_to => {})",
            round * 1_000_000
        ));
        ledger.add(client.rows("orders", 5).expect("ids"));
        assert!(ledger.highest() >= round * 1_000_000);
        server.restart(Mode::Immediate);
    }
}

#[test]
fn ceiling_of_an_asynchronous_commit_is_durable_before_ids_are_seen() {
    let mut server = careless();
    let order = Order::new();
    for round in 1..=5 {
        let mut client = server.connect();
        order.ascending(|| client.snowflakes(10_000)).expect("ids");
        server.stop(Mode::Immediate);
        // Only the row in the registry is left to tell.
        let kept = server.data().join("leaf");
        for file in fs::read_dir(kept).expect("leaf's files") {
            let path = file.expect("a file").path();
            if path.to_string_lossy().contains("snowflake") {
                fs::remove_file(path).expect("a file of ceilings");
            }
        }
        server.clock().behind(Duration::from_millis(200 * round));
        server.start_again();
    }
    let mut client = server.connect();
    order.ascending(|| client.snowflakes(10_000)).expect("ids");
}

/// A session whose transaction is open has written the next 32 values of the sequence to the log,
/// and nothing flushes that for another session, which only reads: this is what docs/comparison.md
/// says of sequences. Ids of leaf do not come again.
#[test]
fn answered_values_of_a_sequence_come_again_after_a_crash_and_ids_do_not() {
    let mut server = Server::with_orders(1000).0;
    server.connect().run("CREATE SEQUENCE s");
    let mut crash_after = |draw: &str| {
        let [mut open, mut other] = [(); 2].map(|()| server.connect());
        open.run(&format!("BEGIN; {draw}"));
        assert_eq!(other.text("SHOW synchronous_commit"), "on");
        let answered: Vec<i64> = (0..5).map(|_| other.number(draw)).collect();
        server.restart(Mode::Immediate);
        let mut client = server.connect();
        let next = (0..5).map(|_| client.number(draw));
        next.filter(|value| answered.contains(value)).count()
    };
    for _ in 0..5 {
        assert_eq!(crash_after("SELECT leaf_segment_next('orders')"), 0);
    }
    // Unless something else flushes the log at the wrong moment.
    let repeated = (0..20).any(|_| crash_after("SELECT nextval('s')") > 0);
    assert!(repeated, "no value came again after 20 crashes");
}
