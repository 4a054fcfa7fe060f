//! Numbers that a centre grants and that reach no caller are few.

use leaf_tests::{
    Centre, Draw, Ledger, Server, attach, draw_many, refused, slow_grants, wait_until,
};

#[test]
fn numbers_above_the_maximum_of_a_fed_tag_are_not_asked_for_again() {
    let centre = Centre::start();
    centre.create("orders", "");
    let shard = centre.shard();
    attach(&shard, "orders", 10);
    let mut client = shard.connect();
    client.run("SELECT leaf_tag_alter('orders', max_value => 5000)");
    let mut there = centre.0.connect();
    there.run("SELECT leaf_tag_alter('orders', advance_to => 100000)");
    while client.next("orders").is_ok() {}
    let granted = "SELECT max_id FROM leaf.alloc";
    let before = there.number(granted);
    for _ in 0..3 {
        refused(client.next("orders"), "2200H");
    }
    let error = refused(client.reserve("orders", 5), "2200H");
    assert!(error.message().contains("maximum value"), "{error:?}");
    let burnt = there.number(granted) - before;
    assert!(burnt < 100_000, "{burnt}");
}

#[test]
fn one_bad_tag_keeps_no_other_from_being_fed_and_burns_nothing() {
    let centre = Centre::start();
    let shard = centre.shard();
    let mut client = shard.connect();
    let mut there = centre.0.connect();
    const TAGS: usize = 100;
    for number in 0..TAGS {
        centre.create(&format!("t{number}"), "");
    }
    client.run(
        "DO $$ BEGIN FOR i IN 0..99 LOOP
                PERFORM leaf_tag_create('t' || i, step => 10);
                PERFORM leaf_tag_attach('t' || i);
             END LOOP; END $$",
    );
    there.run(
        "SELECT leaf_tag_drop('t7');
         SELECT leaf_tag_revoke('t8', 'shard');
         SELECT leaf_tag_alter('t9', max_value => 4)",
    );
    client.run("SET leaf.wait_timeout = '1s'");
    refused(client.next("t7"), "55000");
    refused(client.next("t8"), "55P03");
    assert_eq!(client.batch("t9", 4).expect("the last ids"), [1, 2, 3, 4]);
    refused(client.next("t9"), "2200H");
    let good: Vec<usize> = (0..TAGS)
        .filter(|number| !(7..=9).contains(number))
        .collect();
    let mut drawn = 0;
    for &number in &good {
        let tag = format!("t{number}");
        for _ in 0..3 {
            drawn += draw_many(&mut client, &tag, 10).len();
        }
    }
    assert_eq!(drawn, good.len() * 30);
    // What was granted there is what was drawn or lies in the buffers here.
    wait_until("nothing is under way", || {
        let granted = there.number(
            "SELECT sum(max_id - 1)::bigint FROM leaf.alloc WHERE biz_tag NOT IN ('t7', 't8', 't9')",
        );
        let here = client.number(
            "SELECT sum(ids_left)::bigint FROM leaf.stat_segment WHERE biz_tag NOT IN ('t7', 't8', 't9')",
        );
        granted == here + drawn as i64
    });
}

#[test]
fn answers_that_are_lost_burn_a_bounded_number_of_ids() {
    let centre = Centre::start();
    centre.create("orders", "");
    let (relay, options) = centre.behind_relay();
    let shard = options.start();
    attach(&shard, "orders", 10);
    let mut client = shard.connect();
    client.run("SELECT leaf_tag_alter('orders', max_step => 640)");
    let mut ledger = Ledger::new();
    ledger.add(client.batch("orders", 10).expect("ids"));
    shard.reload("leaf.upstream_timeout", "100ms");
    client.run("SET leaf.wait_timeout = '300ms'");
    relay.lose_answers(true);
    let mut failed = 0;
    while failed < 20 {
        match client.batch("orders", 10) {
            Ok(ids) => ledger.add(ids),
            Err(_) => failed += 1,
        }
    }
    relay.lose_answers(false);
    shard.reload("leaf.upstream_timeout", "3s");
    client.run("SET leaf.wait_timeout = '30s'");
    ledger.add(client.batch("orders", 10).expect("ids"));
    let failures = client.number("SELECT failures FROM leaf.stat_upstream");
    let granted = centre.0.connect().number("SELECT max_id FROM leaf.alloc");
    // Each request that failed may have burnt a segment; none is repeated by itself.
    assert!(granted <= 640 * (failures + 10), "{granted}, {failures}");
    assert!(ledger.len() >= 20);
}

#[test]
fn numbers_that_cannot_be_granted_for_a_while_are_not_asked_for_again() {
    let centre = Centre::start();
    centre.create("orders", "");
    let shard = centre.shard();
    attach(&shard, "orders", 10);
    let mut client = shard.connect();
    client.run(
        "SELECT leaf_tag_alter('orders', max_step => 10);
         CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''no''; END';
         CREATE TRIGGER fail BEFORE UPDATE ON leaf.alloc FOR EACH ROW EXECUTE FUNCTION fail();
         SET leaf.wait_timeout = '2s'",
    );
    let error = refused(client.next("orders"), "55P03");
    assert!(error.detail().unwrap().contains("no"), "{error:?}");
    client.run("DROP TRIGGER fail ON leaf.alloc");
    client.next("orders").expect("an id");
    let granted = centre
        .0
        .connect()
        .number("SELECT max_id - 1 FROM leaf.alloc");
    assert!(granted <= 20, "{granted}");
}

/// Draws an id of each of many fed tags at once, while grants of the centre are slow. Returns how
/// many numbers the centre has granted, and how many of them the shard has.
fn draw_while_slow(tags: i64, slow: &str) -> (i64, i64) {
    let centre = Centre::start();
    let shard = centre.shard_with(Server::options().set("leaf.prefetch_threshold", "100"));
    // The last value of a name counts.
    shard.reload("leaf.upstream_timeout", "1500ms");
    let mut client = shard.connect();
    for number in 0..tags {
        centre.create(&format!("t{number}"), "");
        attach(&shard, &format!("t{number}"), 10);
    }
    let mut there = centre.0.connect();
    slow_grants(&mut there, 0.25);
    there.run(&format!(
        "DROP TRIGGER slow ON leaf.alloc;
         CREATE TRIGGER slow BEFORE UPDATE ON leaf.alloc {slow} EXECUTE FUNCTION slow()"
    ));
    let draws: Vec<_> = (0..tags)
        .map(|number| {
            let mut client = shard.connect();
            std::thread::spawn(move || {
                client.run("SET leaf.wait_timeout = '60s'");
                client.next(&format!("t{number}")).expect("an id")
            })
        })
        .collect();
    for draw in draws {
        draw.join().expect("no panic");
    }
    let granted = there.number("SELECT sum(max_id - 1)::bigint FROM leaf.alloc");
    let here = client.number("SELECT sum(ids_left)::bigint FROM leaf.stat_segment");
    (granted, here + tags)
}

#[test]
fn slow_grants_of_the_centre_are_all_used() {
    let (granted, here) = draw_while_slow(30, "FOR EACH STATEMENT");
    assert_eq!(granted, here);
}

/// Together, they take longer than any single wait may: the shard asks for fewer at once.
#[test]
fn grants_of_the_centre_that_are_slow_one_by_one_are_used_in_the_end() {
    let (granted, here) = draw_while_slow(12, "FOR EACH ROW");
    assert!(granted >= here, "{granted} {here}");
}
