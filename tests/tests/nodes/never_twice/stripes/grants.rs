//! Whatever moves a tag, it grants numbers of its stripe only.

use super::{Stripe, WIDTH, striped};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Mode, Server, draw_many, refused, wait_until};
use std::io::Write;

/// Stripe 1 of 4.
fn own(start: i64) -> impl Iterator<Item = i64> {
    Stripe::of(4, 1).from(start)
}

#[test]
fn draws_give_all_numbers_of_the_stripe_and_no_other() {
    let (_server, mut client) = striped();
    let ids = draw_many(&mut client, "orders", 1_000);
    assert_eq!(ids, own(1).take(1_000).collect::<Vec<_>>());
    let ids = client.rows("orders", 500).expect("ids");
    assert_eq!(ids, own(1).skip(1_000).take(500).collect::<Vec<_>>());
}

#[test]
fn start_can_be_any_number() {
    let (_server, mut client) = striped();
    for start in [-1_000_000_007, -650, -350, -100, -1, 0, 99, 100, 150, 200] {
        client.run(&format!(
            "SELECT leaf_tag_drop('orders'), leaf_tag_create('orders', start => {start}, step => 30, {})",
            Stripe::of(4, 1).arguments()
        ));
        let ids = draw_many(&mut client, "orders", 250);
        assert_eq!(ids, own(start).take(250).collect::<Vec<_>>(), "{start}");
    }
}

#[test]
fn tag_that_was_moved_into_another_stripe_goes_on_in_its_own() {
    let (_server, mut client) = striped();
    let mut is_next = |statement: &str, expected: i64| {
        client.run(statement);
        assert_eq!(
            client.next("orders").expect("an id"),
            expected,
            "{statement}"
        );
    };
    is_next("SELECT leaf_tag_alter('orders', advance_to => 250)", 500);
    is_next("SELECT leaf_tag_alter('orders', advance_to => 920)", 920);
    is_next("UPDATE leaf.alloc SET max_id = 1250", 1_300);
    is_next("UPDATE leaf.alloc SET max_id = 1769", 1_769);
    is_next("UPDATE leaf.alloc SET max_id = 2050", 2_100);
    let columns = "(biz_tag, max_id, step, stripes, stripe, stripe_width)";
    is_next(
        &format!(
            "DELETE FROM leaf.alloc;
             INSERT INTO leaf.alloc {columns} VALUES ('orders', -1234, 10, 4, 1, 100)"
        ),
        -1_100,
    );
    client.run("DELETE FROM leaf.alloc");
    let copy = client.copy_in(&format!("COPY leaf.alloc {columns} FROM STDIN"));
    let mut copy = copy.expect("a copy");
    copy.write_all(b"orders\t250\t10\t4\t1\t100\n")
        .expect("a row");
    copy.finish().expect("one row");
    assert_eq!(client.next("orders").expect("an id"), 500);
}

/// Tables of nodes that replicate to each other have ids of all of them.
#[test]
fn align_leaves_a_tag_with_a_stripe_where_it_is_and_says_so() {
    let (_server, mut client) = striped();
    client.run(
        "CREATE TABLE t (id bigint DEFAULT leaf_segment_next('orders')); INSERT INTO t VALUES (777), (550)",
    );
    let aligned = "SELECT concat_ws(' ', highest, moved, ignored ~ 'other nodes have numbers') FROM leaf_tag_align('orders')";
    assert_eq!(client.text(aligned), "777 f t");
    client.run("SELECT leaf_tag_alter('orders', advance_to => 778)");
    assert!(client.next("orders").expect("an id") > 777);
}

fn give_back(client: &mut Client, first: i64, last: i64) -> bool {
    client.number(&format!(
        "SELECT leaf_segment_return('orders', '[{first},{last}]')::int::bigint"
    )) == 1
}

#[test]
fn reserved_blocks_lie_within_a_block_of_the_stripe() {
    let (_server, mut client) = striped();
    let mut reserve = |count, expected: i64| {
        let block = client.reserve("orders", count).expect("a block");
        assert_eq!((block.first, block.last), (expected, expected + count - 1));
    };
    reserve(60, 100);
    reserve(40, 160);
    reserve(60, 500);
    reserve(41, 900);
    reserve(WIDTH, 1_300);
    let error = refused(client.reserve("orders", WIDTH + 1), "22023");
    assert!(error.message().contains("at most 100 ids"), "{error:?}");
    client.run("BEGIN; SELECT leaf_tag_drop('orders')");
    Stripe::of(4, 1).create(&mut client, "");
    refused(client.reserve("orders", WIDTH + 1), "22023");
    client.run("ROLLBACK");
    assert_eq!(client.next("orders").expect("an id"), 1_700);
}

#[test]
fn ids_are_taken_back_to_where_they_came_from() {
    let (_server, mut client) = striped();
    // The tag's position is then the first number of another stripe.
    let block = client.reserve("orders", WIDTH).expect("a block");
    assert!(give_back(&mut client, 150, block.last));
    assert_eq!(client.reserve("orders", 50).expect("a block").first, 150);
    let next = client.reserve("orders", 70).expect("a block");
    assert_eq!(next.first, 500);
    assert!(give_back(&mut client, next.first, next.last));
    assert_eq!(client.next("orders").expect("an id"), 500);
}

#[test]
fn tag_of_the_same_transaction_has_its_stripe() {
    let server = Server::start();
    let mut client = server.connect();
    let mut ids = Vec::new();
    client.run("BEGIN");
    Stripe::of(4, 1).create(&mut client, "");
    ids.extend(draw_many(&mut client, "orders", 250));
    client.run("SAVEPOINT s");
    ids.extend(draw_many(&mut client, "orders", 120));
    client.run("ROLLBACK TO s");
    ids.extend(draw_many(&mut client, "orders", 130));
    let block = client.reserve("orders", 60).expect("a block");
    ids.extend(block.ids());
    client.run("COMMIT");
    ids.extend(draw_many(&mut client, "orders", 500));
    assert!(ids.is_sorted_by(|a, b| a < b), "{ids:?}");
    let stripe = Stripe::of(4, 1);
    assert!(ids.iter().all(|&id| stripe.has(id)), "{ids:?}");
}

#[test]
fn clean_restart_goes_on_in_the_middle_of_a_block() {
    let (mut server, mut client) = striped();
    let before = draw_many(&mut client, "orders", 95);
    drop(client);
    server.restart(Mode::Fast);
    let after = draw_many(&mut server.connect(), "orders", 95);
    let all: Vec<i64> = before.into_iter().chain(after).collect();
    assert_eq!(all, own(1).take(190).collect::<Vec<_>>());
}

#[test]
fn tag_ends_with_max_value_and_with_bigint() {
    let server = Server::start();
    let mut client = server.connect();
    Stripe::of(4, 1).create(&mut client, ", max_value => 520");
    let ids = draw_many(&mut client, "orders", 121);
    assert_eq!(ids.last(), Some(&520));
    refused(client.next("orders"), "2200H");
    refused(client.reserve("orders", 1), "2200H");
    client.run("SELECT leaf_tag_alter('orders', max_value => 899)");
    assert_eq!(draw_many(&mut client, "orders", 79).last(), Some(&599));
    refused(client.next("orders"), "2200H");

    // The last numbers are those of stripe 2 of 4, the blocks of 1 end before.
    for (stripe, first, left) in [(2, i64::MAX - 7, 7), (1, i64::MAX - 107, 100)] {
        client.run("SELECT leaf_tag_drop('orders')");
        let start = format!(", start => {}", i64::MAX - 150);
        Stripe::of(4, stripe).create(&mut client, &start);
        assert_eq!(client.stat("orders", "ids_left"), left);
        let ids = draw_many(&mut client, "orders", left as usize);
        assert_eq!(ids, (first..first + left).collect::<Vec<_>>());
        refused(client.next("orders"), "2200H");
        refused(client.reserve("orders", 1), "2200H");
        assert_eq!(client.stat("orders", "ids_left"), 0);
        // In the transaction that creates it, and at the end of the last block.
        client.run("SELECT leaf_tag_drop('orders')");
        client.run("BEGIN");
        Stripe::of(4, stripe).create(&mut client, &start);
        assert_eq!(
            draw_many(&mut client, "orders", left as usize).len() as i64,
            left
        );
        refused(client.next("orders"), "2200H");
        client.run("ROLLBACK");
        Stripe::of(4, stripe).create(&mut client, &start);
    }
}

/// The last segments on the primary are cut by the ends of blocks.
#[test]
fn promoted_standby_skips_numbers_of_its_own() {
    let primary = Server::options().set("leaf.max_step", "30").start();
    Stripe::of(4, 1).create(&mut primary.connect(), "");
    let before = draw_many(&mut primary.connect(), "orders", 75);
    let granted = "SELECT max_id FROM leaf.alloc";
    wait_until("the last twenty of the block are granted", || {
        primary.connect().number(granted) == 200
    });
    let mut standby = Server::options().start_standby_of(&primary);
    standby.catch_up_with(&primary);
    standby.stop(Mode::Fast);
    // Ten segments of 30, of which the standby misses all.
    let missed = draw_many(&mut primary.connect(), "orders", 250);
    drop(primary);
    standby.start_again();
    let next = standby.promote().next("orders").expect("an id");
    assert!(!before.contains(&next) && !missed.contains(&next), "{next}");
    assert_eq!(own(200).position(|id| id == next), Some(300), "{next}");
}

#[test]
fn statistics_count_numbers_of_the_stripe() {
    let server = Server::start();
    let mut client = server.connect();
    Stripe::of(4, 1).create(&mut client, ", max_value => 3999");
    // Ten blocks, from 100 to 3700.
    let stat = |client: &mut Client, column| client.stat("orders", column);
    assert_eq!(stat(&mut client, "ids_left"), 1_000);
    assert_eq!(stat(&mut client, "used_percent"), 0);
    assert_eq!(stat(&mut client, "position"), 100);
    draw_many(&mut client, "orders", 250);
    // A grant under way shows in the row before it shows in the buffer, or the other way round.
    wait_until("all shows what was drawn", || {
        [("ids_left", 750), ("used_percent", 25), ("position", 950)]
            .iter()
            .all(|&(column, value)| stat(&mut client, column) == value)
    });
    // Both are measured at the same moment. The speed is known again at the first draw after a grant.
    let agrees = "SELECT abs(extract(epoch FROM time_left) * ids_per_second - ids_left) < ids_left * 0.01 + 1
                    FROM leaf.stat_segment";
    let mut agreed = None;
    wait_until("the speed is known", || {
        draw_many(&mut client, "orders", 1);
        agreed = client
            .query_one(agrees, &[])
            .expect("statistics")
            .get::<_, Option<bool>>(0);
        agreed.is_some()
    });
    assert_eq!(agreed, Some(true));
}

#[test]
fn column_of_a_stripe_is_not_given_to_a_sequence() {
    let (_server, mut client) = striped();
    client.run(
        "CREATE TABLE t (id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'));
         INSERT INTO t SELECT FROM generate_series(1, 250)",
    );
    let ids = client.numbers("SELECT id FROM t ORDER BY id");
    assert_eq!(ids, own(1).take(250).collect::<Vec<_>>());
    // A sequence would grant the numbers of the other nodes.
    let released = client.batch_execute("SELECT leaf_column_release('t', 'id')");
    refused(released, "55000");
    client.run("INSERT INTO t DEFAULT VALUES");
}
