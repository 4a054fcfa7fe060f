//! What a review has found.

use std::time::{Duration, Instant};

use leaf_tests::{Centre, Draw, Mode, Paused, Server, attach, refused, wait_until};

#[test]
fn feeding_of_very_many_tags_can_be_cancelled_and_ends_in_time() {
    let centre = Centre::start();
    centre.create("orders", "");
    let mut there = centre.0.connect();
    there.run("SET leaf.wait_timeout = '500ms'; SET statement_timeout = '2s'");
    let began = Instant::now();
    // It may fail or not.
    let _ = there.batch_execute(
        "SELECT count(*) FROM leaf_segment_feed(
            array_fill('orders'::text, '{20000}'), array_fill(1::bigint, '{20000}'))",
    );
    let took = began.elapsed();
    assert!(took < Duration::from_secs(4), "{took:?}");
}

#[test]
fn name_that_the_centre_cannot_have_concerns_its_tag_alone() {
    let centre = Centre::start();
    let mut there = centre.0.connect();
    there.run(
        "CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'",
    );
    let mut there = centre.0.connect_as("postgres", "latin");
    there.run("CREATE EXTENSION leaf; SELECT leaf_tag_create('orders'), leaf_tag_grant('orders', 'shard')");
    let upstream = centre.upstream().replace("dbname=postgres", "dbname=latin");
    let shard = Server::options().set("leaf.upstream", &upstream).start();
    attach(&shard, "orders", 10);
    let mut client = shard.connect();
    client.run("SELECT leaf_tag_create('中')");
    client.next("orders").expect("an id");
    // The link is held up, so that the next requests go together.
    let link = there
        .number("SELECT pid::bigint FROM pg_stat_activity WHERE application_name = 'leaf link'");
    let paused = Paused::all(vec![link as i32]);
    let mut sessions = [shard.connect(), shard.connect(), shard.connect()];
    std::thread::scope(|scope| {
        let [first, second, third] = &mut sessions;
        scope.spawn(|| first.reserve("orders", 10));
        let mut observer = shard.connect();
        let mut waiting = |count| {
            wait_until("they wait", || {
                observer.number("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Extension' AND backend_type = 'client backend'") == count
            });
        };
        waiting(1);
        scope.spawn(|| {
            refused(
                second.batch_execute("SELECT leaf_tag_attach('中')"),
                "55P03",
            )
        });
        scope.spawn(|| third.reserve("orders", 10));
        waiting(3);
        std::thread::sleep(Duration::from_millis(300));
        drop(paused);
    });
    let log = shard.log();
    assert!(
        !log.contains("of the centre's tag \"orders\": ERROR"),
        "{log}"
    );
}

#[test]
fn row_that_is_locked_at_the_centre_is_logged_once_with_its_cause() {
    let centre = Centre::start();
    centre.create("orders", "");
    let shard = centre.shard();
    attach(&shard, "orders", 10);
    let mut client = shard.connect();
    client.next("orders").expect("an id");
    let mut writer = centre.0.connect();
    writer.run("BEGIN; SELECT FROM leaf.alloc WHERE biz_tag = 'orders' FOR UPDATE");
    client.run("SET leaf.wait_timeout = '3s'");
    refused(client.reserve("orders", 10), "55P03");
    let log = shard.log();
    let lines: Vec<_> = log
        .lines()
        .filter(|line| line.contains("could not get ids"))
        .collect();
    assert!(
        lines.iter().any(|line| line.contains("locked")),
        "{lines:#?}"
    );
    assert_eq!(lines.len(), 1, "{lines:#?}");
}

#[test]
fn tags_asked_for_after_a_start_leave_room_for_other_requests() {
    let centre = Centre::start();
    centre.create("late", "");
    let mut there = centre.0.connect();
    there.run(
        "SELECT leaf_tag_create('t' || g), leaf_tag_grant('t' || g, 'shard') FROM generate_series(1, 600) AS g",
    );
    let mut shard = centre.shard();
    let mut client = shard.connect();
    for call in ["create('t' || g, step => 10)", "attach('t' || g)"] {
        client.run(&format!(
            "SELECT leaf_tag_{call} FROM generate_series(1, 600) AS g"
        ));
    }
    client.run("SELECT leaf_segment_next('t' || g) FROM generate_series(1, 600) AS g");
    client.run("SELECT leaf_tag_create('late'), leaf_tag_create('local')");
    drop(client);
    there.run(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS
             $$BEGIN PERFORM pg_sleep(0.2); RETURN NULL; END$$;
         CREATE TRIGGER slow BEFORE UPDATE ON leaf.alloc FOR EACH STATEMENT EXECUTE FUNCTION slow();
         ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER slow",
    );
    shard.restart(Mode::Fast);
    let mut client = shard.connect();
    client.next("local").expect("an id");
    wait_until("the centre is asked", || {
        there.number("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leaf link' AND state = 'active'") > 0
    });
    // The centre is reached, and has the tag.
    client.run("SELECT leaf_tag_attach('late')");
}
