//! `leaf_tag_align`: tags are moved past the ids that are in use.

use leaf_tests::{Draw, Ledger, Server, draw_many, wait_until};

#[test]
fn alignment_drops_buffers_that_lie_below_rows() {
    let server = Server::start();
    let mut client = server.connect();
    client.run(
        "SELECT leaf_tag_create('orders', step => 1000);
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'))",
    );
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut client, "orders", 10));
    // Ids that the buffers in memory still hold.
    client.run("INSERT INTO orders SELECT generate_series(11, 500)");
    ledger.add(11..=500);
    assert_eq!(
        client.number("SELECT highest FROM leaf_tag_align('orders') WHERE moved"),
        500
    );
    ledger.add(draw_many(&mut client, "orders", 3_000));
    client.run("INSERT INTO orders DEFAULT VALUES");
    assert_eq!(
        client.number("SELECT count(*) FROM leaf_tag_align() WHERE moved"),
        0
    );
}

#[test]
fn alignment_finds_every_column_that_draws() {
    let server = Server::start();
    let mut client = server.connect();
    client.run(
        r#"SELECT leaf_tag_create(tag) FROM unnest(ARRAY['a', 'b', 'it''s \odd']) AS tag;
          CREATE SCHEMA app;
          CREATE DOMAIN app.tag AS text;
          CREATE DOMAIN app.id AS integer DEFAULT leaf_segment_next('b');
          CREATE DOMAIN app.narrow AS app.id CHECK (value > 0);
          CREATE TABLE app.plain (x text, id bigint DEFAULT leaf_segment_next('a'));
          CREATE TABLE app.cast (id numeric DEFAULT leaf_segment_next('a'::varchar) * 1);
          CREATE TABLE app.domain (id app.id, narrow app.narrow, own app.id DEFAULT 5);
          CREATE TABLE app.empty (id bigint DEFAULT leaf_segment_next('b'));
          CREATE TABLE app.text (id text DEFAULT 'o-' || leaf_segment_next('b'));
          CREATE TABLE app."Odd" ("Id" bigint DEFAULT leaf_segment_next(E'it''s \\odd'));
          CREATE TABLE app.part (id bigint DEFAULT leaf_segment_next('a')) PARTITION BY RANGE (id);
          CREATE TABLE app.part1 PARTITION OF app.part FOR VALUES FROM (0) TO (10000);
          CREATE VIEW app.view AS SELECT * FROM app.plain;
          ALTER VIEW app.view ALTER COLUMN id SET DEFAULT leaf_segment_next('a');
          CREATE FUNCTION app.leaf_segment_next(text) RETURNS bigint LANGUAGE sql RETURN 0;
          CREATE TABLE app.twin (id bigint DEFAULT leaf_segment_next('a') + app.leaf_segment_next('b'));
          CREATE TABLE app.two (id bigint DEFAULT greatest(leaf_segment_next('a'), leaf_segment_next('b')));
          CREATE TABLE app.casts (
              one bigint DEFAULT leaf_segment_next('a'::varchar),
              two bigint DEFAULT leaf_segment_next('a'::name),
              three bigint DEFAULT leaf_segment_next(tag => 'a'),
              four bigint DEFAULT leaf_segment_next('abc'::varchar(1)),
              five bigint DEFAULT leaf_segment_next('a'::app.tag));
          CREATE TABLE app.unsaid (tag text, id bigint DEFAULT leaf_segment_next(lower('A')));
          INSERT INTO app.plain VALUES ('', 2000);
          CREATE TABLE app.nan (id numeric DEFAULT leaf_segment_next('a'));
          INSERT INTO app.nan VALUES ('NaN');
          INSERT INTO app.cast VALUES (3000.5), (NULL);
          INSERT INTO app.domain VALUES (10, 700, 9999);
          INSERT INTO app."Odd" VALUES (5000);
          INSERT INTO app.part VALUES (4000)"#,
    );
    let rows = client
        .query(
            "SELECT concat_ws(' ', biz_tag, used_in, highest, \"position\", moved)
               FROM leaf_tag_align()",
            &[],
        )
        .expect("every column");
    let rows: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let mut found: Vec<&str> = rows.iter().map(String::as_str).collect();
    found.sort_unstable();
    assert_eq!(
        found,
        [
            "a app.\"cast\".id 3001 3002 t",
            "a app.casts.one 3002 f",
            "a app.casts.three 3002 f",
            "a app.casts.two 3002 f",
            "a app.nan.id 3002 f",
            "a app.part.id 4000 4001 t",
            "a app.plain.id 2000 4001 f",
            "a app.twin.id 4001 f",
            "a app.two.id 4001 f",
            "app.casts.five f",
            "app.casts.four f",
            "app.unsaid.id f",
            "b app.domain.id 10 11 t",
            "b app.domain.narrow 700 701 t",
            "b app.empty.id 701 f",
            "b app.text.id 701 f",
            "b app.two.id 701 f",
            "it's \\odd app.\"Odd\".\"Id\" 5000 5001 t",
        ]
    );
}

/// As with schemas that were dumped without rows, and with databases that ORMs make for tests.
#[test]
fn tags_that_are_missing_are_made_above_their_columns() {
    let server = Server::start();
    let mut client = server.connect();
    client.run(
        "CREATE ROLE app LOGIN; CREATE SCHEMA app AUTHORIZATION app;
         GRANT EXECUTE ON FUNCTION leaf_tag_create TO app",
    );
    let mut app = server.connect_as("app", "postgres");
    app.run(
        "SET search_path = app, public;
         CREATE TABLE orders (id bigint DEFAULT leaf_segment_next('orders'), line bigint DEFAULT leaf_segment_next('lines'));
         CREATE TABLE parts (id bigint DEFAULT leaf_segment_next('orders')) PARTITION BY RANGE (id);
         CREATE TABLE part PARTITION OF parts FOR VALUES FROM (0) TO (10000);
         INSERT INTO orders VALUES (70, NULL); INSERT INTO parts VALUES (900)",
    );
    let said =
        "SELECT string_agg(concat_ws(' ', used_in, moved, ignored), ', ') FROM leaf_tag_align()";
    let missing = "f all: its tag does not exist";
    assert_eq!(
        app.text(said),
        format!("app.orders.line {missing}, app.orders.id {missing}, app.parts.id {missing}")
    );
    app.run("SELECT leaf_tag_align(create_missing => true)");
    assert_eq!(app.next("orders").expect("an id"), 901);
    assert_eq!(app.next("lines").expect("an id"), 1);
    let owners = "SELECT string_agg(DISTINCT owner, ' ') FROM leaf.alloc";
    assert_eq!(client.text(owners), "app");
    // Whose it is to be is not clear where tables of several owners draw from it.
    client.run(
        "CREATE ROLE mallory; CREATE SCHEMA aaa AUTHORIZATION mallory; SET ROLE mallory;
         CREATE TABLE aaa.t (id bigint DEFAULT leaf_segment_next('parcels')); RESET ROLE;
         CREATE TABLE app.parcels (id bigint DEFAULT leaf_segment_next('parcels'))",
    );
    let parcels = "SELECT count(*) FROM leaf_tag_align('parcels', create_missing => true) WHERE ignored ~ 'several owners'";
    assert_eq!(client.number(parcels), 2);
    client.run("DROP TABLE aaa.t, app.parcels");
    // A role that may not create tags is told.
    client.run(
        "CREATE ROLE poor LOGIN; CREATE SCHEMA poor AUTHORIZATION poor;
         CREATE TABLE poor.t (id bigint DEFAULT leaf_segment_next('poor')); ALTER TABLE poor.t OWNER TO poor",
    );
    let mut poor = server.connect_as("poor", "postgres");
    poor.fails("SELECT leaf_tag_align(create_missing => true)", "42501");
    client.run("DROP TABLE poor.t");
    // It makes nothing twice.
    app.run("SELECT leaf_tag_align(create_missing => true)");
    assert_eq!(app.next("orders").expect("an id"), 902);
}

#[test]
fn tag_that_was_moved_is_behind_no_later_column() {
    let (_server, mut client) = Server::with_orders(1000);
    client.next("orders").expect("an id");
    client.run(
        "CREATE TABLE t1 (id bigint DEFAULT leaf_segment_next('orders'));
         CREATE TABLE t2 (LIKE t1 INCLUDING DEFAULTS);
         CREATE TABLE t3 (LIKE t1 INCLUDING DEFAULTS);
         INSERT INTO t1 VALUES (2000);
         INSERT INTO t2 VALUES (1);
         INSERT INTO t3 VALUES (1500)",
    );
    let aligned = "SELECT string_agg(concat_ws(' ', used_in, \"position\", moved), ', ')
                     FROM leaf_tag_align()";
    assert_eq!(
        client.text(aligned),
        "public.t1.id 2001 t, public.t2.id 2001 f, public.t3.id 2001 f"
    );
    assert_eq!(client.next("orders").expect("an id"), 2001);
}

#[test]
fn alignment_reads_names_of_any_encoding() {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run("CREATE DATABASE latin ENCODING LATIN1 LOCALE 'C' TEMPLATE template0");
    let mut client = server.connect_as("postgres", "latin");
    client.run(
        "CREATE EXTENSION leaf;
         SELECT leaf_tag_create('größe');
         CREATE TABLE \"größe\" (\"maß\" bigint DEFAULT leaf_segment_next('größe'));
         INSERT INTO \"größe\" VALUES (500)",
    );
    let aligned = "SELECT concat_ws(' ', biz_tag, used_in, highest, moved) FROM leaf_tag_align()";
    assert_eq!(client.text(aligned), "größe public.\"größe\".\"maß\" 500 t");
}

#[test]
fn default_that_is_nested_too_deeply_does_not_stop_the_alignment_of_others() {
    let (_server, mut client) = Server::with_orders(1000);
    let (open, close) = ("abs(".repeat(3_000), ")".repeat(3_000));
    client.run(&format!(
        "CREATE TABLE deep (id bigint DEFAULT {open}leaf_segment_next('orders'){close});
         CREATE TABLE flat (id bigint DEFAULT leaf_segment_next('orders'));
         INSERT INTO flat VALUES (5000)"
    ));
    let moved = "SELECT highest FROM leaf_tag_align() WHERE moved";
    assert_eq!(client.number(moved), 5000);
}

#[test]
fn values_that_no_tag_grants_hide_no_others_and_move_nothing() {
    let (_server, mut client) = Server::with_orders(1000);
    client.run(
        "SELECT leaf_tag_create('small', max_value => 100000);
         CREATE TABLE numbers (id numeric DEFAULT leaf_segment_next('orders'));
         INSERT INTO numbers VALUES ('NaN'), ('Infinity'), ('-Infinity'), (4999.5), (1e30), (NULL);
         CREATE TABLE ends (id bigint DEFAULT leaf_segment_next('orders'));
         INSERT INTO ends VALUES (9223372036854775807), (6000), (NULL);
         CREATE TABLE up (id bigint PRIMARY KEY DEFAULT leaf_segment_next('small'));
         CREATE TABLE down (id integer DEFAULT leaf_segment_next('small'));
         CREATE INDEX ON down (id DESC NULLS FIRST);
         INSERT INTO up VALUES (9223372036854775807), (100001), (7000), (1);
         INSERT INTO down VALUES (2147483647), (90000), (1), (NULL);
         SET enable_seqscan = off",
    );
    let aligned =
        "SELECT string_agg(concat_ws(' ', used_in, highest, moved, ignored IS NOT NULL), ', ')
                     FROM leaf_tag_align()";
    assert_eq!(
        client.text(aligned),
        "public.ends.id 6000 t t, public.numbers.id 5000 f f, \
         public.down.id 90000 t t, public.up.id 7000 f t"
    );
}

#[test]
fn column_that_changes_while_it_is_waited_for_is_read_as_it_is_then() {
    let (server, mut client) = Server::with_orders(1000);
    client.run(
        "CREATE TABLE numbers (id numeric DEFAULT leaf_segment_next('orders'));
         INSERT INTO numbers SELECT generate_series(1, 4096)",
    );
    for (change, found) in [
        ("ALTER TABLE numbers ALTER id TYPE bigint", "4096 t"),
        ("ALTER TABLE numbers DROP COLUMN id", "f all"),
        ("DROP TABLE numbers", "f all"),
    ] {
        let mut owner = server.connect();
        owner.run(&format!("BEGIN; {change}"));
        std::thread::scope(|scope| {
            let aligning = scope.spawn(|| {
                let mut client = server.connect();
                client.text("SELECT string_agg(concat_ws(' ', highest, moved, split_part(ignored, ':', 1)), ', ') FROM leaf_tag_align()")
            });
            wait_until("the table is waited for", || {
                client.number("SELECT count(*) FROM pg_locks WHERE NOT granted") == 1
            });
            owner.run("COMMIT");
            assert_eq!(aligning.join().expect("an answer"), found, "{change}");
        });
        if change.contains("DROP COLUMN") {
            client.run(
                "ALTER TABLE numbers ADD COLUMN id bigint DEFAULT leaf_segment_next('orders')",
            );
        }
    }
}
