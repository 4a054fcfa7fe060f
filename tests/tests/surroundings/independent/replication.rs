//! What logical decoding sees of a caller's transaction.

use crate::never_twice::replication::publisher;
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Snowflake};
use std::collections::HashSet;

/// The changes since the last call, each with its transaction.
fn changes(client: &mut Client) -> Vec<(String, String)> {
    let rows = client.query(
        "SELECT xid::text, data FROM pg_logical_slot_get_changes('slot', NULL, NULL)
          WHERE data LIKE 'table %'",
        &[],
    );
    let rows = rows.expect("changes");
    rows.iter().map(|row| (row.get(0), row.get(1))).collect()
}

#[test]
fn draws_are_not_decoded_and_grants_are_transactions_of_their_own() {
    let (_server, mut client) = publisher();
    client.run("CREATE TABLE t (id bigint DEFAULT leaf_segment_next('orders'), n int)");
    client.next("orders").expect("a segment is loaded");
    client.run("SELECT pg_create_logical_replication_slot('slot', 'test_decoding')");
    client.run("BEGIN; SELECT leaf_segment_next('orders'); COMMIT");
    client.rows("orders", 50).expect("ids");
    assert_eq!(changes(&mut client), []);

    // With writes of the caller's own, and many grants.
    client.run("INSERT INTO t (n) SELECT generate_series(1, 20000)");
    client.reserve("orders", 5).expect("a block");
    client.snowflake().expect("an id");
    let changes = changes(&mut client);
    let of = |table: &str| -> HashSet<&str> {
        let table = format!("table {table}: ");
        let of_it = changes.iter().filter(|(_, data)| data.starts_with(&table));
        of_it.map(|(xid, _)| xid.as_str()).collect()
    };
    let (rows, grants, leases) = (of("public.t"), of("leaf.alloc"), of("leaf.worker"));
    assert_eq!(rows.len(), 1);
    assert!(grants.len() > 1, "{grants:?}");
    assert_eq!(leases.len(), 1);
    assert!(rows.is_disjoint(&grants) && rows.is_disjoint(&leases));
    let granted = changes
        .iter()
        .filter(|(_, data)| data.starts_with("table leaf.alloc: "));
    assert!(granted.clone().all(|(_, data)| data.contains(": UPDATE: ")));
}
