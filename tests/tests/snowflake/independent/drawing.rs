//! Drawing leaves no trace in the caller's transaction.

use crate::drawing::server;
use leaf_tests::{Draw, Ledger, Snowflake};

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
