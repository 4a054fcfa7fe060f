//! Ids in statements that write: wherever SQL calls a function for a row, the row
//! gets an id of its own.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Server, refused};
use std::io::Write;
use std::thread;

#[test]
fn expressions_that_must_not_change_take_no_ids() {
    let (_server, mut client) = Server::with_orders(10);
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
            client.fails(&statement, "42P17");
        }
    }
    assert_eq!(client.next("orders").expect("nothing was drawn"), 1);
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
    let (_server, mut client) = Server::with_orders(10);
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
    let (_server, mut client) = Server::with_orders(10);
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
    let (_server, mut client) = Server::with_orders(10);
    client.run(
        "CREATE TABLE many AS SELECT generate_series(1, 20000) AS n;
         ALTER TABLE many SET (parallel_workers = 2); ANALYZE many;
         SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0;
         SET min_parallel_table_scan_size = 0",
    );
    let made =
        "AS SELECT n, leaf_segment_next('orders') AS id, leaf_snowflake_next() AS flake FROM many";
    let plan = client.plan(&format!("CREATE TABLE made {made}"));
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
    let (_server, mut client) = Server::with_orders(10);
    client.run(
        "CREATE TABLE t (id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'), name text UNIQUE)",
    );
    let insert = "INSERT INTO t (name) SELECT 'n' || i % 10 FROM generate_series(1, 30) AS i
                  ON CONFLICT (name) DO";
    let mut ledger = Ledger::new();
    ledger.add(client.numbers(&format!("{insert} NOTHING RETURNING id")));
    assert_eq!((ledger.len(), ledger.highest()), (10, 10));
    // Every row drew, and those that met a conflict left a gap.
    assert_eq!(client.next("orders").expect("an id"), 31);
    client.run(
        "INSERT INTO t (name) VALUES ('n1') ON CONFLICT (name) DO UPDATE SET id = excluded.id",
    );
    assert_eq!(client.number("SELECT id FROM t WHERE name = 'n1'"), 32);
    client.fails("INSERT INTO t (name) VALUES ('n2')", "23505");
    assert_eq!(client.next("orders").expect("an id"), 34);
}

#[test]
fn check_constraint_that_draws_costs_an_id_per_row() {
    let (_server, mut client) = Server::with_orders(10);
    client.run(
        "CREATE TABLE t (n bigint CHECK (n < leaf_segment_next('orders') + 1000000));
         INSERT INTO t SELECT generate_series(1, 50)",
    );
    client.fails("INSERT INTO t VALUES (2000000)", "23514");
    assert_eq!(client.next("orders").expect("an id"), 52);
}

#[test]
fn rows_of_partitions_draw_once_and_keep_their_ids() {
    let (_server, mut client) = Server::with_orders(10);
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
    let (_server, mut client) = Server::with_orders(10);
    client.run(
        "CREATE TABLE t (id bigint) PARTITION BY RANGE (id);
         CREATE TABLE p PARTITION OF t
            FOR VALUES FROM (leaf_segment_next('orders')) TO (leaf_segment_next('orders') + 100);
         INSERT INTO t SELECT leaf_segment_next('orders') FROM generate_series(1, 99)",
    );
    client.fails("INSERT INTO t SELECT leaf_segment_next('orders')", "23514");
}

#[test]
fn tag_of_each_row_is_the_one_that_is_drawn_from() {
    let (_server, mut client) = Server::with_orders(10);
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
        assert_eq!(client.numbers(&of_it), expected);
    }
    let unknown = client.batch_execute("INSERT INTO t (tenant) VALUES (3), (4)");
    refused(unknown, "42704");
    client.run("INSERT INTO t (tenant) VALUES (3)");
    assert_eq!(client.number("SELECT max(id) FROM t"), 3_121);
}

#[test]
fn serializable_transactions_that_draw_do_not_fail_each_other() {
    let (server, mut client) = Server::with_orders(10);
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
