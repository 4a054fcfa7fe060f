//! Fed tags: their ids come from a tag of a centre, and are like local ones for those who
//! draw.

use std::thread;

use leaf_tests::{Centre, Draw, Options, Server, attach, draw_many, refused, wait_until};

#[test]
fn attaching_is_rolled_back_with_its_transaction() {
    let centre = Centre::start();
    centre.create("orders", ", start => 1000000");
    let shard = centre.shard();
    let mut client = shard.connect();
    client.run("SELECT leaf_tag_create('orders', step => 10)");
    client.next("orders").expect("an id");
    client.run("BEGIN; SELECT leaf_tag_attach('orders'); ROLLBACK");
    assert!(client.next("orders").expect("an id") < 1000);
    // In the transaction, there are no ids at all: neither local ones nor fed ones.
    client.run("BEGIN; SELECT leaf_tag_attach('orders')");
    refused(client.next("orders"), "55000");
    client.run("ROLLBACK");
    client.run("BEGIN; SELECT leaf_tag_create('new'); SELECT leaf_tag_attach('new', 'orders')");
    refused(client.reserve("new", 5), "55000");
    client.run("ROLLBACK");
    assert_eq!(centre.0.connect().next("orders").expect("an id"), 1_000_000);
}

#[test]
fn tag_can_be_created_fed_and_that_be_repeated() {
    let centre = Centre::start();
    centre.create("orders", ", start => 1000000");
    let shard = centre.shard();
    let mut client = shard.connect();
    let create =
        "SELECT leaf_tag_create('orders', upstream_tag => 'orders', if_not_exists => true)";
    client.run(create);
    assert_eq!(client.next("orders").expect("an id"), 1_000_000);
    client.run(create);
    client.run("SELECT leaf_tag_create('own')");
    for (statement, code) in [
        (
            "SELECT leaf_tag_create('orders', upstream_tag => 'orders')",
            "42710",
        ),
        (
            "SELECT leaf_tag_create('own', upstream_tag => 'orders', if_not_exists => true)",
            "55000",
        ),
        (
            "SELECT leaf_tag_create('orders', upstream_tag => 'items', if_not_exists => true)",
            "55000",
        ),
        (
            "SELECT leaf_tag_create('new', upstream_tag => 'items')",
            "55000",
        ),
        (
            "SELECT leaf_tag_create('new', upstream_tag => 'orders', stripes => 2, stripe => 0)",
            "55000",
        ),
        (
            "SELECT leaf_tag_create('new', upstream_tag => 'orders', start => 9000000)",
            "22023",
        ),
    ] {
        client.fails(statement, code);
    }
    client.run("CREATE ROLE app; GRANT EXECUTE ON FUNCTION leaf_tag_create TO app; SET ROLE app");
    client.fails(
        "SELECT leaf_tag_create('new', upstream_tag => 'orders')",
        "42501",
    );
    client.run("RESET ROLE");
    let tags = client.number("SELECT count(*) FROM leaf.alloc");
    assert_eq!(tags, 2, "what fails leaves nothing");
}

#[test]
fn tag_that_is_known_to_be_fed_is_asked_for_before_its_row_is_locked() {
    let centre = Centre::start();
    centre.create("orders", "");
    let shard = centre.shard();
    attach(&shard, "orders", 100);
    let mut client = shard.connect();
    let mut ids = draw_many(&mut client, "orders", 51);
    let next_ready = "SELECT count(*) FROM leaf.stat_segment WHERE next_ready";
    wait_until("both buffers are full", || client.number(next_ready) == 1);
    let feeds = "SELECT feeds FROM leaf.stat_upstream";
    let before = client.number(feeds);
    let mut writer = shard.connect();
    writer.run("BEGIN; SELECT FROM leaf.alloc WHERE biz_tag = 'orders' FOR UPDATE");
    let left = client.number("SELECT current_left + next_left FROM leaf.stat_segment");
    ids.extend(draw_many(&mut client, "orders", left as usize - 1));
    wait_until("the centre is asked", || client.number(feeds) > before);
    // The numbers are kept, and not asked for again, until the row can be written.
    ids.extend(draw_many(&mut client, "orders", 1));
    client.run("SET leaf.wait_timeout = '1s'");
    let error = refused(client.next("orders"), "55P03");
    assert!(error.detail().unwrap().contains("locked"), "{error:?}");
    let error = refused(client.reserve("orders", 10), "55P03");
    assert!(error.detail().unwrap().contains("locked"), "{error:?}");
    writer.run("COMMIT");
    ids.extend(draw_many(&mut client, "orders", 100));
    let all: Vec<i64> = (1..=51 + left + 100).collect();
    assert_eq!(ids, all);
}

#[test]
fn another_step_of_a_fed_tag_acts_on_the_next_load() {
    let centre = Centre::start();
    centre.create("orders", "");
    let shard = centre.shard();
    attach(&shard, "orders", 100);
    let mut client = shard.connect();
    client.next("orders").expect("an id");
    let fed = "SELECT ids_fed FROM leaf.stat_upstream";
    assert_eq!(client.number(fed), 100);
    client.run("SELECT leaf_tag_alter('orders', step => 100000)");
    draw_many(&mut client, "orders", 50);
    wait_until("the next load", || client.number(fed) > 100);
    assert_eq!(client.number(fed), 100_100);
}

/// A session that begins to wait while the answer is on its way asks for no more.
#[test]
fn sessions_that_wait_together_have_the_centre_asked_once() {
    let centre = Centre::start();
    let shard = centre.shard();
    let tags: Vec<String> = (0..40).map(|number| format!("tag{number}")).collect();
    for tag in &tags {
        centre.create(tag, "");
        attach(&shard, tag, 100);
    }
    let mut clients: Vec<_> = (0..10).map(|_| shard.connect()).collect();
    for tag in &tags {
        thread::scope(|scope| {
            for client in &mut clients {
                scope.spawn(|| client.next(tag).expect("an id"));
            }
        });
    }
    let fed = clients[0].number("SELECT ids_fed FROM leaf.stat_upstream");
    assert_eq!(fed, 40 * 100);
}

#[test]
fn blocks_of_a_fed_tag_are_consecutive_and_cannot_be_returned() {
    let centre = Centre::start();
    centre.create("orders", ", max_value => 10000");
    let shard = centre.shard();
    attach(&shard, "orders", 10);
    let mut client = shard.connect();
    // Too long for what is left: nothing is burnt.
    refused(client.reserve("orders", 2), "2200H");
    centre
        .0
        .connect()
        .run("SELECT leaf_tag_alter('orders', max_value => 10000000)");
    let block = client.reserve("orders", 300).expect("a block");
    assert_eq!((block.first, block.last), (1, 300));
    let back = format!(
        "SELECT leaf_segment_return('orders', '[{},{}]')::int::bigint",
        block.first, block.last
    );
    assert_eq!(client.number(&back), 0);
    centre
        .0
        .connect()
        .run("SELECT leaf_tag_alter('orders', max_value => 310)");
    let ids = client.batch("orders", 10).expect("the rest");
    assert_eq!(ids, (301..=310).collect::<Vec<_>>());
    refused(client.next("orders"), "2200H");
}

#[test]
fn tags_that_are_not_utf8_are_found_at_the_centre() {
    let centre = Centre::start();
    centre.create("größe", "");
    let shard = centre.shard();
    shard
        .connect()
        .run("CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0");
    let mut client = shard.connect_as("postgres", "latin");
    client.run(
        "CREATE EXTENSION leaf; SELECT leaf_tag_create('größe'); SELECT leaf_tag_attach('größe')",
    );
    client.next("größe").expect("an id");
}

#[test]
fn connection_ends_when_it_is_idle_and_comes_back() {
    let centre = Centre::start();
    centre.create("orders", "");
    let shard = centre.shard_with(Options::set(
        Server::options(),
        "leaf.loader_idle_timeout",
        "200ms",
    ));
    attach(&shard, "orders", 10);
    let mut client = shard.connect();
    client.next("orders").expect("an id");
    let mut there = centre.0.connect();
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'shard'";
    assert_eq!(there.number(sessions), 1);
    wait_until("its session has ended", || there.number(sessions) == 0);
    draw_many(&mut client, "orders", 100);
}
