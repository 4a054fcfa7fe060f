//! Blocks: reserving them, and returning their unused ends.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Server, refused};

/// It is returned for good, whatever becomes of the transaction, and stalls nobody.
#[test]
fn return_of_a_block_is_not_part_of_the_transaction() {
    let server = Server::options()
        .set("max_prepared_transactions", "2")
        .start();
    let (mut client, mut other) = (server.connect(), server.connect());
    client.run("SELECT leaf_tag_create('orders')");
    client.run("SET statement_timeout = '30s'");
    other.run("SET statement_timeout = '30s'");
    for (begin, end) in [
        ("BEGIN", "ROLLBACK"),
        ("BEGIN READ ONLY", "COMMIT"),
        (
            "BEGIN ISOLATION LEVEL SERIALIZABLE; SELECT FROM leaf.alloc",
            "COMMIT",
        ),
        ("BEGIN", "PREPARE TRANSACTION 'p'"),
    ] {
        let block = client.reserve("orders", 100).expect("a block");
        client.run(begin);
        let give_back = format!(
            "SELECT leaf_segment_return('orders', int8range({}, {}, '[]'))::int::bigint",
            block.first, block.last
        );
        assert_eq!(client.number(&give_back), 1, "{begin}");
        let of_other = other.reserve("orders", 5).expect("a block");
        assert_eq!(of_other.first, block.first, "{begin}");
        client.run(end);
        assert_eq!(client.number(&give_back), 0, "{begin}");
        let next = client.reserve("orders", 5).expect("a block");
        assert!(next.first > of_other.last, "{begin}");
    }
    client.run("ROLLBACK PREPARED 'p'");
}

/// The last ids of the tag are those of another session's block.
#[test]
fn returned_end_of_a_block_is_the_end_of_that_block() {
    let (server, mut client) = Server::with_orders(1000);
    let mut other = server.connect();
    let own = client.reserve("orders", 100).expect("a block");
    let of_other = other.reserve("orders", 100).expect("a block");
    for (first, last) in [
        (own.first, of_other.last),
        (own.last + 1, of_other.last),
        (own.first, own.last),
        (own.first, own.last - 1),
    ] {
        let taken = client.number(&format!(
            "SELECT leaf_segment_return('orders', '[{first},{last}]')::int::bigint"
        ));
        assert_eq!(taken, 0, "{first} to {last}");
    }
    let next = client.reserve("orders", 5).expect("a block");
    assert!(next.first > of_other.last);
}

/// `(f()).*` calls a function that returns a record once for each column.
#[test]
fn block_cannot_be_taken_apart_into_several() {
    let (_server, mut client) = Server::with_orders(1000);
    client.fails("SELECT (leaf_segment_reserve('orders', 3)).*", "42809");
    let lengths = "SELECT upper(block) - lower(block) FROM generate_series(1, 100),
                          LATERAL (SELECT leaf_segment_reserve('orders', 3) AS block) AS b";
    assert!(client.numbers(lengths).iter().all(|&length| length == 3));
}

#[test]
fn block_is_of_the_incarnation_that_was_asked_for() {
    let (_server, mut client) = Server::with_orders(1000);
    let reserve = "SELECT lower(leaf_segment_reserve('orders', 5, $1::text::uuid))";
    let incarnation = client.text("SELECT leaf_tag_incarnation('orders')::text");
    let first = |client: &mut Client, incarnation: &str| {
        let row = client.query_one(reserve, &[&incarnation]);
        row.map(|row| row.get::<_, i64>(0))
    };
    assert_eq!(first(&mut client, &incarnation).expect("a block"), 1);
    assert_eq!(first(&mut client, &incarnation).expect("a block"), 6);
    client.run("SELECT leaf_tag_drop('orders'), leaf_tag_create('orders')");
    let refusal = refused(first(&mut client, &incarnation), "55000");
    assert!(refusal.message().contains("re-created"), "{refusal:?}");
    client.run("CREATE ROLE joe; SET ROLE joe");
    client.fails("SELECT leaf_tag_incarnation('orders')", "42501");
    client.run("RESET ROLE");
    let incarnation = client.text("SELECT leaf_tag_incarnation('orders')::text");
    assert_eq!(first(&mut client, &incarnation).expect("a block"), 1);
}

/// Below are ids that were moved over, or that somebody else has in use.
#[test]
fn nothing_below_a_position_that_was_set_is_taken_back() {
    let (_server, mut client) = Server::with_orders(1000);
    let give_back = |client: &mut Client, block: leaf_tests::Block| {
        client.number(&format!(
            "SELECT leaf_segment_return('orders', '[{},{}]')::int::bigint",
            block.first, block.last
        ))
    };
    // To where the row is already.
    let block = client.reserve("orders", 100).expect("a block");
    client.run("SELECT leaf_tag_alter('orders', advance_to => 101)");
    assert_eq!(give_back(&mut client, block), 0);
    assert_eq!(client.next("orders").expect("an id"), 101);
    client.run("SELECT leaf_tag_alter('orders', advance_to => max_id) FROM leaf.alloc");
    assert_eq!(client.next("orders").expect("an id"), 1_101);

    client.run(
        "SELECT leaf_tag_alter('orders', advance_to => 10000000);
         CREATE TABLE orders (id bigint DEFAULT leaf_segment_next('orders'))",
    );
    let block = client.reserve("orders", 100).expect("a block");
    client.run("INSERT INTO orders VALUES (10000003)");
    let aligned = "SELECT count(*) FROM leaf_tag_align() WHERE moved";
    assert_eq!(client.number(aligned), 0);
    assert_eq!(give_back(&mut client, block), 0);
    assert!(client.next("orders").expect("an id") > 10_000_003);
}

#[test]
fn blocks_of_several_tags_are_returned_at_once_and_none_hinders_another() {
    let (server, mut client) = Server::with_orders(1000);
    client.run("SELECT leaf_tag_create('parcels'), leaf_tag_create('gone')");
    for tag in ["orders", "orders", "parcels", "gone"] {
        client.run(&format!("SELECT leaf_segment_reserve('{tag}', 100)"));
    }
    client.run("SELECT leaf_tag_drop('gone')");
    let returned = client.text(
        "SELECT string_agg(taken::text, ' ') FROM leaf_segment_return(
             '{orders,orders,parcels,gone,missing,NULL,parcels,parcels}',
             '{101,51,2,1,1,1,NULL,9}', '{200,100,100,100,100,1,1,8}') AS taken",
    );
    assert_eq!(returned, "true true true false false false false false");
    let positions = "SELECT string_agg(max_id::text, ' ' ORDER BY biz_tag) FROM leaf.alloc";
    assert_eq!(client.text(positions), "51 2");
    let lengths = "SELECT leaf_segment_return('{orders}', '{1,2}', '{1}')";
    refused(client.batch_execute(lengths), "22023");
    let mut other = server.connect();
    let returned =
        "SELECT count(*) FROM leaf_segment_return('{orders}', '{50}', '{50}') AS t WHERE t";
    assert_eq!(other.number(returned), 0, "another session has reserved it");
}
