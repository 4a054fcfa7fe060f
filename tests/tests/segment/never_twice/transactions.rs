//! Savepoints and rollback of a transaction that creates or changes a tag.

use leaf_tests::{Draw, Ledger, Server, draw_many};

#[test]
fn new_tag_drawn_under_savepoints_never_repeats_an_id() {
    let server = Server::start();
    let (mut creator, mut other) = (server.connect(), server.connect());
    let mut ledger = Ledger::new();
    creator.run("BEGIN; SELECT leaf_tag_create('orders', step => 2)");
    ledger.add(creator.rows("orders", 3).expect("ids"));
    for _ in 0..10 {
        creator.run("SAVEPOINT a");
        ledger.add(creator.rows("orders", 5).expect("ids"));
        creator.run("SAVEPOINT b");
        ledger.add(creator.reserve("orders", 9).expect("a block").ids());
        creator.run("ROLLBACK TO b");
        ledger.add(creator.rows("orders", 5).expect("ids"));
        creator.run("ROLLBACK TO a");
        ledger.add(creator.batch("orders", 3).expect("ids"));
        creator.run("RELEASE a");
    }
    creator.run("SAVEPOINT last");
    ledger.add(creator.rows("orders", 50).expect("ids"));
    creator.run("ROLLBACK TO last; COMMIT");
    ledger.add(draw_many(&mut other, "orders", 100));
    ledger.add(draw_many(&mut creator, "orders", 100));
}

#[test]
fn tag_advanced_in_a_transaction_never_repeats_an_id() {
    let server = Server::start();
    let (mut changer, mut other) = (server.connect(), server.connect());
    changer.run("SELECT leaf_tag_create('orders', step => 100)");
    let mut ledger = Ledger::new();
    for round in 1..=10 {
        ledger.add(draw_many(&mut other, "orders", 70));
        changer.run(&format!(
            "BEGIN; SELECT leaf_tag_alter('orders', advance_to => {})",
            round * 10_000_000
        ));
        ledger.add([changer.next("orders").expect("an id")]);
        ledger.add([other.next("orders").expect("an id")]);
        changer.run(if round % 2 == 0 { "COMMIT" } else { "ROLLBACK" });
        ledger.add([changer.next("orders").expect("an id")]);
    }
    assert!(ledger.highest() >= 100_000_000);
}

#[test]
fn ids_of_a_new_tag_drawn_under_a_rolled_back_savepoint_never_return() {
    let server = Server::start();
    let (mut creator, mut other) = (server.connect(), server.connect());
    let mut ledger = Ledger::new();
    creator.run("BEGIN; SELECT leaf_tag_create('orders', step => 2); SAVEPOINT a");
    ledger.add(creator.rows("orders", 50).expect("ids"));
    creator.run("ROLLBACK TO a; COMMIT");
    ledger.add(draw_many(&mut other, "orders", 100));
}
