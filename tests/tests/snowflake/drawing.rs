//! Snowflake ids of one server whose clock is right: unique, ascending, true to
//! their time, and without a trace in the caller's transaction.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Load, Mode, Order, Server, Snowflake, failed, refused, wait_until};
use std::time::Duration;

/// What `CREATE EXTENSION` leaves to be done before the first id: nothing.
fn server() -> (Server, Client) {
    let server = Server::start();
    let client = server.connect();
    (server, client)
}

#[test]
fn first_id_needs_no_configuration() {
    let (_server, mut client) = server();
    let before = client.clock();
    let id = client.snowflake().expect("an id");
    let after = client.clock();
    let parts = client.parts(id);
    assert!(id > 0);
    assert_eq!(parts.worker_id, 0, "the lowest free worker id");
    assert!(
        before <= parts.created_at && parts.created_at <= after,
        "{parts:?} was drawn between {before} and {after}"
    );
    // The layout is that of Meituan Leaf and Twitter: 41, 10 and 12 bits.
    assert_eq!(
        id,
        (parts.created_at - 1_288_834_974_657) << 22 | i64::from(parts.sequence)
    );
}

#[test]
fn column_default_draws_for_every_role() {
    let (server, mut admin) = server();
    admin.run(
        "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT leaf_snowflake_next(), item int);
         CREATE ROLE clerk LOGIN; GRANT SELECT, INSERT ON orders TO clerk",
    );
    let mut clerk = server.connect_as("clerk", "postgres");
    clerk.run("INSERT INTO orders (item) SELECT generate_series(1, 20000)");
    admin.run("INSERT INTO orders (item) SELECT generate_series(20001, 40000)");
    let disorder = "SELECT count(*) FROM (SELECT item <> row_number() OVER (ORDER BY id) AS wrong
                      FROM orders) AS rows WHERE wrong";
    assert_eq!(admin.number(disorder), 0);
}

#[test]
fn sixteen_sessions_never_share_an_id() {
    let (server, mut client) = server();
    Load::of_snowflakes(&server.config("postgres", "postgres"), 16, |load| {
        load.goes_on(300_000);
        // However late a session is scheduled, its clock was never set back.
        assert_eq!(load.refusals(), 0);
        assert_eq!(load.lost(), 0);
    });
    assert_eq!(client.snowflake_stat::<i64>("rollbacks::bigint"), Some(0));
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 1);
}

#[test]
fn batch_larger_than_a_tick_ascends_and_is_never_ahead_of_the_clock() {
    let (_server, mut client) = server();
    let order = Order::new();
    let ids = order
        .ascending(|| client.snowflakes(100_000))
        .expect("a batch");
    let now = client.clock();
    assert_eq!(ids.len(), 100_000);
    let (first, last) = (client.parts(ids[0]), client.parts(ids[99_999]));
    // A millisecond has 4,096 ids.
    assert!(
        last.created_at >= first.created_at + 100_000 / 4_096,
        "{first:?} to {last:?}"
    );
    assert!(last.created_at <= now, "{last:?} was there at {now}");
    order
        .ascending(|| client.snowflake().map(|id| vec![id]))
        .expect("an id");
}

#[test]
fn batch_waiting_for_the_next_tick_can_be_cut_off() {
    let server = Server::options()
        .set("leaf.snowflake_layout", "custom:33,10,1,1s")
        .start();
    let mut client = server.connect();
    client.run("SET statement_timeout = '3s'");
    // It would take a week.
    failed(client.snowflakes(1_000_000), "57014");
    client.snowflake().expect("the session goes on");
}

#[test]
fn batch_draws_only_what_is_read() {
    let (_server, mut client) = server();
    let first = client.snowflake().expect("an id");
    let read = client
        .query("SELECT leaf_snowflake_batch(2147483647) LIMIT 10", &[])
        .expect("ten ids");
    assert_eq!(read.len(), 10);
    let last = client.snowflake().expect("an id");
    assert!(first < last);
    // Whoever built the whole set first would have needed nine minutes.
    let took = client.parts(last).created_at - client.parts(first).created_at;
    assert!(took < 60_000, "{took} ms");
}

#[test]
fn drawing_works_in_a_read_only_transaction() {
    let (server, mut client) = server();
    // The loader registers although the database is read-only for everybody.
    client.run(
        "ALTER DATABASE postgres SET default_transaction_read_only = on;
         ALTER DATABASE postgres SET default_transaction_isolation = serializable",
    );
    let mut client = server.connect();
    let mut ledger = Ledger::new();
    ledger.add([client.snowflake().expect("an id")]);
    client.run("BEGIN TRANSACTION ISOLATION LEVEL SERIALIZABLE READ ONLY DEFERRABLE");
    ledger.add(client.snowflakes(500).expect("ids"));
    client.run("COMMIT");
    ledger.add(client.snowflakes(500).expect("ids"));
}

#[test]
fn drawing_leaves_no_trace_in_the_callers_transaction() {
    let (_server, mut client) = server();
    client.run("BEGIN");
    client.snowflake().expect("the very first id");
    client.snowflakes(500).expect("ids");
    let traces = client.number(
        "SELECT count(*) FROM pg_locks
          WHERE pid = pg_backend_pid()
            AND (locktype IN ('tuple', 'transactionid')
                 OR relation = 'leaf.worker'::regclass AND mode <> 'AccessShareLock')",
    );
    assert_eq!(traces, 0);
    let assigned = "SELECT count(pg_current_xact_id_if_assigned()::text)";
    assert_eq!(client.number(assigned), 0);
    client.run("COMMIT");
}

#[test]
fn drawing_writes_no_wal_in_the_caller() {
    let (server, mut client) = server();
    // Whoever reads a system catalog first after the extension was created cleans its pages.
    server.connect().snowflake().expect("an id");
    for query in [
        "SELECT leaf_snowflake_next() FROM generate_series(1, 2000)",
        "SELECT * FROM leaf_snowflake_batch(20000)",
    ] {
        client.writes_no_wal(query);
    }
}

#[test]
fn extension_of_an_open_transaction_draws_at_once() {
    let server = Server::options()
        .bare()
        .clock()
        .set("leaf.clock_policy", "borrow")
        .start();
    let mut client = server.connect();
    let order = Order::new();
    for (round, end) in ["ROLLBACK", "ROLLBACK", "COMMIT"].into_iter().enumerate() {
        // Nothing but memory of what was issued keeps ids from coming twice.
        server.clock().behind(Duration::from_secs(round as u64));
        client.run("BEGIN; CREATE EXTENSION leaf");
        order.ascending(|| client.snowflakes(5_000)).expect("ids");
        order.ascending(|| client.snowflake_rows(50)).expect("ids");
        client.run(end);
    }
    order.ascending(|| client.snowflakes(5_000)).expect("ids");
    let mut other = server.connect();
    order.ascending(|| other.snowflakes(5_000)).expect("ids");
}

/// Drops the extension and creates it after `between`, with the clock set back.
fn drop_and_create(between: impl Fn(&mut Server)) {
    let mut server = Server::options()
        .clock()
        .set("leaf.clock_policy", "borrow")
        .start();
    let order = Order::new();
    for round in 1..=3 {
        let mut client = server.connect();
        order.ascending(|| client.snowflakes(5_000)).expect("ids");
        client.run("DROP EXTENSION leaf");
        drop(client);
        server.clock().behind(Duration::from_secs(round));
        between(&mut server);
        server.connect().run("CREATE EXTENSION leaf");
    }
    order
        .ascending(|| server.connect().snowflakes(5_000))
        .expect("ids");
}

#[test]
fn extension_dropped_and_created_never_repeats_an_id() {
    drop_and_create(|_| {});
}

#[test]
fn extension_dropped_and_created_around_a_crash_never_repeats_an_id() {
    drop_and_create(|server| {
        server.kill_postmaster();
        server.start_again();
    });
}

#[test]
fn standby_draws_nothing() {
    let (primary, mut client) = server();
    let id = client.snowflake().expect("an id");
    let standby = Server::options().start_standby_of(&primary);
    standby.catch_up_with(&primary);
    let mut reader = standby.connect();
    refused(reader.snowflake(), "25006");
    refused(reader.snowflakes(5), "25006");
    assert_eq!(reader.parts(id), client.parts(id));
    assert_eq!(reader.snowflake_stat::<i32>("worker_id"), None);
}

#[test]
fn session_without_preload_is_told_what_to_do() {
    let (mut server, mut client) = server();
    client.snowflake().expect("an id");
    drop(client);
    server.configure("shared_preload_libraries = ''\n");
    server.restart(Mode::Fast);
    let mut client = server.connect();
    for _ in 0..2 {
        for error in [
            refused(client.snowflake(), "55000"),
            refused(client.snowflakes(5), "55000"),
        ] {
            let hint = error.hint().unwrap_or_default();
            assert!(hint.contains("shared_preload_libraries"), "{hint}");
        }
    }
}

#[test]
fn status_shows_what_was_issued() {
    let (server, mut admin) = server();
    admin.run("CREATE ROLE watcher LOGIN; GRANT pg_monitor TO watcher");
    let mut watcher = server.connect_as("watcher", "postgres");
    assert_eq!(watcher.snowflake_stat::<i32>("worker_id"), None);
    let id = admin.snowflakes(10).expect("ids")[9];
    let created_at = admin.parts(id).created_at;
    assert_eq!(watcher.snowflake_stat("worker_id"), Some(0));
    assert_eq!(watcher.snowflake_stat("layout"), Some("leaf".to_owned()));
    for (column, expected) in [
        ("epoch", 1_288_834_974_657),
        ("last_issued_at", created_at),
        // Where 41 bits of milliseconds end.
        ("runs_out_at", 1_288_834_974_657 + (1 << 41)),
    ] {
        let millis = format!("floor(extract(epoch FROM {column}) * 1000)::bigint");
        assert_eq!(watcher.snowflake_stat(&millis), Some(expected), "{column}");
    }
    wait_until("the status has the ceiling that the registry has", || {
        let agree = "SELECT count(*) FROM leaf.worker JOIN leaf.stat_snowflake
                      USING (worker_id, ceiling)";
        admin.number(agree) == 1
    });
    for column in ["rollbacks", "timeouts"] {
        let count = format!("{column}::bigint");
        assert_eq!(watcher.snowflake_stat(&count), Some(0i64), "{column}");
    }
    let lead: f64 = watcher
        .snowflake_stat("clock_lead_ms::float8")
        .expect("a number");
    assert!(lead <= 0.0, "no id is ahead of its clock: {lead}");
    assert_eq!(watcher.snowflake_stat::<String>("last_error"), None);
}

#[test]
fn ids_lie_below_a_ceiling_that_was_persisted_before() {
    let server = Server::options().set("leaf.ceiling_ahead", "1s").start();
    let mut client = server.connect();
    let first = client.snowflake().expect("an id");
    let start = client.ceiling(0);
    let mut highest = client.parts(first).created_at;
    // At least twice the ceiling is moved on.
    wait_until("the ceiling was renewed while ids were drawn", || {
        assert!(highest < client.ceiling(0));
        let id = client.snowflake().expect("no caller waits in vain");
        highest = client.parts(id).created_at;
        client.ceiling(0) > start + 2_500
    });
}

#[test]
fn idle_database_writes_nothing() {
    let server = Server::options()
        .set("leaf.ceiling_ahead", "1s")
        .set("leaf.worker_lease", "2s")
        .start();
    let mut client = server.connect();
    client.snowflakes(10_000).expect("ids");
    let row = "SELECT xmin::text || w::text FROM leaf.worker AS w";
    // What was drawn may still cause one renewal.
    wait_until("the ceiling has passed", || {
        client.ceiling(0) < client.clock()
    });
    let idle = client.text(row);
    let passed = client.ceiling(0);
    wait_until("four more ceilings could have passed", || {
        client.clock() > passed + 4_000
    });
    assert_eq!(client.text(row), idle);
    client.snowflake().expect("an id after the rest");
}
