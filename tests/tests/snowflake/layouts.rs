//! What an id says of itself: each layout keeps time, worker and sequence where it
//! promises, up to the end of its time field, and is never changed silently.

use leaf_tests::postgres::Client;
use leaf_tests::postgres::error::DbError;
use leaf_tests::{Draw, Fields, Mode, Order, Server, Snowflake, refused, wait_until};
use std::thread;

/// Milliseconds since 1970, of the epochs that the layouts have.
const LEAF: i64 = 1_288_834_974_657;
const Y2014: i64 = 1_409_529_600_000;
const Y2024: i64 = 1_704_067_200_000;

/// A layout as a server uses it, and how its ids are taken apart by hand.
struct Layout {
    name: &'static str,
    /// The setting; empty for the layout's own.
    epoch: &'static str,
    /// A worker id of it, and the one behind its last.
    workers: (i32, i32),
    /// Milliseconds since 1970, worker and sequence.
    parts: fn(i64) -> (i64, i64, i64),
    /// Milliseconds.
    tick: i64,
}

/// Bits from the right: those of the sequence, those of the worker, the time.
fn bits(id: i64, worker: u32, sequence: u32) -> (i64, i64, i64) {
    let of = |bits: u32, value: i64| value & ((1 << bits) - 1);
    let time = id >> (worker + sequence);
    (time, of(worker, id >> sequence), of(sequence, id))
}

const LAYOUTS: &[Layout] = &[
    Layout {
        name: "leaf",
        epoch: "",
        workers: (1_023, 1_024),
        parts: |id| {
            let (time, worker, sequence) = bits(id, 10, 12);
            (LEAF + time, worker, sequence)
        },
        tick: 1,
    },
    Layout {
        name: "uid",
        epoch: "",
        workers: ((1 << 22) - 1, 1 << 22),
        parts: |id| {
            let (time, worker, sequence) = bits(id, 22, 13);
            (Y2024 + time * 1_000, worker, sequence)
        },
        tick: 1_000,
    },
    Layout {
        name: "sonyflake",
        epoch: "",
        workers: (65_535, 65_536),
        parts: |id| {
            let (time, worker, sequence) = bits(id, 16, 8);
            (Y2014 + time * 10, worker, sequence)
        },
        tick: 10,
    },
    Layout {
        name: "js53",
        epoch: "",
        workers: (31, 32),
        parts: |id| {
            assert!(id < 1 << 53, "JavaScript's numbers cannot hold {id}");
            let (time, worker, sequence) = bits(id, 5, 7);
            (Y2024 + time, worker, sequence)
        },
        tick: 1,
    },
    Layout {
        name: "decimal",
        epoch: "",
        workers: (99, 100),
        parts: |id| {
            let (seconds, rest) = (id / 1_000_000_000, id % 1_000_000_000);
            (seconds * 1_000, rest / 10_000_000, rest % 10_000_000)
        },
        tick: 1_000,
    },
    Layout {
        name: "custom:40,8,15",
        epoch: "2024-01-01T00:00:00Z",
        workers: (255, 256),
        parts: |id| {
            let (time, worker, sequence) = bits(id, 8, 15);
            (Y2024 + time, worker, sequence)
        },
        tick: 1,
    },
    Layout {
        name: "custom:36,6,9,10ms",
        epoch: "2024-01-01T00:00:00Z",
        workers: (63, 64),
        parts: |id| {
            let (time, worker, sequence) = bits(id, 6, 9);
            (Y2024 + time * 10, worker, sequence)
        },
        tick: 10,
    },
];

fn ids_are_true_to(layout: &Layout) {
    let server = Server::options()
        .set("leaf.snowflake_layout", layout.name)
        .set("leaf.snowflake_epoch", layout.epoch)
        .set("leaf.worker_id", &layout.workers.0.to_string())
        .set("leaf.ceiling_ahead", "500ms")
        .start();
    let mut client = server.connect();
    for _ in 0..20 {
        let before = client.clock();
        let mut ids = client.snowflakes(50).expect("ids");
        ids.push(client.snowflake().expect("an id"));
        let after = client.clock();
        for id in ids {
            let (created_at, worker, sequence) = (layout.parts)(id);
            assert!(
                before - layout.tick < created_at && created_at <= after,
                "{id} was drawn between {before} and {after}"
            );
            let parts = Fields {
                created_at,
                worker_id: layout.workers.0,
                sequence: sequence as i32,
            };
            assert_eq!(worker, i64::from(layout.workers.0));
            assert_eq!(client.parts(id), parts);
        }
    }
    // What decodes with the settings decodes with their values given.
    let disagreement = "
        SELECT count(*)
          FROM leaf.worker AS w, leaf_snowflake_batch(1000) AS id,
               leaf_snowflake_decode(id) AS a, leaf_snowflake_decode(id, w.layout, w.epoch) AS b
         WHERE a IS DISTINCT FROM b
            OR leaf_snowflake_floor(a.created_at)
               <> leaf_snowflake_floor(a.created_at, w.layout, w.epoch)
            OR id < leaf_snowflake_floor(a.created_at)
            OR id >= leaf_snowflake_floor(a.created_at + make_interval(secs => $1))";
    let tick = layout.tick as f64 / 1_000.0;
    let row = client.query_one(disagreement, &[&tick]).expect("a count");
    assert_eq!(row.get::<_, i64>(0), 0);

    server.reload("leaf.worker_id", &layout.workers.1.to_string());
    let mut drawn = client.snowflake();
    wait_until("the new worker id is looked at", || {
        drawn = client.snowflake();
        drawn.is_err()
    });
    refused(drawn, "22023");
}

#[test]
fn ids_of_every_layout_are_true() {
    for (name, _) in leaf_core::snowflake::Layout::NAMED {
        let known = LAYOUTS.iter().any(|layout| layout.name == *name);
        assert!(known, "{name} is not taken apart here");
    }
    thread::scope(|scope| {
        for layout in LAYOUTS {
            scope.spawn(|| ids_are_true_to(layout));
        }
    });
}

#[test]
fn floor_bounds_a_range_scan_that_uses_the_index() {
    let server = Server::start();
    let mut client = server.connect();
    client.run(
        "CREATE TABLE orders (id bigint PRIMARY KEY);
         INSERT INTO orders
         SELECT leaf_snowflake_floor(now() - make_interval(hours => n))
           FROM generate_series(1, 20000) AS n;
         ANALYZE orders",
    );
    let query = "SELECT count(*) FROM orders
                  WHERE id >= leaf_snowflake_floor(now() - interval '1 day')";
    assert_eq!(client.number(query), 23);
    let plan = client.plan(query);
    assert!(plan.contains("Index Cond"), "{plan}");
}

#[test]
fn explicit_overloads_serve_partitions_and_expression_indexes() {
    let server = Server::start();
    let mut client = server.connect();
    let given = "'leaf', '2010-11-04 01:42:54.657+00'";
    client.run(&format!(
        "CREATE TABLE orders (id bigint DEFAULT leaf_snowflake_next()) PARTITION BY RANGE (id);
         CREATE TABLE past PARTITION OF orders FOR VALUES
            FROM (0) TO (leaf_snowflake_floor('2024-01-01Z', {given}));
         CREATE TABLE present PARTITION OF orders FOR VALUES
            FROM (leaf_snowflake_floor('2024-01-01Z', {given})) TO (maxvalue);
         CREATE INDEX ON orders (((leaf_snowflake_decode(id, {given})).created_at));
         CREATE INDEX ON orders (leaf_snowflake_floor(
            (leaf_snowflake_decode(id, {given})).created_at, {given}));
         INSERT INTO orders SELECT FROM generate_series(1, 100);
         INSERT INTO orders VALUES (leaf_snowflake_floor('2023-12-31 23:59:59.999Z'));
         INSERT INTO orders VALUES (leaf_snowflake_floor('2024-01-01Z'))"
    ));
    assert_eq!(client.number("SELECT count(*) FROM past"), 1);
    assert_eq!(client.number("SELECT count(*) FROM present"), 101);
    // The others depend on settings.
    let index = "CREATE INDEX ON orders (leaf_snowflake_floor('2024-01-01Z'))";
    client.fails(index, "42P17");
}

#[test]
fn unknown_layout_is_22023() {
    let server = Server::start();
    let mut client = server.connect();
    // Too many bits, none, no such tick.
    for layout in [
        "nonsense",
        "custom:41,11,12",
        "custom:0,10,12",
        "custom:41,10,12,0ms",
    ] {
        for call in ["decode(1", "floor(now()"] {
            let query = format!("SELECT leaf_snowflake_{call}, '{layout}', '2024-01-01Z')");
            refused(client.query(&query, &[]), "22023");
        }
        let setting = format!("ALTER SYSTEM SET leaf.snowflake_layout = '{layout}'");
        client.fails(&setting, "22023");
    }
    client.snowflake().expect("nothing was changed");
}

#[test]
fn epoch_in_the_future_is_22023() {
    let server = Server::options()
        .set("leaf.snowflake_epoch", "2200-01-01T00:00:00Z")
        .start();
    let mut client = server.connect();
    refused(client.snowflake(), "22023");
    refused(client.snowflakes(5), "22023");
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 0);
    server.reload("leaf.snowflake_epoch", "2020-01-01T00:00:00Z");
    client.snowflake().expect("nothing was recorded");
}

/// Draws, then changes a setting and restarts or not.
fn mismatch(setting: &str, value: &str, restart: bool) -> (Server, Order, DbError) {
    let mut server = Server::options()
        .set("leaf.snowflake_layout", "uid")
        .set("leaf.ceiling_ahead", "500ms")
        .start();
    let order = Order::new();
    order
        .ascending(|| server.connect().snowflakes(1_000))
        .expect("ids");
    server.reload(setting, value);
    if restart {
        server.restart(Mode::Fast);
    }
    let mut client = server.connect();
    let mut drawn = client.snowflake();
    wait_until("the mismatch is noticed", || {
        drawn = client.snowflake();
        drawn.is_err() || restart
    });
    let error = refused(drawn, "55000");
    refused(client.snowflakes(5), "55000");
    (server, order, error)
}

/// All that an error says.
fn words(error: &DbError) -> String {
    format!("{} {}", error.message(), error.detail().unwrap_or_default())
}

#[test]
fn other_layout_than_the_registered_is_refused_and_both_are_named() {
    for restart in [false, true] {
        let (server, order, error) = mismatch("leaf.snowflake_layout", "sonyflake", restart);
        let words = words(&error);
        assert!(
            words.contains("uid") && words.contains("sonyflake"),
            "{error:?}"
        );
        server.reload("leaf.snowflake_layout", "uid");
        order
            .ascending(|| server.connect().snowflakes(1_000))
            .expect("ids again");
    }
}

#[test]
fn other_epoch_than_the_registered_is_refused_and_both_are_named() {
    for restart in [false, true] {
        let (server, order, error) =
            mismatch("leaf.snowflake_epoch", "2015-06-07T00:00:00Z", restart);
        let words = words(&error);
        assert!(
            words.contains("2024-01-01") && words.contains("2015-06-07"),
            "{error:?}"
        );
        server.reload("leaf.snowflake_epoch", "");
        order
            .ascending(|| server.connect().snowflakes(1_000))
            .expect("ids again");
    }
}

/// Draws until the time field of 1,024 seconds is used up, which is in a few.
fn time_field_ends(draw: impl Fn(&mut Client) -> Result<Vec<i64>, leaf_tests::postgres::Error>) {
    let server = Server::options()
        .set("leaf.snowflake_layout", "custom:10,2,10,1s")
        .start();
    let mut client = server.connect();
    let epoch = client.text(
        "SELECT to_char((clock_timestamp() - interval '1021 s') AT TIME ZONE 'UTC',
                        'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')",
    );
    server.reload("leaf.snowflake_epoch", &epoch);
    let order = Order::new();
    let mut last = 0;
    let refusal = loop {
        match order.ascending(|| draw(&mut client)) {
            Ok(ids) => {
                assert!(ids[0] >= 0, "{ids:?}");
                last = ids[ids.len() - 1];
            }
            refusal => break refusal,
        }
    };
    refused(refusal, "2200H");
    // The last second was used.
    assert_eq!(last >> 12, 1_023);
    for _ in 0..3 {
        refused(client.snowflake(), "2200H");
        refused(client.snowflakes(2), "2200H");
    }
}

#[test]
fn single_ids_end_with_the_time_field() {
    time_field_ends(|client| client.snowflake().map(|id| vec![id]));
}

#[test]
fn batches_end_with_the_time_field() {
    time_field_ends(|client| client.snowflakes(300));
}
