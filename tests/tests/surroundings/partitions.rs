//! Tables partitioned by the time in snowflake ids, by hand and by pg_partman.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Server, Snowflake, has_extension_of_debian, refused};

const TWITTER: &str = "'2010-11-04 01:42:54.657Z'";

#[test]
fn time_of_an_id_is_what_decode_says() {
    let server = Server::start();
    let mut client = server.connect();
    let query =
        "SELECT count(*) FROM leaf_snowflake_batch(100) AS id, leaf_snowflake_decode(id) AS d
                  WHERE leaf_snowflake_time(id) = d.created_at
                    AND leaf_snowflake_time(id, 'leaf', {} ) = d.created_at
                    AND leaf_snowflake_floor(leaf_snowflake_time(id)) <= id";
    assert_eq!(client.number(&query.replace("{}", TWITTER)), 100);
    for bad in [
        "leaf_snowflake_time(-1)",
        "leaf_snowflake_time(9223372036854775807, 'js53', '2024-01-01Z')",
        "leaf_snowflake_time(1, 'nosuch', now())",
    ] {
        refused(client.batch_execute(&format!("SELECT {bad}")), "22023");
    }
    // Only the one that depends on no setting can be in an index.
    client.run("CREATE TABLE t (id bigint)");
    client.run(&format!(
        "CREATE INDEX ON t (leaf_snowflake_time(id, 'leaf', {TWITTER}))"
    ));
    client.fails("CREATE INDEX ON t (leaf_snowflake_time(id))", "42P17");
}

/// A table with a partition for each of the days around the current one.
fn partitioned(client: &mut Client, floor: &str) {
    client.run("CREATE TABLE events (id bigint DEFAULT leaf_snowflake_next() PRIMARY KEY) PARTITION BY RANGE (id)");
    for day in -5..5 {
        let bound = |day: i32| {
            let at = format!("(date_trunc('day', now(), 'UTC') + interval '{day} days')");
            floor.replace("{}", &at)
        };
        client.run(&format!(
            "DO $$ BEGIN EXECUTE format('CREATE TABLE events_{} PARTITION OF events FOR VALUES FROM (%s) TO (%s)',
                                        {}, {}); END $$",
            day + 5,
            bound(day),
            bound(day + 1)
        ));
    }
}

/// The partitions that a plan reads.
fn read(plan: &str) -> usize {
    (0..10)
        .filter(|n| plan.contains(&format!("events_{n} ")))
        .count()
}

#[test]
fn partitions_by_time_are_pruned() {
    let server = Server::start();
    let mut client = server.connect();
    let explicit = format!("leaf_snowflake_floor({{}}, 'leaf', {TWITTER})");
    partitioned(&mut client, &explicit);
    client.run("INSERT INTO events SELECT FROM generate_series(1, 100)");
    let today = client.numbers("SELECT id FROM ONLY events_5 UNION SELECT id FROM ONLY events_6");
    assert_eq!(today.len(), 100);

    // Constants: when the plan is made.
    let at = client.text("SELECT (date_trunc('day', now(), 'UTC') - interval '2 days')::text");
    let constants = format!(
        "SELECT count(*) FROM events WHERE id >= leaf_snowflake_floor('{at}', 'leaf', {TWITTER})
            AND id < leaf_snowflake_floor('{at}'::timestamptz + interval '1 day', 'leaf', {TWITTER})"
    );
    let plan = client.plan(&format!("(COSTS OFF) {constants}"));
    assert_eq!(read(&plan), 1, "{plan}");
    // A time that is known only when the query begins: then.
    let recent =
        "SELECT count(*) FROM events WHERE id >= leaf_snowflake_floor(now() - interval '1 day')";
    let plan = client.plan(&format!("(ANALYZE, COSTS OFF, TIMING OFF) {recent}"));
    assert!(plan.contains("Subplans Removed: 4"), "{plan}");
    assert_eq!(client.number(recent), 100);
}

#[test]
fn bounds_may_be_computed_where_the_partition_is_created() {
    let server = Server::start();
    let mut client = server.connect();
    client.run(&format!(
        "CREATE TABLE events (id bigint PRIMARY KEY) PARTITION BY RANGE (id);
         CREATE TABLE events_10 PARTITION OF events
             FOR VALUES FROM (leaf_snowflake_floor('2026-10-01Z', 'leaf', {TWITTER}))
                          TO (leaf_snowflake_floor('2026-11-01Z', 'leaf', {TWITTER}));
         CREATE TABLE events_11 PARTITION OF events
             FOR VALUES FROM (leaf_snowflake_floor('2026-11-01Z')) TO (leaf_snowflake_floor('2026-12-01Z'))"
    ));
    client.run(&format!(
        "INSERT INTO events VALUES (leaf_snowflake_floor('2026-10-31 23:59:59.999Z', 'leaf', {TWITTER})),
                                   (leaf_snowflake_floor('2026-11-01Z', 'leaf', {TWITTER}))"
    ));
    let times = "SELECT leaf_snowflake_time(id)::text FROM ONLY ";
    assert_eq!(
        client.text(&format!("{times} events_10")),
        "2026-10-31 23:59:59.999+00"
    );
    assert_eq!(
        client.text(&format!("{times} events_11")),
        "2026-11-01 00:00:00+00"
    );
}

/// As pg_partman 5.2 and later call them: by a qualified name that has no overloads, with a
/// text of an instant, and with NULL.
#[test]
fn partman_encoder_and_decoder_are_what_it_calls() {
    let server = Server::start();
    let mut client = server.connect();
    let single = client.number(
        "SELECT count(*) FROM pg_proc WHERE proname IN ('leaf_partman_encoder', 'leaf_partman_decoder')
            AND provolatile = 'i' AND proparallel = 's' AND proisstrict
            AND prorettype = CASE proname WHEN 'leaf_partman_encoder' THEN 'text'::regtype ELSE 'timestamptz' END
            AND proargtypes[0] = CASE proname WHEN 'leaf_partman_encoder' THEN 'timestamptz'::regtype ELSE 'text' END",
    );
    assert_eq!(single, 2);
    for instant in [
        "2026-11-01 00:00:00+00",
        "2026-11-22 03:34:01+02",
        "2080-01-01 00:00:00+00",
    ] {
        let encoded = client.text(&format!("SELECT public.leaf_partman_encoder('{instant}')"));
        let same =
            format!("SELECT (public.leaf_partman_decoder('{encoded}') = '{instant}')::int::bigint");
        assert_eq!(client.number(&same), 1, "{instant}");
        let floor = format!(
            "SELECT (leaf_id_parse('{encoded}') = leaf_snowflake_floor('{instant}'))::int::bigint"
        );
        assert_eq!(client.number(&floor), 1, "{instant}");
    }
    let nulls = "SELECT (leaf_partman_encoder(NULL) IS NULL AND leaf_partman_decoder(NULL) IS NULL)::int::bigint";
    assert_eq!(client.number(nulls), 1);
    refused(
        client.batch_execute("SELECT leaf_partman_decoder('2026')"),
        "22P02",
    );

    // A table as it makes them, with bounds as texts.
    client.run("CREATE TABLE links (id text DEFAULT leaf_id_text(leaf_snowflake_next())) PARTITION BY RANGE (id)");
    client.run(
        "DO $$ BEGIN EXECUTE format('CREATE TABLE links_now PARTITION OF links FOR VALUES FROM (%L) TO (%L)',
             leaf_partman_encoder(now() - interval '1 day'), leaf_partman_encoder(now() + interval '1 day')); END $$;
         CREATE TABLE links_default PARTITION OF links DEFAULT;
         INSERT INTO links SELECT FROM generate_series(1, 100)",
    );
    assert_eq!(client.number("SELECT count(*) FROM ONLY links_now"), 100);
}

/// pg_partman as Debian has it, 4.7, knows no encoders: it counts ids. Its partitions are as
/// wide as the ids of a day.
#[test]
fn partman_partitions_by_the_ids_of_a_day() {
    let server = Server::start();
    let mut client = server.connect();
    if !has_extension_of_debian(&mut client, "pg_partman") {
        return;
    }
    client.run(
        "CREATE SCHEMA partman; CREATE EXTENSION pg_partman SCHEMA partman;
         CREATE TABLE clicks (id bigint NOT NULL DEFAULT leaf_snowflake_next()) PARTITION BY RANGE (id)",
    );
    client.run(
        "SELECT partman.create_parent('public.clicks', 'id', 'native',
             (leaf_snowflake_floor('2030-01-02Z') - leaf_snowflake_floor('2030-01-01Z'))::text,
             p_premake => 3, p_start_partition => leaf_snowflake_floor(now())::text)",
    );
    client.run("INSERT INTO clicks SELECT FROM generate_series(1, 100)");
    assert_eq!(client.number("SELECT count(*) FROM ONLY clicks_default"), 0);
    // Ids of the days to come have partitions; maintenance makes more when they are used.
    let days = "SELECT count(*) FROM pg_inherits WHERE inhparent = 'clicks'::regclass";
    let before = client.number(days);
    client.run("INSERT INTO clicks VALUES (leaf_snowflake_floor(now() + interval '2 days'))");
    assert_eq!(client.number("SELECT count(*) FROM ONLY clicks_default"), 0);
    client.run("SELECT partman.run_maintenance('public.clicks')");
    assert_eq!(client.number(days), before + 2);
    let recent =
        "SELECT count(*) FROM clicks WHERE id >= leaf_snowflake_floor(now() + interval '30 hours')";
    let plan = client.plan(&format!("(ANALYZE, COSTS OFF) {recent}"));
    assert!(plan.contains("Subplans Removed"), "{plan}");
    client.snowflake().expect("an id");
}
