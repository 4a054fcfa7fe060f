//! Bad input of any kind gives a clean error with the right code and a HINT, and
//! leaves no state behind.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Server, refused};

/// Runs a statement that must fail with `code`.
#[track_caller]
fn fails(client: &mut Client, statement: &str, code: &str) {
    match client.batch_execute(statement) {
        Ok(()) => panic!("this must fail: {statement}"),
        failure => {
            refused(failure, code);
        }
    }
}

#[test]
fn hints_are_for_whoever_has_made_the_mistake() {
    let (_server, mut client) = Server::with_orders(1000);
    let hint = |failure: Result<(), leaf_tests::postgres::Error>, code| {
        refused(failure, code).hint().map(str::to_owned)
    };
    let error = client.batch_execute("SELECT leaf_tag_alter('nosuch', step => 5)");
    let of_manager = hint(error, "42704").expect("a hint");
    assert!(of_manager.contains("leaf.stat_segment"), "{of_manager}");
    let of_draw = client.batch_execute("SELECT leaf_segment_next('nosuch')");
    let of_draw = hint(of_draw, "42704").expect("a hint");
    assert!(of_draw.contains("leaf_tag_align"), "{of_draw}");
    let epoch = "SET leaf.snowflake_epoch = '2020-01-01Z'";
    let error = leaf_tests::failed(client.batch_execute(epoch), "22023");
    let detail = error.detail().expect("a detail");
    assert!(detail.contains("2024-01-01T00:00:00Z"), "{detail}");
    for wrong in ["hostt=x", "host", "postgres://[a"] {
        let set = format!("ALTER SYSTEM SET leaf.upstream = '{wrong}'");
        leaf_tests::failed(client.batch_execute(&set), "22023");
    }
    client.run("ALTER SYSTEM SET leaf.upstream = 'host=a,b user=shard'");
}

#[test]
fn missing_tag_is_dropped_if_it_exists() {
    let (_server, mut client) = Server::with_orders(1000);
    client.run("SELECT leaf_tag_drop('nosuch', if_exists => true)");
    fails(
        &mut client,
        "SELECT leaf_tag_drop('orders', false, NULL)",
        "22023",
    );
    client.run("SELECT leaf_tag_drop('orders', if_exists => true)");
    refused(client.next("orders"), "42704");
}

#[test]
fn many_unknown_tags_use_up_no_slot() {
    let server = Server::options().set("leaf.max_tags", "16").start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders')");
    for n in 0..200 {
        refused(client.next(&format!("nosuch{n}")), "42704");
    }
    client.next("orders").expect("an id");
}

#[test]
fn existing_tag_is_42710() {
    let (_server, mut client) = Server::with_orders(1000);
    fails(&mut client, "SELECT leaf_tag_create('orders')", "42710");
    client.run("BEGIN; SELECT leaf_tag_create('fresh')");
    fails(&mut client, "SELECT leaf_tag_create('fresh')", "42710");
    client.run("ROLLBACK");
    assert_eq!(client.next("orders").expect("an id"), 1);
}

#[test]
fn bad_tag_is_22023() {
    let (_server, mut client) = Server::with_orders(1000);
    let long = "x".repeat(129);
    for tag in ["", long.as_str()] {
        refused(client.next(tag), "22023");
        refused(client.batch(tag, 5), "22023");
        refused(client.reserve(tag, 5), "22023");
        fails(
            &mut client,
            &format!("SELECT leaf_tag_create('{tag}')"),
            "22023",
        );
    }
    let huge = "y".repeat(1_000_000);
    refused(client.next(&huge), "22023");
}

#[test]
fn bad_arguments_of_the_tag_functions_are_22023() {
    let (_server, mut client) = Server::with_orders(1000);
    for call in [
        "leaf_tag_create('t', step => 0)",
        "leaf_tag_create('t', step => -1)",
        "leaf_tag_create('t', start => 10, max_value => 9)",
        "leaf_tag_create('t', description => repeat('d', 257))",
        "leaf_tag_alter('orders', step => 0)",
        "leaf_tag_alter('orders', step => -1)",
    ] {
        fails(&mut client, &format!("SELECT {call}"), "22023");
    }
    refused(client.next("t"), "42704");
    assert_eq!(client.next("orders").expect("nothing was changed"), 1);
}

#[test]
fn lowering_max_id_is_22023() {
    let (_server, mut client) = Server::with_orders(1000);
    client.run("SELECT leaf_tag_alter('orders', advance_to => 5000)");
    client.next("orders").expect("an id");
    for lower in [
        "SELECT leaf_tag_alter('orders', advance_to => 10)",
        "UPDATE leaf.alloc SET max_id = 10",
        "UPDATE leaf.alloc SET max_id = max_id - 1",
        "INSERT INTO leaf.alloc (biz_tag, max_id, step) VALUES ('orders', 1, 1)
         ON CONFLICT (biz_tag) DO UPDATE SET max_id = excluded.max_id",
    ] {
        fails(&mut client, lower, "22023");
    }
    assert_eq!(client.next("orders").expect("nothing was changed"), 5_001);
}

#[test]
fn null_arguments_give_null_or_22004_and_no_state() {
    let (_server, mut client) = Server::with_orders(1000);
    let nothing = "SELECT count(leaf_segment_next(NULL)) + count(leaf_segment_reserve(NULL, 5))
                          + count(leaf_segment_reserve('orders', NULL))
                          + count(leaf_segment_return('orders', NULL))";
    assert_eq!(client.number(nothing), 0);
    assert_eq!(
        client.number("SELECT count(*) FROM leaf_segment_batch(NULL, 5)"),
        0
    );
    assert_eq!(
        client.number("SELECT count(*) FROM leaf_segment_batch('orders', NULL)"),
        0
    );
    for call in [
        "leaf_tag_create(NULL)",
        "leaf_tag_create('t', step => NULL)",
        "leaf_tag_create('t', start => NULL)",
        "leaf_tag_alter(NULL, step => 5)",
        "leaf_tag_drop(NULL)",
        "leaf_tag_grant('orders', NULL)",
        "leaf_tag_grant(NULL, 'postgres')",
        "leaf_tag_revoke('orders', NULL)",
    ] {
        // Whether STRICT or refused: nothing is created, nothing is changed.
        if let Err(error) = client.batch_execute(&format!("SELECT {call}")) {
            let code = error.code().map_or("", |code| code.code()).to_owned();
            assert!(
                ["22004", "22023", "42704"].contains(&code.as_str()),
                "{call}: {error:?}"
            );
        }
    }
    let tags = "SELECT count(*) FROM leaf.alloc WHERE biz_tag <> 'orders' OR grantees <> '{}'";
    assert_eq!(client.number(tags), 0);
}

#[test]
fn tag_at_the_ends_of_bigint_breaks_no_view() {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run(
        "CREATE ROLE maker; GRANT EXECUTE ON FUNCTION
             leaf_tag_create TO maker; SET ROLE maker",
    );
    admin.run("SELECT leaf_tag_create('lowest', start => -9223372036854775808)");
    admin.run("SELECT leaf_tag_create('highest', start => 9223372036854775806)");
    let error = refused(
        admin.batch_execute("SELECT leaf_tag_create('beyond', start => 9223372036854775807)"),
        "22023",
    );
    assert!(error.message().contains("start"), "{error:?}");
    admin.run("RESET ROLE");
    // Before and after the first draw.
    for expected in [i64::MIN, i64::MIN + 1] {
        let rows = admin.query("SELECT * FROM leaf.stat_segment", &[]);
        assert_eq!(rows.expect("the view").len(), 2);
        assert_eq!(admin.next("lowest").expect("an id"), expected);
    }
    assert_eq!(
        admin.next("highest").expect("an id"),
        9_223_372_036_854_775_806
    );
    refused(admin.next("highest"), "2200H");
    let rows = admin.query("SELECT * FROM leaf.stat_segment", &[]);
    assert_eq!(rows.expect("the view").len(), 2);
}

#[test]
fn longest_tag_of_wide_characters_works() {
    let (_server, mut client) = Server::with_orders(1000);
    for tag in [
        "ж".repeat(128),
        "💧".repeat(128),
        " ".to_owned(),
        "'; --".to_owned(),
    ] {
        client
            .execute("SELECT leaf_tag_create($1)", &[&tag])
            .expect("a tag");
        assert_eq!(client.next(&tag).expect("an id"), 1);
        assert_eq!(client.batch(&tag, 2).expect("ids"), [2, 3]);
        client
            .execute("SELECT leaf_tag_drop($1)", &[&tag])
            .expect("dropped");
        refused(client.next(&tag), "42704");
    }
    refused(client.next(&"ж".repeat(129)), "22023");
}

#[test]
fn tags_that_differ_at_the_end_are_different() {
    let (_server, mut client) = Server::with_orders(1000);
    let (one, two) = ("t".repeat(127) + "1", "t".repeat(127) + "2");
    client.run(&format!(
        "SELECT leaf_tag_create('{one}', start => 1); SELECT leaf_tag_create('{two}', start => 1000000)"
    ));
    assert_eq!(client.next(&one).expect("an id"), 1);
    assert_eq!(client.next(&two).expect("an id"), 1_000_000);
}

#[test]
fn direct_rows_that_make_no_sense_are_refused() {
    let (_server, mut client) = Server::with_orders(1000);
    for row in [
        "('t', 1, 0)",
        "('t', 1, -5)",
        "('', 1, 10)",
        "(NULL, 1, 10)",
        "('t', NULL, 10)",
        "('t', 1, NULL)",
    ] {
        let insert = format!("INSERT INTO leaf.alloc (biz_tag, max_id, step) VALUES {row}");
        let error = client.batch_execute(&insert).expect_err(&insert);
        let code = error.code().map_or("", |code| code.code()).to_owned();
        assert!(
            ["23514", "23502", "22023"].contains(&code.as_str()),
            "{row}: {error:?}"
        );
    }
    refused(client.next("t"), "42704");
}

#[test]
fn error_in_the_middle_of_a_statement_leaves_the_session_usable() {
    let (_server, mut client) = Server::with_orders(1000);
    let first = client.next("orders").expect("an id");
    for _ in 0..50 {
        client
            .batch_execute("SELECT leaf_segment_next(CASE WHEN n < 5 THEN 'orders' ELSE 'nosuch' END) FROM generate_series(1, 9) n")
            .expect_err("the second tag is unknown");
    }
    assert!(client.next("orders").expect("an id") > first);
}

#[test]
fn trigger_behind_leafs_own_cannot_lower_max_id() {
    let (_server, mut client) = Server::with_orders(1000);
    client.run("SELECT leaf_tag_alter('orders', advance_to => 5000)");
    client.next("orders").expect("an id");
    client.run(
        "CREATE FUNCTION rewind() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN new.max_id := 10; RETURN new; END $$;
         CREATE TRIGGER zz_behind BEFORE UPDATE ON leaf.alloc
            FOR EACH ROW WHEN (new.description = 'rewind') EXECUTE FUNCTION rewind()",
    );
    fails(
        &mut client,
        "UPDATE leaf.alloc SET description = 'rewind'",
        "22023",
    );
    assert_eq!(client.next("orders").expect("nothing was changed"), 5_001);
}

#[test]
fn block_is_not_longer_than_the_setting_allows() {
    let (_server, mut client) = Server::with_orders(1000);
    refused(client.reserve("orders", 1_000_000_001), "22023");
    client.reserve("orders", 1_000_000_000).expect("a block");
    client.run("SET leaf.max_reserve = 10");
    refused(client.reserve("orders", 11), "22023");
    client.reserve("orders", 10).expect("a block");
    client.run("CREATE ROLE joe; SET ROLE joe");
    client.fails("SET leaf.max_reserve = 100", "42501");
}

#[test]
fn new_tag_in_a_parallel_plan_is_an_error_that_says_so() {
    let (_server, mut admin) = Server::with_orders(1000);
    admin.run(
        "CREATE TABLE big AS SELECT generate_series(1, 20000) AS i;
         SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
         BEGIN; SELECT leaf_tag_create('fresh')",
    );
    let drawn = admin.query_one("SELECT count(leaf_segment_next('fresh')) FROM big", &[]);
    refused(drawn, "0A000");
}
