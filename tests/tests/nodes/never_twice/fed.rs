//! Fed tags: their ids come from a tag of a centre, and from nowhere else.

use leaf_tests::postgres::Client;
use leaf_tests::{Centre, Draw, Ledger, Mode, Server, attach, draw_many, refused};

#[test]
fn shards_of_a_centre_repeat_nothing_among_them() {
    let centre = Centre::start();
    centre.create("orders", ", step => 100");
    let shards = [centre.shard(), centre.shard()];
    let mut ledger = Ledger::new();
    for shard in &shards {
        attach(shard, "orders", 100);
    }
    let mut clients = shards.each_ref().map(|shard| shard.connect());
    clients[1].run("SELECT leaf_tag_alter('orders', cache => 7)");
    for _ in 0..5 {
        for client in &mut clients {
            let ids = draw_many(client, "orders", 700);
            assert!(ids.is_sorted(), "{ids:?}");
            ledger.add(ids);
            ledger.add(client.reserve("orders", 50).expect("a block").ids());
        }
    }
    ledger.add(centre.0.connect().batch("orders", 500).expect("ids"));
    let fed = clients[0].number("SELECT ids_fed FROM leaf.stat_upstream");
    assert!(fed >= 3750, "{fed}");
}

#[test]
fn local_ids_in_memory_are_not_drawn_after_the_tag_was_attached() {
    let centre = Centre::start();
    centre.create("orders", ", start => 1000000");
    let shard = centre.shard();
    let mut client = shard.connect();
    client.run("SELECT leaf_tag_create('orders', step => 1000)");
    client.run("PREPARE draw AS SELECT leaf_segment_next('orders')");
    assert_eq!(client.number("EXECUTE draw"), 1);
    let mut other = shard.connect();
    other.next("orders").expect("an id");
    client.run("SELECT leaf_tag_attach('orders')");
    for client in [&mut client, &mut other] {
        assert!(client.next("orders").expect("an id") >= 1_000_000);
    }
    assert!(client.number("EXECUTE draw") >= 1_000_000);
}

#[test]
fn tag_is_attached_only_to_a_tag_of_the_centre_that_is_ahead_of_it() {
    let centre = Centre::start();
    centre.create("orders", "");
    let shard = centre.shard();
    let mut client = shard.connect();
    client.run("SELECT leaf_tag_create('orders', start => 5000)");
    let attach = "SELECT leaf_tag_attach('orders')";
    let error = refused(client.batch_execute(attach), "22023");
    assert!(error.hint().unwrap().contains("5000"), "{error:?}");
    centre
        .0
        .connect()
        .run("SELECT leaf_tag_alter('orders', advance_to => 5000)");
    client.run(attach);
    assert_eq!(client.next("orders").expect("an id"), 5000);
    let missing = "SELECT leaf_tag_attach('orders', 'missing')";
    let error = refused(client.batch_execute(missing), "55000");
    let cause = "The cause: the centre has no such tag.";
    assert_eq!(error.detail(), Some(cause));
    refused(
        client.batch_execute("SELECT leaf_tag_attach('missing')"),
        "42704",
    );
    refused(client.batch_execute("SELECT leaf_tag_attach('')"), "22023");
    client.run("CREATE ROLE joe LOGIN");
    let mut joe = shard.connect_as("joe", "postgres");
    joe.fails(attach, "42501");
    client.run("GRANT EXECUTE ON FUNCTION leaf_tag_attach TO joe");
    joe.fails(attach, "42501");
}

#[test]
fn tag_that_was_attached_to_another_one_asks_for_that() {
    let centre = Centre::start();
    centre.create("orders", "");
    centre.create("orders2", ", start => 1000000");
    centre.create("orders3", ", start => 2000000");
    let shard = centre.shard();
    attach(&shard, "orders", 100);
    let mut client = shard.connect();
    client.next("orders").expect("an id");
    client.reserve("orders", 10).expect("a block");
    // The numbers of the former one are of no use any more, whether there are some or not.
    client.run("SELECT leaf_tag_attach('orders', 'orders2')");
    let block = client.reserve("orders", 10).expect("a block");
    assert_eq!(block.ids().next(), Some(1_000_000));
    assert!(client.next("orders").expect("an id") > 1_000_000);
    centre.0.connect().run("SELECT leaf_tag_drop('orders2')");
    client.run("SET leaf.wait_timeout = '3s'");
    let refusal = loop {
        match client.batch("orders", 50) {
            Ok(_) => {}
            refusal => break refused(refusal, "55000"),
        }
    };
    assert!(refusal.message().contains("does not have"), "{refusal:?}");
    client.run("SELECT leaf_tag_attach('orders', 'orders3')");
    assert_eq!(client.next("orders").expect("an id"), 2_000_000);
}

#[test]
fn where_the_ids_of_a_tag_come_from_cannot_be_changed_by_hand() {
    let centre = Centre::start();
    centre.create("orders", "");
    let shard = centre.shard();
    attach(&shard, "orders", 10);
    let mut client = shard.connect();
    client.run("SELECT leaf_tag_create('local')");
    for (change, code) in [
        ("upstream_tag = 'other'", "55000"),
        ("upstream_incarnation = gen_random_uuid()", "55000"),
        ("upstream_tag = NULL, upstream_incarnation = NULL", "55000"),
        ("max_id = max_id + 1", "55000"),
        ("max_id = max_id - 1", "55000"),
    ] {
        client.next("orders").expect("an id");
        client.fails(
            &format!("UPDATE leaf.alloc SET {change} WHERE biz_tag = 'orders'"),
            code,
        );
    }
    client.fails(
        "UPDATE leaf.alloc SET upstream_tag = 'orders', upstream_incarnation = gen_random_uuid() WHERE biz_tag = 'local'",
        "55000",
    );
    client.fails(
        "SELECT leaf_tag_alter('orders', advance_to => 1000000)",
        "55000",
    );
    client.run("SELECT leaf_tag_alter('orders', step => 20, description => 'fed')");
    // Alignment moves no fed tag, whatever a column has.
    client.run(
        "CREATE TABLE t (id bigint DEFAULT leaf_segment_next('orders')); INSERT INTO t VALUES (1000000)",
    );
    let aligned = "SELECT count(*) FROM leaf_tag_align() WHERE biz_tag = 'orders' AND NOT moved AND ignored ~ 'centre'";
    assert_eq!(client.number(aligned), 1);
    assert!(client.next("orders").expect("an id") < 1_000_000);
}

#[test]
fn centre_feeds_no_fed_tag() {
    let top = Centre::start();
    top.create("orders", "");
    let upstream = top.upstream();
    let middle = Centre::of(Server::options().set("leaf.upstream", &upstream));
    middle.create("orders", "");
    middle.0.connect().run("SELECT leaf_tag_attach('orders')");
    let shard = middle.shard();
    let mut client = shard.connect();
    client.run("SELECT leaf_tag_create('orders')");
    refused(
        client.batch_execute("SET leaf.wait_timeout = '300ms'; SELECT leaf_tag_attach('orders')"),
        "55P03",
    );
    let fed = middle.0.connect().feed("orders", 1);
    assert_eq!(fed.expect_err("none"), "55000");
    // No loop either: a server that is its own centre.
    middle.0.reload("leaf.upstream", &middle.upstream());
    let mut own = middle.0.connect();
    own.run(
        "SELECT leaf_tag_create('a'), leaf_tag_grant('a', 'shard');
         SELECT leaf_tag_create('b'), leaf_tag_grant('b', 'shard')",
    );
    own.run("SELECT leaf_tag_attach('a', 'b'); SET leaf.wait_timeout = '300ms'");
    refused(
        own.batch_execute("SELECT leaf_tag_attach('b', 'a')"),
        "55P03",
    );
    own.run("RESET leaf.wait_timeout");
    own.next("a").expect("an id of b");
}

#[test]
fn feeding_needs_a_choice_of_what_a_failover_may_lose() {
    let mut centre = Centre::start();
    centre.create("orders", "");
    let shard = centre.shard();
    attach(&shard, "orders", 10);
    let refused_because = |why: &str, there: &mut Client| {
        let feed = "SELECT * FROM leaf_segment_feed('{orders}', '{10}')";
        let error = refused(there.batch_execute(feed), "55000");
        assert!(error.message().contains(why), "{error:?}");
    };
    centre.0.reload("leaf.allow_unreplicated_centre", "off");
    refused_because("no synchronous standby", &mut centre.0.connect());
    let mut client = shard.connect();
    client.run("SET leaf.wait_timeout = '300ms'");
    let error = refused(client.next("orders"), "55P03");
    assert!(error.detail().unwrap().contains("refuses"), "{error:?}");
    let cause = "SELECT count(*) FROM leaf.stat_upstream WHERE last_error ~ 'synchronous standby'";
    assert_eq!(client.number(cause), 1);
    let standby = Server::options().start_standby_of(&centre.0);
    standby.catch_up_with(&centre.0);
    centre.0.reload("synchronous_standby_names", "*");
    refused_because("whether a failover loses", &mut centre.0.connect());
    centre.0.configure("leaf.lossless_failover = on\n");
    centre.0.restart(Mode::Fast);
    client.run("RESET leaf.wait_timeout");
    client.next("orders").expect("an id");
}

#[test]
fn tag_is_not_fed_by_itself() {
    let centre = Centre::start();
    centre.create("orders", "");
    centre.0.reload("leaf.upstream", &centre.upstream());
    let mut client = centre.0.connect();
    refused(
        client.batch_execute("SELECT leaf_tag_attach('orders')"),
        "22023",
    );
    assert_eq!(client.next("orders").expect("an id"), 1);
}

#[test]
fn tag_that_was_dropped_and_created_again_at_the_centre_feeds_nobody() {
    let centre = Centre::start();
    centre.create("orders", "");
    let shards = [centre.shard(), centre.shard()];
    for shard in &shards {
        attach(shard, "orders", 10);
        shard.connect().next("orders").expect("an id");
    }
    let mut there = centre.0.connect();
    there.run("SELECT leaf_tag_drop('orders')");
    for shard in &shards {
        let mut client = shard.connect();
        let error = (0..20).find_map(|_| client.batch("orders", 10).err());
        refused::<()>(Err(error.expect("an error")), "55000");
    }
    centre.create("orders", ", start => 100000");
    for shard in &shards {
        let mut client = shard.connect();
        for _ in 0..3 {
            refused(client.next("orders"), "55000");
            refused(client.reserve("orders", 2), "55000");
        }
    }
    // Attached anew, they are fed again.
    let mut client = shards[0].connect();
    client.run("SELECT leaf_tag_attach('orders')");
    client.next("orders").expect("an id");
}
