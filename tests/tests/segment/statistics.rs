//! What monitoring sees of tags: how full they are, and how fast they are drawn from.

use leaf_tests::page::Part;
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Mode, Server, draw_many, refused, wait_until};
use std::thread;

/// A column of the tag `orders` as a number.
fn float(client: &mut Client, column: &str) -> Option<f64> {
    let query = format!("SELECT {column}::float8 FROM leaf.stat_segment WHERE biz_tag = 'orders'");
    client.query_one(&query, &[]).expect("a row").get(0)
}

#[test]
fn ids_left_and_drawn_add_up() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders', step => 100, max_value => 1000000000)");
    let check = |client: &mut Client, drawn: i64| {
        assert_eq!(client.stat("orders", "ids_drawn"), drawn);
        assert_eq!(client.stat("orders", "ids_left"), 1_000_000_000 - drawn);
        assert_eq!(client.stat("orders", "max_value"), 1_000_000_000);
        assert_eq!(
            float(client, "used_percent"),
            Some(drawn as f64 / 10_000_000.0)
        );
    };
    check(&mut client, 0);
    assert_eq!(float(&mut client, "extract(epoch FROM time_left)"), None);
    client.next("orders").expect("an id");
    check(&mut client, 1);
    draw_many(&mut client, "orders", 2_499);
    check(&mut client, 2_500);
    let left = float(&mut client, "extract(epoch FROM time_left)").expect("a time");
    let rate = float(&mut client, "ids_per_second").expect("a rate");
    assert!(left > 0.0 && rate > 0.0, "{left} {rate}");
    draw_many(&mut client, "orders", 7_500);
    check(&mut client, 10_000);
}

#[test]
fn rate_falls_while_nobody_draws() {
    let (_server, mut client) = Server::with_orders(100);
    draw_many(&mut client, "orders", 100_000);
    let busy = float(&mut client, "ids_per_second").expect("a rate");
    wait_until("the rate falls", || {
        float(&mut client, "ids_per_second").expect("a rate") < busy / 2.0
    });
}

#[test]
fn ids_that_are_dropped_or_of_another_tag_do_not_count_as_drawn() {
    let (_server, mut client) = Server::with_orders(100);
    draw_many(&mut client, "orders", 250);
    client.run("SELECT leaf_tag_alter('orders', advance_to => 1000000)");
    draw_many(&mut client, "orders", 250);
    assert_eq!(client.stat("orders", "ids_drawn"), 500);
    client.run("SELECT leaf_tag_drop('orders'), leaf_tag_create('orders')");
    client.next("orders").expect("an id");
    assert_eq!(client.stat("orders", "ids_drawn"), 1);
}

#[test]
fn ids_are_counted_exactly_while_sessions_draw() {
    let (server, mut client) = Server::with_orders(100);
    thread::scope(|scope| {
        for _ in 0..4 {
            let mut session = server.connect();
            scope.spawn(move || {
                draw_many(&mut session, "orders", 5_000);
                session.rows("orders", 5_000).expect("ids");
            });
        }
        // It never falls.
        let mut last = 0;
        for _ in 0..200 {
            let drawn = client.stat("orders", "ids_drawn");
            assert!(drawn >= last, "{drawn} after {last}");
            last = drawn;
        }
    });
    assert_eq!(client.stat("orders", "ids_drawn"), 40_000);
}

#[test]
fn exhausted_tag_says_so() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders', max_value => 3)");
    client.batch("orders", 3).expect("ids");
    refused(client.next("orders"), "2200H");
    let error = "SELECT last_error FROM leaf.stat_segment";
    assert_eq!(client.text(error), "the tag has reached its max_value");
    assert_eq!(client.stat("orders", "ids_left"), 0);
    assert_eq!(float(&mut client, "used_percent"), Some(100.0));
    // Also after a restart, when it is not in memory.
    drop(client);
    let mut server = server;
    server.restart(Mode::Fast);
    let mut client = server.connect();
    assert_eq!(client.stat("orders", "ids_left"), 0);
    assert_eq!(float(&mut client, "used_percent"), Some(100.0));
}

#[test]
fn tags_of_any_range_are_shown() {
    let server = Server::start();
    let mut client = server.connect();
    client.run(
        "SELECT leaf_tag_create('negative', start => -100, max_value => -1),
                leaf_tag_create('all', start => -9223372036854775808)",
    );
    assert_eq!(client.stat("negative", "ids_left"), 100);
    assert_eq!(client.stat("all", "ids_left"), i64::MAX);
    let shown = "SELECT count(*) FROM leaf.stat_segment WHERE used_percent = 0";
    assert_eq!(client.number(shown), 1);
}

#[test]
fn time_waited_is_added_up() {
    let (server, mut client) = Server::with_orders(10);
    client.run("BEGIN; SELECT FROM leaf.alloc FOR UPDATE");
    let mut other = server.connect();
    other.run("SET leaf.wait_timeout = '200ms'");
    refused(other.next("orders"), "55P03");
    client.run("COMMIT");
    assert!(float(&mut client, "total_wait_ms").expect("a time") >= 150.0);
    assert_eq!(client.stat("orders", "timeouts"), 1);
    let before = float(&mut client, "total_wait_ms");
    client.batch("orders", 3).expect("ids");
    assert!(float(&mut client, "total_wait_ms") >= before);
}

#[test]
fn statistics_are_reset_by_those_who_may() {
    let (server, mut admin) = Server::with_orders(100);
    admin.run("CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher");
    admin.run("SELECT leaf_tag_alter('orders', max_step => 1000)");
    draw_many(&mut admin, "orders", 500);
    admin.run("SELECT leaf_snowflake_next(); SELECT leaf_tag_create('items')");
    draw_many(&mut admin, "items", 5);
    admin.run("BEGIN; SELECT FROM leaf.alloc FOR UPDATE");
    let mut other = server.connect();
    other.run("SET leaf.wait_timeout = '200ms'");
    refused(other.batch("orders", 100_000), "55P03");
    admin.run("COMMIT");
    assert_eq!(admin.stat("orders", "timeouts"), 1);
    // What it has asked for comes all the same, and counts.
    wait_until("it has come", || admin.stat("orders", "current_left") > 0);
    let mut watcher = server.connect_as("watcher", "postgres");
    watcher.fails("SELECT leaf_stat_reset()", "42501");

    admin.run("SELECT leaf_stat_reset('orders')");
    let parts = Part::of("docs/reference/views.md", 2);
    let part = parts.iter().find(|part| part.title == "leaf.stat_segment");
    let rows = part.expect("a chapter").rows();
    let row = rows.iter().find(|row| row[0] == "`stats_reset`");
    let (columns, _) = row.expect("a row")[2].split_once(':').expect("columns");
    let columns: Vec<_> = columns.split('`').skip(1).step_by(2).collect();
    assert!(columns.len() > 5, "{columns:?}");
    for column in columns {
        let is_reset = format!("coalesce({column}::text, '0') = '0'");
        assert_eq!(
            admin.stat("orders", &format!("({is_reset})::int::bigint")),
            1,
            "{column}"
        );
    }
    assert_eq!(admin.stat("items", "ids_drawn"), 5);
    let recent = "SELECT count(*) FROM leaf.stat_segment
                   WHERE biz_tag = 'orders' AND stats_reset > now() - interval '1 min'";
    assert_eq!(admin.number(recent), 1);
    // It changes nothing but the statistics.
    let next = admin.next("orders").expect("an id");
    assert!(next > 500);
    assert_eq!(admin.stat("orders", "ids_drawn"), 1);

    admin.run("SELECT leaf_stat_reset()");
    assert_eq!(admin.stat("items", "ids_drawn"), 0);
    let recent = "SELECT count(*) FROM leaf.stat_snowflake WHERE stats_reset IS NOT NULL";
    assert_eq!(admin.number(recent), 1);
    admin.run("SELECT leaf_stat_reset('no such tag')");
    refused(admin.batch_execute("SELECT leaf_stat_reset('')"), "22023");
}

#[test]
fn tag_that_only_the_snapshot_still_has_is_shown_without_an_error() {
    let (server, mut admin) = Server::with_orders(1000);
    admin.run("CREATE ROLE owner LOGIN; GRANT EXECUTE ON FUNCTION leaf_tag_create TO owner");
    let mut owner = server.connect_as("owner", "postgres");
    owner.run("SELECT leaf_tag_create('mine'), leaf_tag_create('kept')");
    owner.next("mine").expect("an id");
    owner.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    admin.run("SELECT leaf_tag_drop('mine')");
    assert_eq!(
        owner.number("SELECT count(*) FROM leaf.stat_segment WHERE ids_drawn = 0"),
        2
    );
}

#[test]
fn setting_that_only_the_loader_reads_warns_in_a_session() {
    let (server, mut admin) = Server::with_orders(100);
    let psql = |command: &str| {
        let output = server
            .program("psql")
            .args(["-X", "-c", command, "postgres"])
            .output()
            .expect("psql runs");
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let warning = psql("SET leaf.worker_id = 5");
    assert!(warning.contains("no effect in a session"), "{warning}");
    assert_eq!(psql("ALTER DATABASE postgres SET leaf.worker_id = 5"), "");
    assert_eq!(psql("SELECT leaf_snowflake_next()"), "");
    // What can act acts silently; what cannot be set here at all is PostgreSQL's own error.
    assert_eq!(psql("SET leaf.wait_timeout = 5"), "");
    for name in [
        "max_step",
        "segment_duration",
        "prefetch_threshold",
        "loader_idle_timeout",
    ] {
        admin.fails(&format!("SET leaf.{name} = 50"), "55P02");
    }
    let used = "SELECT worker_id::bigint FROM leaf.stat_snowflake";
    assert_eq!(admin.number(used), 5);
}

/// Before PostgreSQL 17, all of an extension's waits have one name.
#[test]
fn waits_have_names() {
    let (server, mut admin) = Server::with_orders(10);
    let has_names = admin.number("SELECT current_setting('server_version_num')::bigint") >= 170_000;
    let name = |name: &'static str| if has_names { name } else { "Extension" };
    admin.next("orders").expect("an id");
    let waiting = |admin: &mut Client, process: &str, event: &str| {
        admin.number(&format!(
            "SELECT count(*) FROM pg_stat_activity WHERE backend_type = '{process}'
                AND wait_event_type = 'Extension' AND wait_event = '{event}'"
        )) > 0
    };
    wait_until("the loader waits for work", || {
        waiting(&mut admin, "leaf loader", name("LeafLoaderMain"))
    });
    let mut locker = server.connect();
    locker.run("BEGIN; SELECT FROM leaf.alloc FOR UPDATE");
    thread::scope(|scope| {
        let mut caller = server.connect();
        let call = scope.spawn(move || caller.batch("orders", 100));
        wait_until("a session waits for ids", || {
            waiting(&mut admin, "client backend", name("LeafSegment"))
        });
        locker.run("COMMIT");
        call.join().expect("a session").expect("ids");
    });
}

/// Monitoring must not hang just then.
#[test]
fn view_shows_what_memory_has_while_the_catalog_is_locked() {
    let (server, mut admin) = Server::with_orders(1000);
    admin.run("CREATE ROLE owner LOGIN; GRANT EXECUTE ON FUNCTION leaf_tag_create TO owner");
    let mut owner = server.connect_as("owner", "postgres");
    owner.run("SELECT leaf_tag_create('own'); SET statement_timeout = '30s'");
    owner.next("own").expect("an id");
    for id in 1..=3 {
        assert_eq!(admin.next("orders").expect("an id"), id);
    }
    admin.run("SET statement_timeout = '30s'");
    let mut locker = server.connect();
    locker.run("BEGIN; LOCK leaf.alloc");
    let shown = "SELECT string_agg(concat_ws(' ', biz_tag, position, ids_drawn, max_value IS NULL, ids_left IS NULL, last_error),
                                   ', ' ORDER BY biz_tag)
                   FROM leaf.stat_segment";
    let locked = "table \"leaf.alloc\" is locked by another transaction";
    assert_eq!(
        admin.text(shown),
        format!("orders 4 3 t t {locked}, own 2 1 t t {locked}")
    );
    // Memory does not know whose they are.
    assert_eq!(owner.number("SELECT count(*) FROM leaf.stat_segment"), 0);
    locker.run("ROLLBACK");
    assert_eq!(admin.text(shown), "orders 4 3 f f, own 2 1 f f");
    assert_eq!(owner.number("SELECT count(*) FROM leaf.stat_segment"), 1);
}
