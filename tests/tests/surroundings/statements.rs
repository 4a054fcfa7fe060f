//! Ids in every kind of statement: wherever SQL calls a function for a row, the
//! row gets an id of its own.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Server, refused};
use std::io::{Read, Write};
use std::thread;

/// A server with the tag `orders`, whose segments are so short that every
/// statement needs several.
fn server() -> (Server, Client) {
    let server = Server::start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders', step => 10)");
    (server, client)
}

/// The ids that a query returns.
fn ids(client: &mut Client, query: &str) -> Vec<i64> {
    let rows = client.query(query, &[]);
    let rows = rows.unwrap_or_else(|e| panic!("{query}: {e:?}"));
    rows.iter().map(|row| row.get(0)).collect()
}

/// The code of an error that PostgreSQL itself raises.
#[track_caller]
fn code(client: &mut Client, statement: &str) -> String {
    let error = client.batch_execute(statement).expect_err(statement);
    error.code().expect("a code").code().to_owned()
}

#[test]
fn expressions_that_must_not_change_take_no_ids() {
    let (_server, mut client) = server();
    client.run("CREATE TABLE t (i bigint, tag text)");
    for id in [
        "leaf_segment_next(tag)",
        "leaf_segment_next('orders')",
        "leaf_snowflake_next()",
        "leaf_snowflake_floor(to_timestamp(i))",
    ] {
        for statement in [
            format!("CREATE INDEX ON t (({id}))"),
            format!("CREATE INDEX ON t (i) WHERE {id} > 5"),
            format!("ALTER TABLE t ADD COLUMN g bigint GENERATED ALWAYS AS ({id}) STORED"),
            format!("CREATE TABLE p (i bigint, tag text) PARTITION BY RANGE (({id}))"),
        ] {
            assert_eq!(code(&mut client, &statement), "42P17", "{statement}");
        }
    }
    assert_eq!(client.next("orders").expect("nothing was drawn"), 1);
}

#[test]
fn explain_draws_nothing_and_explain_analyze_draws() {
    let (_server, mut client) = server();
    client.run("CREATE TABLE rows AS SELECT generate_series(1, 1000) AS n; ANALYZE rows");
    assert_eq!(client.next("orders").expect("an id"), 1);
    let calls = [
        "SELECT leaf_segment_next('orders')",
        "SELECT * FROM leaf_segment_batch('orders', 5)",
        "SELECT * FROM leaf_segment_reserve('orders', 5)",
        "SELECT count(*) FROM rows WHERE n = leaf_segment_next('orders')",
        "INSERT INTO rows SELECT leaf_segment_next('orders')",
        "SELECT leaf_tag_alter('orders', advance_to => 1000000)",
        "SELECT leaf_tag_drop('orders')",
    ];
    for call in calls {
        client.run(&format!("EXPLAIN (VERBOSE) {call}"));
    }
    assert_eq!(client.next("orders").expect("an id"), 2);
    client.run("EXPLAIN (ANALYZE) SELECT leaf_segment_next('orders') FROM rows LIMIT 7");
    assert_eq!(client.next("orders").expect("an id"), 10);
}

/// A table whose rows have an id of either kind by default.
const TABLE: &str = "(n int, id bigint DEFAULT leaf_segment_next('orders'),
                      flake bigint DEFAULT leaf_snowflake_next())";

/// Panics unless each row of a table has ids that no other has, both larger than
/// those of the rows with a smaller `n`.
#[track_caller]
fn assert_own_ids(client: &mut Client, table: &str, rows: i64) {
    let row = client.query_one(
        &format!(
            "SELECT count(*), count(DISTINCT id), count(DISTINCT flake),
                    count(*) FILTER (WHERE id <= before OR flake <= flake_before)
               FROM (SELECT id, flake, lag(id) OVER (ORDER BY n) AS before,
                            lag(flake) OVER (ORDER BY n) AS flake_before
                       FROM {table}) AS s"
        ),
        &[],
    );
    let row = row.unwrap_or_else(|e| panic!("{table}: {e:?}"));
    let counts: Vec<i64> = (0..4).map(|column| row.get(column)).collect();
    assert_eq!(
        counts,
        [rows, rows, rows, 0],
        "rows, ids, snowflakes, disorder"
    );
}

#[test]
fn every_way_to_insert_gives_each_row_ids_of_its_own() {
    let (_server, mut client) = server();
    client.run(&format!("CREATE TABLE t {TABLE}"));
    client.run(
        "INSERT INTO t (n) VALUES (1), (2), (3);
         INSERT INTO t (n) SELECT generate_series(4, 60);
         WITH more AS (INSERT INTO t (n) VALUES (61), (62) RETURNING n) SELECT count(*) FROM more;
         CREATE VIEW v AS SELECT n, id, flake FROM t;
         INSERT INTO v (n) VALUES (63), (64);
         PREPARE one (int) AS INSERT INTO t (n) VALUES ($1);
         EXECUTE one (65); EXECUTE one (66);
         INSERT INTO t (n, id, flake) VALUES (67, DEFAULT, DEFAULT)",
    );
    let mut copy = client.copy_in("COPY t (n) FROM STDIN").expect("COPY");
    for n in 68..=2_000 {
        writeln!(copy, "{n}").expect("a row");
    }
    copy.finish().expect("the end");
    assert_own_ids(&mut client, "t", 2_000);
    // These in no order of their own.
    client.run(
        "MERGE INTO t USING generate_series(1991, 2020) AS s (n) ON t.n = s.n
          WHEN MATCHED THEN UPDATE SET id = DEFAULT, flake = leaf_snowflake_next()
          WHEN NOT MATCHED THEN INSERT (n) VALUES (s.n)",
    );
    let distinct = "SELECT least(count(DISTINCT id), count(DISTINCT flake)) FROM t";
    assert_eq!(client.number(distinct), 2_020);
    assert_eq!(client.number("SELECT max(id) FROM t"), 2_030);
    client.run("UPDATE t SET id = DEFAULT, flake = leaf_snowflake_next()");
    assert_eq!(client.number(distinct), 2_020);
    assert_eq!(client.number("SELECT min(id) FROM t"), 2_031);
}

#[test]
fn column_added_to_a_table_gives_each_row_ids_of_its_own() {
    let (_server, mut client) = server();
    client.run(
        "CREATE TABLE t AS SELECT generate_series(1, 500) AS n;
         ALTER TABLE t ADD COLUMN id bigint NOT NULL DEFAULT leaf_segment_next('orders'),
                       ADD COLUMN flake bigint NOT NULL DEFAULT leaf_snowflake_next()",
    );
    assert_own_ids(&mut client, "t", 500);
    client.run("INSERT INTO t SELECT 501");
    assert_own_ids(&mut client, "t", 501);
    client.run(
        "CREATE DOMAIN order_id AS bigint DEFAULT leaf_segment_next('orders') CHECK (value > 0);
         CREATE DOMAIN event_id AS bigint DEFAULT leaf_snowflake_next();
         CREATE TABLE u (n int, id order_id, flake event_id);
         INSERT INTO u SELECT generate_series(1, 100);
         ALTER TABLE u ALTER COLUMN id TYPE bigint USING leaf_segment_next('orders'),
                       ALTER COLUMN flake TYPE bigint USING leaf_snowflake_next()",
    );
    assert_own_ids(&mut client, "u", 100);
    let table = "CREATE TABLE made AS SELECT n, leaf_segment_next('orders') AS id,
                                             leaf_snowflake_next() AS flake";
    client.run(&format!("{table} FROM generate_series(1, 500) AS n"));
    assert_own_ids(&mut client, "made", 500);
}

#[test]
fn table_made_by_a_parallel_plan_gives_each_row_ids_of_its_own() {
    let (_server, mut client) = server();
    client.run(
        "CREATE TABLE many AS SELECT generate_series(1, 20000) AS n;
         ALTER TABLE many SET (parallel_workers = 2); ANALYZE many;
         SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
         SET min_parallel_table_scan_size = 0",
    );
    let made =
        "AS SELECT n, leaf_segment_next('orders') AS id, leaf_snowflake_next() AS flake FROM many";
    let plan = client.query(&format!("EXPLAIN CREATE TABLE made {made}"), &[]);
    let plan: String = plan
        .expect("a plan")
        .iter()
        .map(|row| row.get::<_, String>(0))
        .collect();
    assert!(plan.contains("Gather"), "{plan}");
    client.run(&format!(
        "CREATE TABLE made {made}; CREATE MATERIALIZED VIEW kept {made}"
    ));
    let distinct = "SELECT least(count(DISTINCT id), count(DISTINCT flake))
                      FROM (TABLE made UNION ALL TABLE kept) AS t";
    assert_eq!(client.number(distinct), 40_000);
}

#[test]
fn conflicting_insert_leaves_a_gap_and_repeats_nothing() {
    let (_server, mut client) = server();
    client.run(
        "CREATE TABLE t (id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'), name text UNIQUE)",
    );
    let insert = "INSERT INTO t (name) SELECT 'n' || i % 10 FROM generate_series(1, 30) AS i
                  ON CONFLICT (name) DO";
    let mut ledger = Ledger::new();
    ledger.add(ids(&mut client, &format!("{insert} NOTHING RETURNING id")));
    assert_eq!((ledger.len(), ledger.highest()), (10, 10));
    // Every row drew, and those that met a conflict left a gap.
    assert_eq!(client.next("orders").expect("an id"), 31);
    client.run(
        "INSERT INTO t (name) VALUES ('n1') ON CONFLICT (name) DO UPDATE SET id = excluded.id",
    );
    assert_eq!(client.number("SELECT id FROM t WHERE name = 'n1'"), 32);
    assert_eq!(
        code(&mut client, "INSERT INTO t (name) VALUES ('n2')"),
        "23505"
    );
    assert_eq!(client.next("orders").expect("an id"), 34);
}

#[test]
fn check_constraint_that_draws_costs_an_id_per_row() {
    let (_server, mut client) = server();
    client.run(
        "CREATE TABLE t (n bigint CHECK (n < leaf_segment_next('orders') + 1000000));
         INSERT INTO t SELECT generate_series(1, 50)",
    );
    assert_eq!(code(&mut client, "INSERT INTO t VALUES (2000000)"), "23514");
    assert_eq!(client.next("orders").expect("an id"), 52);
}

#[test]
fn rows_of_partitions_draw_once_and_keep_their_ids() {
    let (_server, mut client) = server();
    client.run(&format!(
        "CREATE TABLE t {TABLE} PARTITION BY RANGE (n);
         CREATE TABLE low PARTITION OF t FOR VALUES FROM (0) TO (100);
         CREATE TABLE high PARTITION OF t FOR VALUES FROM (100) TO (200);
         INSERT INTO t (n) SELECT generate_series(1, 199)"
    ));
    assert_own_ids(&mut client, "t", 199);
    assert_eq!(client.next("orders").expect("an id"), 200);
    // A row that moves takes its ids along.
    client.run("CREATE TABLE before AS SELECT * FROM t; UPDATE t SET n = n + 90 WHERE n < 100");
    let changed = "SELECT count(*) FROM t FULL JOIN before USING (id, flake)
                    WHERE t.n IS NULL OR before.n IS NULL";
    assert_eq!(client.number(changed), 0);
    assert!(client.number("SELECT count(*) FROM high") > 100);
    assert_eq!(client.next("orders").expect("an id"), 201);
    // What counts is the default of the table that the statement names.
    client.run(
        "CREATE TABLE late (n int, id bigint, flake bigint);
         SELECT leaf_tag_create('late', start => 1000000);
         ALTER TABLE late ALTER COLUMN id SET DEFAULT leaf_segment_next('late');
         ALTER TABLE t ATTACH PARTITION late FOR VALUES FROM (300) TO (400);
         INSERT INTO t (n) VALUES (301); INSERT INTO late (n) VALUES (302)",
    );
    assert_eq!(client.number("SELECT id FROM late WHERE n = 301"), 202);
    assert_eq!(
        client.number("SELECT id FROM late WHERE n = 302"),
        1_000_000
    );
}

/// The bounds of a partition are computed once, when it is made.
#[test]
fn bound_of_a_partition_is_an_id_that_stays() {
    let (_server, mut client) = server();
    client.run(
        "CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
         CREATE TABLE p PARTITION OF t
            FOR VALUES FROM (leaf_segment_next('orders')) TO (leaf_segment_next('orders') + 100);
         INSERT INTO t SELECT leaf_segment_next('orders') FROM generate_series(1, 99)",
    );
    assert_eq!(
        code(
            &mut client,
            "INSERT INTO t SELECT leaf_segment_next('orders')"
        ),
        "23514"
    );
}

#[test]
fn tag_of_each_row_is_the_one_that_is_drawn_from() {
    let (_server, mut client) = server();
    client.run(
        "SELECT leaf_tag_create('tenant' || n, step => 10, start => n * 1000)
           FROM generate_series(1, 3) AS n",
    );
    client.run(
        "CREATE TABLE t (id bigint, tenant int);
         CREATE FUNCTION number() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN new.id := leaf_segment_next('tenant' || new.tenant); RETURN new; END $$;
         CREATE FUNCTION loop() RETURNS void LANGUAGE plpgsql AS $$
         BEGIN
             FOR i IN 1..90 LOOP
                 INSERT INTO t VALUES (leaf_segment_next('tenant' || i % 3 + 1), i % 3 + 1);
             END LOOP;
         END $$;
         CREATE FUNCTION collect() RETURNS SETOF t LANGUAGE plpgsql AS $$
         DECLARE drawn t;
         BEGIN
             FOR i IN 1..90 LOOP
                 drawn.tenant := i % 3 + 1;
                 drawn.id := leaf_segment_next('tenant' || drawn.tenant);
                 RETURN NEXT drawn;
             END LOOP;
         END $$;
         SELECT loop();
         INSERT INTO t SELECT * FROM collect();
         INSERT INTO t SELECT leaf_segment_next('tenant' || i % 3 + 1), i % 3 + 1
                         FROM generate_series(1, 90) AS i;
         CREATE TRIGGER number BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION number();
         INSERT INTO t (tenant) SELECT i % 3 + 1 FROM generate_series(1, 90) AS i",
    );
    for tenant in 1..=3_i64 {
        let of_it = format!("SELECT id FROM t WHERE tenant = {tenant} ORDER BY id");
        let first = tenant * 1_000;
        let expected: Vec<i64> = (first..first + 120).collect();
        assert_eq!(ids(&mut client, &of_it), expected);
    }
    let unknown = client.batch_execute("INSERT INTO t (tenant) VALUES (3), (4)");
    refused(unknown, "42704");
    client.run("INSERT INTO t (tenant) VALUES (3)");
    assert_eq!(client.number("SELECT max(id) FROM t"), 3_121);
}

#[test]
fn queries_draw_as_often_as_they_compute_a_row() {
    let (_server, mut client) = server();
    let mut next = 1;
    for (query, expected) in [
        ("SELECT leaf_segment_next('orders') UNION SELECT leaf_segment_next('orders')", 2),
        ("SELECT DISTINCT leaf_segment_next('orders') FROM generate_series(1, 20)", 20),
        ("SELECT leaf_segment_next('orders') FROM generate_series(1, 20) LIMIT 4", 4),
        ("SELECT n::bigint FROM generate_series(1, 3) AS n WHERE leaf_segment_next('orders') > 0", 3),
        ("WITH w AS (SELECT leaf_segment_next('orders') AS id) SELECT a.id FROM w AS a JOIN w AS b USING (id)", 1),
        ("SELECT a.id FROM (SELECT leaf_segment_next('orders') AS id FROM generate_series(1, 5)) AS a WHERE a.id = a.id", 5),
        ("SELECT b FROM generate_series(1, 4) AS n, LATERAL leaf_segment_batch('orders', n) AS b", 10),
        ("WITH RECURSIVE r AS (SELECT leaf_segment_next('orders') AS id, 1 AS n
                        UNION ALL SELECT leaf_segment_next('orders'), n + 1 FROM r WHERE n < 15) SELECT id FROM r", 15),
        ("SELECT id FROM leaf_segment_batch('orders', 6) WITH ORDINALITY AS b (id, n) WHERE n <= 6", 6),
        ("SELECT CASE WHEN n > 5 THEN leaf_segment_next('orders') END FROM generate_series(6, 9) AS n", 4),
    ] {
        let drawn = ids(&mut client, query);
        assert_eq!(drawn.len() as i64, expected, "{query}");
        next += expected;
        assert_eq!(client.next("orders").expect("an id"), next, "{query}");
        next += 1;
    }
    // Rows are sorted first and numbered then, unless they are sorted by their ids.
    let order =
        "SELECT leaf_segment_next('orders'), n FROM generate_series(1, 50) AS n ORDER BY n DESC";
    let drawn = ids(&mut client, order);
    assert!(drawn.is_sorted(), "{drawn:?}");
    assert_eq!(drawn[0], next);
}

#[test]
fn views_draw_anew_and_materialized_views_keep_what_they_drew() {
    let (_server, mut client) = server();
    client.run(
        "CREATE VIEW v AS SELECT leaf_segment_next('orders') AS id FROM generate_series(1, 5);
         CREATE MATERIALIZED VIEW m AS SELECT n, leaf_segment_next('orders') AS id
                                         FROM generate_series(1, 5) AS n;
         CREATE UNIQUE INDEX ON m (n)",
    );
    let mut ledger = Ledger::new();
    let kept = ids(&mut client, "SELECT id FROM m");
    assert_eq!(ids(&mut client, "SELECT id FROM m"), kept);
    ledger.add(kept);
    for refresh in ["", "CONCURRENTLY"] {
        ledger.add(ids(&mut client, "SELECT id FROM v"));
        client.run(&format!("REFRESH MATERIALIZED VIEW {refresh} m"));
        ledger.add(ids(&mut client, "SELECT id FROM m"));
    }
    assert_eq!((ledger.len(), ledger.highest()), (25, 25));
}

#[test]
fn copy_out_draws_what_it_writes() {
    let (_server, mut client) = server();
    let mut ledger = Ledger::new();
    for query in [
        "SELECT leaf_segment_next('orders') FROM generate_series(1, 1000)",
        "SELECT leaf_segment_batch('orders', 1000)",
    ] {
        let mut text = String::new();
        client
            .copy_out(&format!("COPY ({query}) TO STDOUT"))
            .expect("COPY")
            .read_to_string(&mut text)
            .expect("text");
        ledger.add(text.lines().map(|line| line.parse().expect("an id")));
    }
    assert_eq!((ledger.len(), ledger.highest()), (2_000, 2_000));
}

/// As volatile functions are in any query: what a cursor computes again is drawn
/// again, and what it has stored stays.
#[test]
fn cursors_that_go_back_repeat_no_id_but_those_they_keep() {
    let (_server, mut client) = server();
    let declare = "SELECT leaf_segment_next('orders') FROM generate_series(1, 50)";
    let mut ledger = Ledger::new();
    client.run(&format!("BEGIN; DECLARE c SCROLL CURSOR FOR {declare}"));
    for fetch in [
        "FETCH 20 FROM c",
        "FETCH BACKWARD 10 FROM c",
        "FETCH 30 FROM c",
    ] {
        ledger.add(ids(&mut client, fetch));
    }
    client.run("COMMIT");

    client.run(&format!(
        "BEGIN; DECLARE c SCROLL CURSOR WITH HOLD FOR {declare}; COMMIT"
    ));
    let kept = ids(&mut client, "FETCH 20 FROM c");
    ledger.add(kept.clone());
    let back = ids(&mut client, "FETCH BACKWARD 10 FROM c");
    assert!(
        back.iter().rev().eq(&kept[9..19]),
        "{back:?} after {kept:?}"
    );
    // The others of the cursor were drawn when it was stored.
    assert_eq!(client.next("orders").expect("an id"), kept[0] + 50);
}

/// The last statements of a transaction run while it commits.
#[test]
fn what_draws_at_commit_repeats_no_id_of_a_new_tag() {
    let (server, mut client) = server();
    client.run(
        "CREATE TABLE t (id bigint, n int);
         CREATE FUNCTION late() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO t VALUES (leaf_segment_next('new'), -1); RETURN NULL; END $$;
         CREATE CONSTRAINT TRIGGER late AFTER INSERT ON t DEFERRABLE INITIALLY DEFERRED
            FOR EACH ROW WHEN (new.n > 0) EXECUTE FUNCTION late();
         BEGIN; SELECT leaf_tag_create('new', step => 3);
         INSERT INTO t SELECT leaf_segment_next('new'), n FROM generate_series(1, 20) AS n;
         DECLARE c CURSOR WITH HOLD FOR SELECT leaf_segment_next('new') FROM generate_series(1, 20);
         COMMIT",
    );
    let mut ledger = Ledger::new();
    ledger.add(ids(&mut client, "SELECT id FROM t"));
    ledger.add(ids(&mut client, "FETCH ALL FROM c"));
    assert_eq!(ledger.len(), 60);
    ledger.add([server.connect().next("new").expect("an id")]);
    ledger.add(client.rows("new", 50).expect("ids"));
}

#[test]
fn loops_with_exception_blocks_repeat_no_id() {
    let (_server, mut client) = server();
    // Every second id is drawn in a subtransaction that fails.
    client.run(
        "CREATE FUNCTION draw(tag text, count int) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
         DECLARE id bigint;
         BEGIN
             FOR i IN 1..count LOOP
                 BEGIN
                     id := leaf_segment_next(tag);
                     RETURN NEXT id;
                     IF i % 2 = 0 THEN RAISE EXCEPTION 'never mind'; END IF;
                     IF i % 97 = 0 THEN PERFORM leaf_segment_next('nosuch'); END IF;
                 EXCEPTION WHEN raise_exception OR undefined_object THEN NULL;
                 END;
             END LOOP;
         END $$;
         CREATE PROCEDURE draw_and_commit(count int) LANGUAGE plpgsql AS $$
         BEGIN
             FOR i IN 1..count LOOP
                 INSERT INTO drawn VALUES (leaf_segment_next('orders'));
                 IF i % 3 = 0 THEN ROLLBACK; ELSE COMMIT; END IF;
             END LOOP;
         END $$;
         CREATE TABLE drawn (id bigint)",
    );
    let mut ledger = Ledger::new();
    let draw = |client: &mut Client, tag| ids(client, &format!("SELECT draw('{tag}', 2000)"));
    let drawn = draw(&mut client, "orders");
    assert!(drawn.is_sorted());
    ledger.add(drawn);
    assert_eq!((ledger.len(), ledger.highest()), (2_000, 2_000));
    client.run("CALL draw_and_commit(99)");
    ledger.add(ids(&mut client, "SELECT id FROM drawn"));
    assert_eq!((ledger.len(), ledger.highest()), (2_066, 2_098));

    // The same with a tag that the transaction has created.
    client.run("BEGIN; SELECT leaf_tag_create('new', step => 7)");
    let mut ledger = Ledger::new();
    ledger.add(draw(&mut client, "new"));
    ledger.add(draw(&mut client, "new"));
    client.run("COMMIT");
    ledger.add(draw(&mut client, "new"));
    assert_eq!(ledger.len(), 6_000);
}

#[test]
fn serializable_transactions_that_draw_do_not_fail_each_other() {
    let (server, mut client) = server();
    client.run("CREATE TABLE t (session int, id bigint DEFAULT leaf_segment_next('orders'))");
    thread::scope(|scope| {
        for session in 0..4 {
            let mut client = server.connect();
            scope.spawn(move || {
                client.run("SET default_transaction_isolation = serializable");
                for _ in 0..50 {
                    client.run(&format!("INSERT INTO t VALUES ({session})"));
                    client.reserve("orders", 20).expect("a block");
                }
            });
        }
    });
    assert_eq!(client.number("SELECT count(DISTINCT id) FROM t"), 200);
}
