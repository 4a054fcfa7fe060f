//! Snowflake ids of one server whose clock is right: the first id, and what the views show.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Server, Snowflake, wait_until};

/// What `CREATE EXTENSION` leaves to be done before the first id: nothing.
pub fn server() -> (Server, Client) {
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
