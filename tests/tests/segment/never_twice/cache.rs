//! Ids that a session has taken ahead: they are that session's alone, and nobody's once the tag has
//! changed.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Server, draw_many, refused, wait_until};
use std::thread;

/// A server with the tag `orders`, whose segments of `step` ids stay as long as they are.
fn server(step: u32, cache: u32) -> (Server, Client) {
    let server = Server::start();
    let mut client = server.connect();
    client.run(&format!(
        "SELECT leaf_tag_create('orders', step => {step}, max_step => {step}, cache => {cache})"
    ));
    (server, client)
}

fn next(client: &mut Client) -> i64 {
    client.next("orders").expect("an id")
}

#[test]
fn sessions_take_ids_in_turn_and_hand_them_out_by_themselves() {
    let (server, mut one) = server(10_000, 100);
    let mut two = server.connect();
    assert_eq!([next(&mut one), next(&mut two)], [1, 101]);
    assert_eq!([next(&mut one), next(&mut two)], [2, 102]);
    // A batch takes the rest of the session first.
    let batch = one.batch("orders", 150).expect("a batch");
    let expected: Vec<i64> = (3..=100).chain(201..=252).collect();
    assert_eq!(batch, expected);
    assert_eq!(next(&mut one), 253);
    assert_eq!(one.number("SELECT leaf_segment_last('orders')"), 253);
    assert_eq!(next(&mut two), 103);
    // What sessions hold counts as handed out.
    assert_eq!(one.stat("orders", "position"), 353);
    drop(two);
    assert_eq!(
        one.number("SELECT leaf_segment_next('orders') FROM generate_series(1, 100) OFFSET 99"),
        353
    );
}

#[test]
fn session_takes_at_most_a_tenth_of_the_segment() {
    let (_server, mut client) = server(100, 1_024);
    assert_eq!(next(&mut client), 1);
    assert_eq!(client.stat("orders", "position"), 11);
}

#[test]
fn block_between_two_segments_is_not_in_a_cache() {
    let (server, mut client) = server(1_000, 100);
    let mut ids = Ledger::new();
    // A tenth of a segment is taken at once, so the last one of a segment is taken whole or cut.
    ids.add(draw_many(&mut client, "orders", 50));
    for _ in 0..40 {
        ids.add(
            server
                .connect()
                .reserve("orders", 37)
                .expect("a block")
                .ids(),
        );
        ids.add(client.batch("orders", 33).expect("a batch"));
        ids.add(client.rows("orders", 170).expect("rows"));
    }
}

#[test]
fn nothing_is_lost_when_only_permissions_were_looked_at_again() {
    let (server, mut client) = server(10_000, 1_000);
    let mut admin = server.connect();
    client.run("BEGIN; DECLARE c CURSOR FOR SELECT leaf_segment_batch('orders', 5000)");
    let fetched = |client: &mut Client| client.number("FETCH 1 FROM c");
    assert_eq!(fetched(&mut client), 1);
    for (n, expected) in (2..6).enumerate() {
        admin.run(&format!("CREATE ROLE other{n}"));
        admin.run("VACUUM leaf.alloc");
        assert_eq!(fetched(&mut client), expected);
    }
    client.run("COMMIT");
    let first = next(&mut client);
    for n in 1..5 {
        admin.run(&format!("CREATE ROLE another{n}"));
        admin.run("VACUUM leaf.alloc");
        assert_eq!(next(&mut client), first + n);
    }
    // Another role of the same session, which may draw, goes on with them.
    admin.run("CREATE ROLE joe; SELECT leaf_tag_grant('orders', 'joe')");
    let granted = next(&mut client);
    client.run("SET ROLE joe");
    assert_eq!(next(&mut client), granted + 1);
}

#[test]
fn change_of_the_tag_ends_what_sessions_have_taken() {
    let (server, mut client) = server(10_000, 100);
    let mut admin = server.connect();
    assert_eq!(next(&mut client), 1);
    admin.run("SELECT leaf_tag_alter('orders', cache => 50)");
    assert_eq!(next(&mut client), 101);
    admin.run("SELECT leaf_tag_alter('orders', advance_to => 1000000)");
    assert_eq!(next(&mut client), 1_000_000);
    admin.run(
        "BEGIN; SELECT leaf_tag_drop('orders');
         SELECT leaf_tag_create('orders', start => 5000000, cache => 10); COMMIT",
    );
    assert_eq!(next(&mut client), 5_000_000);
    // A right that was revoked ends with the next call, not with the cache.
    admin.run("CREATE ROLE joe; SELECT leaf_tag_grant('orders', 'joe')");
    client.run("SET ROLE joe");
    let id = next(&mut client);
    admin.run("SELECT leaf_tag_revoke('orders', 'joe')");
    refused(client.next("orders"), "42501");
    client.run("RESET ROLE");
    assert!(next(&mut client) > id);
    admin.run("SELECT leaf_tag_drop('orders')");
    refused(client.next("orders"), "42704");
}

/// A session looks the tag up again and waits for a catalog in the middle of that; meanwhile, the tag
/// is dropped.
#[test]
fn ids_taken_ahead_do_not_come_after_a_drop_during_a_look_up() {
    let (server, mut admin) = server(10_000, 100);
    admin.run("CREATE ROLE clerks; CREATE ROLE joe LOGIN IN ROLE clerks; SELECT leaf_tag_grant('orders', 'clerks')");
    let mut client = server.connect_as("joe", "postgres");
    let mut holder = server.connect();
    next(&mut client);
    // The session has to read this role again, which only leaf asks for, and cannot.
    admin.run("ALTER ROLE clerks CONNECTION LIMIT 5");
    next(&mut admin);
    holder.run("BEGIN; LOCK TABLE pg_authid IN ACCESS EXCLUSIVE MODE");
    thread::scope(|scope| {
        let call = scope.spawn(|| client.next("orders"));
        let waits =
            "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation = 'pg_authid'::regclass";
        wait_until("the session waits for the catalog", || {
            call.is_finished() || admin.number(waits) == 1
        });
        admin.run("SELECT leaf_tag_drop('orders', force => true)");
        holder.run("ROLLBACK");
        refused(call.join().expect("a session"), "42704");
    });
}

#[test]
fn tag_of_the_open_transaction_is_drawn_without_a_cache() {
    let (_server, mut client) = server(10_000, 100);
    let mut ids = Ledger::new();
    ids.add([next(&mut client)]);
    client.run("BEGIN; SAVEPOINT s; SELECT leaf_tag_drop('orders')");
    client.run("SELECT leaf_tag_create('orders', start => 7000, cache => 100)");
    assert_eq!([next(&mut client), next(&mut client)], [7_000, 7_001]);
    client.run("ROLLBACK TO s");
    ids.add([next(&mut client)]);
    client.run("COMMIT");
    ids.add(draw_many(&mut client, "orders", 500));
    // Of a tag that the transaction has only changed, it first gets what it has taken.
    let before = next(&mut client);
    ids.add([before]);
    client.run("BEGIN; SELECT leaf_tag_alter('orders', description => 'changed')");
    let within = client.rows("orders", 5).expect("rows");
    assert_eq!(within, (before + 1..=before + 5).collect::<Vec<_>>());
    ids.add(within);
    client.run("ROLLBACK");
    ids.add(draw_many(&mut client, "orders", 300));
}

#[test]
fn tag_whose_ids_come_from_caches_is_not_evicted() {
    let server = Server::options().set("leaf.max_tags", "16").start();
    let mut client = server.connect();
    client.run(
        "SELECT leaf_tag_create('orders', step => 10000, cache => 1000);
         SELECT leaf_tag_create('other' || n, step => 10) FROM generate_series(1, 40) AS n",
    );
    let mut others = server.connect();
    // All slots look used when a search begins; it then takes the first one.
    others.next("other1").expect("an id");
    let first = next(&mut client);
    for round in 1..=5 {
        for n in 1..=40 {
            others.next(&format!("other{n}")).expect("an id");
            next(&mut client);
        }
        assert_eq!(next(&mut client), first + round * 41);
    }
}

#[test]
fn released_column_goes_on_above_what_sessions_have_taken() {
    let (server, mut client) = server(10_000, 100);
    client.run(
        "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'));
         INSERT INTO orders DEFAULT VALUES",
    );
    let mut other = server.connect();
    other.run("INSERT INTO orders DEFAULT VALUES");
    client.run("SELECT leaf_column_release('orders', 'id')");
    other.run("INSERT INTO orders SELECT FROM generate_series(1, 200)");
    client.run("INSERT INTO orders SELECT FROM generate_series(1, 200)");
    let highest = "SELECT count(*) FROM orders WHERE id > 200";
    assert_eq!(client.number(highest), 400);
}

#[test]
fn cache_is_from_1_to_1024() {
    let (_server, mut client) = server(1_000, 1_024);
    for wrong in ["0", "-1", "1025"] {
        client.fails(
            &format!("SELECT leaf_tag_alter('orders', cache => {wrong})"),
            "22023",
        );
        client.fails(
            &format!("SELECT leaf_tag_create('wrong', cache => {wrong})"),
            "22023",
        );
        client.fails(&format!("UPDATE leaf.alloc SET cache = {wrong}"), "23514");
    }
    assert_eq!(client.number("SELECT cache::bigint FROM leaf.alloc"), 1_024);
}
