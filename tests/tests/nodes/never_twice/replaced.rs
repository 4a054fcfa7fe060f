//! A row of a tag that another node's row has replaced, by something that fires no triggers: nothing
//! is granted from it until somebody says that it is the right one.

use leaf_tests::postgres::Client;
use leaf_tests::{Centre, Draw, Ledger, Mode, Server, attach, draw_many, refused};

/// What another node of pgactive sends, which writes rows by itself.
const ROW_OF_OTHER: &str = "UPDATE leaf.alloc SET stripe = 1, incarnation = gen_random_uuid(), \
                            max_id = 101, history = 'of another node', written_by = '0'";

/// How a row can be written without leaf's triggers.
const PATHS: [[&str; 2]; 2] = [
    [
        "ALTER TABLE leaf.alloc DISABLE TRIGGER ALL",
        "ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_check;
         ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_changed;
         ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_truncated",
    ],
    // As `pg_restore --disable-triggers` leaves them.
    [
        "ALTER TABLE leaf.alloc ENABLE TRIGGER ALL; SET session_replication_role = replica",
        "RESET session_replication_role",
    ],
];

fn without_triggers(client: &mut Client, path: usize, statement: &str) {
    let [before, after] = PATHS[path];
    client.run(&format!("{before}; {statement}; {after}"));
}

fn without(client: &mut Client, statement: &str) {
    without_triggers(client, 0, statement);
}

/// A node with stripe 0 of 16, blocks of 100 and segments of 10, which has drawn.
fn node() -> (Server, Client, Ledger) {
    let server = Server::start();
    let mut client = server.connect();
    client.run(
        "SELECT leaf_tag_create('orders', step => 10, max_step => 10, stripes => 16, stripe => 0, stripe_width => 100)",
    );
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut client, "orders", 250));
    (server, client, ledger)
}

/// Draws until nothing is left in memory, and adds the ids.
fn draw_until_refused(client: &mut Client, ledger: &mut Ledger) {
    for _ in 0..100 {
        match client.batch("orders", 10) {
            Ok(ids) => ledger.add(ids),
            refusal => {
                let error = refused(refusal, "55000");
                assert!(error.message().contains("was replaced"), "{error:?}");
                return;
            }
        }
    }
    panic!("it is drawn from");
}

/// The numbers of the stripe `number` of 16 with blocks of 100.
fn are_of_stripe(ids: &[i64], number: i64) -> bool {
    ids.iter().all(|id| id / 100 % 16 == number)
}

#[test]
fn row_of_another_node_grants_nothing_until_somebody_vouches_for_it() {
    for path in 0..PATHS.len() {
        let (server, mut client, mut ledger) = node();
        without_triggers(&mut client, path, ROW_OF_OTHER);
        draw_until_refused(&mut client, &mut ledger);
        let mut other = server.connect();
        for statement in [
            "SELECT leaf_segment_next('orders')",
            "SELECT leaf_segment_batch('orders', 3)",
            "SELECT leaf_segment_reserve('orders', 3)",
        ] {
            other.fails(statement, "55000");
        }
        // Nothing but that says that the row is right.
        for change in [
            "SELECT leaf_tag_alter('orders', description => 'of the shop')",
            "SELECT leaf_tag_grant('orders', 'public')",
            "SELECT leaf_tag_alter('orders', advance_to => 1000000)",
            "SELECT leaf_tag_vouch()",
            "UPDATE leaf.alloc SET update_time = now()",
        ] {
            client.run(change);
            refused(client.next("orders"), "55000");
        }
        client.run("SELECT leaf_tag_vouch('orders')");
        let ids = draw_many(&mut client, "orders", 250);
        assert!(are_of_stripe(&ids, 1), "{ids:?}");
        ledger.add(ids);
    }
}

#[test]
fn restarted_node_knows_from_which_rows_it_granted() {
    for mode in [Mode::Fast, Mode::Immediate] {
        let (mut server, client, mut ledger) = node();
        drop(client);
        server.restart(mode);
        let mut client = server.connect();
        without(&mut client, ROW_OF_OTHER);
        draw_until_refused(&mut client, &mut ledger);
        drop(client);
        server.restart(mode);
        let mut client = server.connect();
        draw_until_refused(&mut client, &mut ledger);
        // What a crash has left of a line counts for nothing.
        let oid = client.number("SELECT oid::bigint FROM pg_database WHERE datname = 'postgres'");
        let file = format!("leaf/rows.{oid}");
        let content = std::fs::read(server.data().join(&file)).expect("the file");
        server.write(&file, &[&content[..], b"\n{\"catalog\":1"].concat());
        client.run("SELECT leaf_tag_vouch('orders')");
        ledger.add(draw_many(&mut client, "orders", 50));
        drop(client);
        server.restart(mode);
        let mut client = server.connect();
        ledger.add(draw_many(&mut client, "orders", 50));
        without(&mut client, "UPDATE leaf.alloc SET stripe = 2");
        draw_until_refused(&mut client, &mut ledger);
    }
}

/// What a node brings before anything was granted here, and what is attached then.
#[test]
fn first_row_that_another_node_brings_grants_nothing() {
    let server = Server::start();
    let mut client = server.connect();
    let row =
        "INSERT INTO leaf.alloc (biz_tag, step, stripes, stripe) VALUES ('orders', 10, 16, 1)";
    without(&mut client, row);
    refused(client.next("orders"), "55000");
    client.run(
        "DELETE FROM leaf.alloc; SELECT leaf_tag_create('orders', stripes => 16, stripe => 0)",
    );
    without(&mut client, ROW_OF_OTHER);
    refused(client.next("orders"), "55000");
    client.run("SELECT leaf_tag_vouch('orders')");
    client.next("orders").expect("an id");
}

/// A row without a stripe takes the place of one with a stripe, and the other way round.
#[test]
fn row_that_takes_all_numbers_grants_nothing() {
    let (_server, mut client, mut ledger) = node();
    without(&mut client, "UPDATE leaf.alloc SET stripes = 1, stripe = 0");
    draw_until_refused(&mut client, &mut ledger);

    let (_server, mut client) = Server::with_orders(10);
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut client, "orders", 25));
    without(
        &mut client,
        "UPDATE leaf.alloc SET incarnation = gen_random_uuid()",
    );
    draw_until_refused(&mut client, &mut ledger);
    client.run("SELECT leaf_tag_vouch('orders')");
    ledger.add(draw_many(&mut client, "orders", 25));
}

#[test]
fn fed_tag_that_another_nodes_row_replaced_takes_no_numbers() {
    let centre = Centre::start();
    centre.create("orders", ", step => 10");
    let shard = centre.shard();
    let mut client = shard.connect();
    attach(&shard, "orders", 10);
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut client, "orders", 25));
    without(
        &mut client,
        "UPDATE leaf.alloc SET upstream_tag = NULL, upstream_incarnation = NULL, max_id = 1",
    );
    draw_until_refused(&mut client, &mut ledger);
    without(
        &mut client,
        "UPDATE leaf.alloc SET upstream_tag = 'orders', upstream_incarnation = gen_random_uuid()",
    );
    refused(client.next("orders"), "55000");
    // The shard's own row again, as it was.
    let own = centre
        .0
        .connect()
        .query_one("SELECT leaf_tag_incarnation('orders')::text", &[])
        .expect("the centre's tag");
    let own: String = own.get(0);
    let back = format!("UPDATE leaf.alloc SET upstream_incarnation = '{own}'");
    without(&mut client, &back);
    client.run("SELECT leaf_tag_vouch('orders')");
    ledger.add(draw_many(&mut client, "orders", 25));
}

/// What statements do here is no replacement.
#[test]
fn tag_that_is_made_anew_is_drawn_from() {
    let (server, mut client, _) = node();
    for statement in [
        "SELECT leaf_tag_drop('orders'); SELECT leaf_tag_create('orders', stripes => 4, stripe => 2)",
        "SELECT leaf_tag_drop('orders'); SELECT leaf_tag_create('orders')",
        "DROP EXTENSION leaf; CREATE EXTENSION leaf; SELECT leaf_tag_create('orders', stripes => 3, stripe => 0)",
    ] {
        client.run(statement);
        let mut session = server.connect();
        session.next("orders").expect("an id");
        session.reserve("orders", 10).expect("a block");
    }
}

#[test]
fn dropped_database_leaves_no_record_of_its_rows() {
    let (server, mut client, _) = node();
    client.run("CREATE DATABASE gone");
    let oid = client.number("SELECT oid::bigint FROM pg_database WHERE datname = 'gone'");
    let mut gone = server.connect_as("postgres", "gone");
    gone.run("CREATE EXTENSION leaf; SELECT leaf_tag_create('orders', stripes => 4, stripe => 0)");
    gone.next("orders").expect("an id");
    drop(gone);
    let file = server.data().join(format!("leaf/rows.{oid}"));
    assert!(file.exists());
    client.run("DROP DATABASE gone");
    assert!(!file.exists());
}
