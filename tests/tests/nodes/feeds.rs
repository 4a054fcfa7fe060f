//! What a centre gives its shards: numbers of many tags in one call.

use leaf_tests::{
    Block, Centre, Draw, Ledger, Mode, Paused, Server, attach, feed_all, refused, wait_until,
};

#[test]
fn feeding_obeys_the_rules_of_blocks() {
    let centre = Centre::of(Server::options().set("leaf.max_reserve", "1000"));
    centre.create("orders", ", max_value => 1000000");
    let mut there = centre.0.connect();
    for (tag, count, code) in [
        ("orders", 1001, "22023"),
        ("orders", -1, "22023"),
        ("", 1, "22023"),
        ("missing", 1, "42704"),
    ] {
        assert_eq!(there.feed(tag, count).expect_err("none"), code, "{tag}");
    }
    let code = "SELECT error_code = '2200H' FROM leaf_segment_feed('{orders}', '{101}', '{true}')";
    assert!(there.query_one(code, &[]).expect("a row").get::<_, bool>(0));
    for call in [
        "leaf_segment_feed(NULL, '{1}')",
        "leaf_segment_feed('{orders}', NULL)",
        "leaf_segment_feed('{orders}', '{1,2}')",
        "leaf_segment_feed('{orders}', '{1}', '{}')",
        "leaf_segment_feed(array_fill('orders'::text, '{1001}'), array_fill(1::bigint, '{1001}'))",
    ] {
        refused(
            there.batch_execute(&format!("SELECT * FROM {call}")),
            "22023",
        );
    }
    for call in [
        "leaf_segment_feed('{orders}', '{1}')",
        "(leaf_segment_feed('{orders}', '{1}')).*",
    ] {
        refused(there.batch_execute(&format!("SELECT {call}")), "0A000");
    }
    there.run("CREATE ROLE joe LOGIN");
    let mut joe = centre.0.connect_as("joe", "postgres");
    for count in [0, 1] {
        assert_eq!(joe.feed("orders", count).expect_err("none"), "42501");
    }
    let last = |client: &mut leaf_tests::postgres::Client, count| {
        client.feed("orders", count).expect("numbers").last
    };
    assert_eq!(last(&mut there, 0), 0);
    // Undone by nothing.
    there.run("BEGIN");
    assert_eq!(last(&mut there, 30), 30);
    there.run("ROLLBACK");
    // Not more than a small part of what is left.
    assert_eq!(last(&mut there, 1000), 30 + 99);
    there.run("SELECT leaf_tag_alter('orders', max_value => 130)");
    assert_eq!(last(&mut there, 1000), 130);
    assert_eq!(there.feed("orders", 1).expect_err("none"), "2200H");
    there.run("BEGIN; SELECT leaf_tag_create('new')");
    assert_eq!(there.feed("new", 1).expect_err("none"), "55P03");
}

/// The names of many tags.
fn names(count: usize) -> Vec<String> {
    (1..=count).map(|n| format!("tag {n}")).collect()
}

/// Creates them at a centre.
fn create_many(centre: &Centre, count: usize) {
    centre.0.connect().run(&format!(
        "SELECT leaf_tag_create('tag ' || n), leaf_tag_grant('tag ' || n, 'shard')
           FROM generate_series(1, {count}) AS n"
    ));
}

/// In how many transactions the rows of a centre's tags were written last.
fn transactions(there: &mut leaf_tests::postgres::Client) -> i64 {
    there.number("SELECT count(DISTINCT xmin::text) FROM leaf.alloc WHERE max_id > 1")
}

#[test]
fn feeds_of_a_hundred_tags_take_few_commits() {
    let centre = Centre::start();
    create_many(&centre, 300);
    let mut there = centre.0.connect();
    let names = names(300);
    let feeds: Vec<_> = names.iter().map(|name| (name.as_str(), 10)).collect();
    let fed = feed_all(&mut there, &feeds[..100]).expect("rows");
    for block in fed {
        assert_eq!(block, Ok(Block { first: 1, last: 10 }));
    }
    assert!(transactions(&mut there) <= 3);
    // More than there is room for at once.
    let more: Vec<_> = feeds.iter().cycle().copied().take(1_000).collect();
    let mut ledger = Ledger::new();
    for (n, block) in feed_all(&mut there, &more)
        .expect("rows")
        .iter()
        .enumerate()
    {
        let (block, tag) = (block.as_ref().expect("numbers"), (n % 300) as i64);
        ledger.add(block.ids().map(|id| id * 1_000 + tag));
    }
}

#[test]
fn error_of_a_tag_concerns_no_other_one() {
    let centre = Centre::of(Server::options().set("leaf.max_reserve", "1000"));
    centre.create("a", "");
    centre.create("b", "");
    centre.create("small", ", max_value => 1");
    let mut there = centre.0.connect();
    there.run("SELECT leaf_tag_create('hidden'), leaf_tag_create('locked'), leaf_tag_grant('locked', 'shard')");
    let mut holder = centre.0.connect();
    holder.run("BEGIN; SELECT FROM leaf.alloc WHERE biz_tag = 'locked' FOR UPDATE");
    let mut shard = centre.0.connect_as("shard", "postgres");
    // Nothing waits as long as this.
    shard.run("SET leaf.wait_timeout = '1h'");
    let feeds = [
        ("a", 10),
        ("missing", 10),
        ("hidden", 10),
        ("locked", 10),
        ("small", 1),
        ("small", 1),
        ("a", 10),
        ("", 1),
        ("b", 2_000),
        ("b", 1),
    ];
    for round in 0..3 {
        let fed = feed_all(&mut shard, &feeds).expect("rows");
        let codes = fed
            .iter()
            .map(|it| it.as_ref().err().map_or("", |code| code));
        let small = if round == 0 { "" } else { "2200H" };
        let expected = [
            "", "42704", "42501", "55P03", small, "2200H", "", "22023", "22023", "",
        ];
        assert_eq!(codes.collect::<Vec<_>>(), expected);
    }
    holder.run("ROLLBACK");
    let left = "SELECT array_agg(biz_tag || ' ' || max_id ORDER BY biz_tag)::text FROM leaf.alloc";
    let left = there.text(left);
    assert_eq!(left, r#"{"a 61","b 4","hidden 1","locked 1","small 2"}"#);
    assert!(shard.feed("locked", 10).is_ok());
}

#[test]
fn shard_that_starts_asks_for_all_its_tags_at_once() {
    let centre = Centre::start();
    create_many(&centre, 100);
    let mut shard = centre.shard();
    let mut client = shard.connect();
    for (work, tags) in [
        ("create('tag ' || n, step => 100)", 101),
        ("attach('tag ' || n)", 100),
    ] {
        client.run(&format!(
            "SELECT leaf_tag_{work} FROM generate_series(1, {tags}) AS n"
        ));
    }
    for name in names(100) {
        client.next(&name).expect("an id");
    }
    let mut there = centre.0.connect();
    assert!(transactions(&mut there) > 20);
    // On a busy machine, some tags can be asked for before the others are due: once is enough.
    let asks_at_once = (0..5).any(|_| {
        shard.restart(Mode::Immediate);
        client = shard.connect();
        client.next("tag 101").expect("an id");
        wait_until("all tags have ids", || {
            client.number("SELECT count(*) FROM leaf.stat_segment WHERE ids_left > 0") == 101
        });
        transactions(&mut there) <= 3
    });
    assert!(asks_at_once);
    for name in names(100) {
        client.next(&name).expect("an id");
    }
    assert!(transactions(&mut there) <= 3);
}

#[test]
fn tags_of_a_centre_can_have_any_name() {
    let centre = Centre::start();
    let shard = centre.shard();
    let mut client = shard.connect();
    let names = [
        r#"a"b"#, r"a\b", "a,b", "{a}", "NULL", " a ", "größe", r#"\"\"#,
    ];
    for name in names {
        let create =
            format!("SELECT leaf_tag_create($${name}$$), leaf_tag_grant($${name}$$, 'shard')");
        centre.0.connect().run(&create);
        client.run(&format!("SELECT leaf_tag_create($${name}$$, step => 10)"));
    }
    client.run("SELECT leaf_tag_attach(biz_tag) FROM leaf.alloc");
    for name in names {
        assert_eq!(client.next(name).expect("an id"), 1, "{name}");
    }
}

#[test]
fn feeding_does_not_starve_ordinary_callers() {
    let centre = Centre::start();
    create_many(&centre, 100);
    centre.create("own", ", step => 1");
    let config = centre.0.config("postgres", "postgres");
    let feed = |client: &mut leaf_tests::postgres::Client, _| {
        let feed = "SELECT last FROM leaf_segment_feed($1, $2) WHERE tag = 'tag 1'";
        let (tags, counts) = (names(100), vec![1_i64; 100]);
        let last = client.query_one(feed, &[&tags, &counts])?;
        // None if the row says that it took too long.
        Ok(last.get::<_, Option<i64>>(0).into_iter().collect())
    };
    leaf_tests::Load::run(&config, 40, "55P03", feed, |_| {
        let mut client = centre.0.connect();
        client.run("SET leaf.wait_timeout = '2s'");
        for _ in 0..200 {
            client.next("own").expect("an id");
            client.reserve("own", 2).expect("a block");
        }
    });
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
    // The shard's session is held up, so that the next requests go together.
    let session = there.number("SELECT pid::bigint FROM pg_stat_activity WHERE usename = 'shard'");
    let paused = Paused::all(vec![session as i32]);
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
        there.number(
            "SELECT count(*) FROM pg_stat_activity WHERE usename = 'shard' AND state = 'active'",
        ) > 0
    });
    // The centre is reached, and has the tag.
    client.run("SELECT leaf_tag_attach('late')");
}
