//! A released column goes on above everything that leaf has handed out for it, and only if the
//! numbers from there on are its own.

use super::{World, insert};
use leaf_tests::{Centre, Draw, Ledger, Mode, Server, refused};

#[test]
fn column_of_a_fed_tag_is_not_released() {
    let centre = Centre::start();
    centre.create("orders", ", start => 10001");
    let shards = [centre.shard(), centre.shard()];
    let mut clients = shards.each_ref().map(Server::connect);
    let mut ledger = Ledger::new();
    for client in &mut clients {
        client.run(
            "CREATE TABLE orders (id bigserial, v int);
             SELECT leaf_column_adopt('orders', 'id', 'orders'); SELECT leaf_tag_attach('orders')",
        );
        ledger.add([insert(client)]);
        let error = refused(
            client.simple_query("SELECT leaf_column_release('orders', 'id')"),
            "55000",
        );
        assert!(error.message().contains("other nodes"), "{error:?}");
    }
    for client in &mut clients {
        ledger.add((0..40).map(|_| insert(client)));
    }
}

#[test]
fn column_released_after_a_promotion_skips_what_the_standby_may_have_missed() {
    let mut primary = Server::options()
        .set("leaf.max_step", "100")
        .set("wal_level", "replica")
        .start();
    let mut client = primary.connect();
    client.run(
        "CREATE TABLE orders (id bigserial); SELECT leaf_column_adopt('orders', 'id', 't');
         SELECT leaf_tag_alter('t', step => 100)",
    );
    let insert_many = "INSERT INTO orders SELECT FROM generate_series(1, 500) RETURNING id";
    let mut ledger = Ledger::new();
    ledger.add(client.numbers(insert_many));
    let mut standby = Server::options().start_standby_of(&primary);
    standby.catch_up_with(&primary);
    standby.stop(Mode::Fast);
    ledger.add(client.numbers(insert_many));
    primary.stop(Mode::Immediate);
    standby.launch();
    standby.wait_ready();
    let mut client = standby.promote();
    client.run("SELECT leaf_column_release('orders', 'id')");
    ledger.add(client.numbers(insert_many));
}

#[test]
fn column_released_from_a_restored_dump_skips_what_came_after_the_dump() {
    let server = Server::start();
    let mut client = server.connect();
    client.run(
        "CREATE TABLE orders (id bigserial); SELECT leaf_column_adopt('orders', 'id', 't');
         SELECT leaf_tag_alter('t', step => 100, max_step => 100)",
    );
    client.run("CREATE DATABASE restored");
    let insert_many = "INSERT INTO orders SELECT FROM generate_series(1, 500) RETURNING id";
    let mut ledger = Ledger::new();
    ledger.add(client.numbers(insert_many));
    server.dump_and_restore("postgres", "restored");
    let mut restored = server.connect_as("postgres", "restored");
    ledger.add(client.numbers(insert_many));
    restored.run("SELECT leaf_column_release('orders', 'id')");
    ledger.add(restored.numbers(insert_many));
}

#[test]
fn column_released_in_its_transaction_goes_on_above_what_savepoints_drew() {
    let mut world = World::new();
    let app = &mut world.app;
    app.run(
        "CREATE TABLE orders (id bigserial); BEGIN;
         SELECT leaf_column_adopt('orders', 'id'); SAVEPOINT s",
    );
    let mut ledger = Ledger::new();
    ledger.add(app.numbers("INSERT INTO orders SELECT FROM generate_series(1, 2500) RETURNING id"));
    app.run("ROLLBACK TO s; SELECT leaf_column_release('orders', 'id')");
    ledger.add([insert(app), insert(app)]);
    app.run("COMMIT");
    ledger.add([insert(app)]);
}
