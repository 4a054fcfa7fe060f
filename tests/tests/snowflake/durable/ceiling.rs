//! No id is seen before its ceiling is stored.

use leaf_tests::{Server, Snowflake, wait_until};

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
