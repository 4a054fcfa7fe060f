//! What the owner of a database gains by the right to restore dumps.

use leaf_tests::{Draw, Server};

/// Who may add rows for a restore gets nothing with them that others have.
#[test]
fn rows_that_an_owner_adds_bring_no_lease_and_no_centre() {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run("CREATE ROLE app LOGIN");
    admin.run("CREATE DATABASE work OWNER app");
    let mut admin = server.connect_as("postgres", "work");
    admin.run(
        "CREATE EXTENSION leaf; SELECT leaf_tag_create('orders'); SELECT leaf_snowflake_next()",
    );
    let mut app = server.connect_as("app", "work");
    app.fails(
        "INSERT INTO leaf.alloc (biz_tag, step, upstream_tag, upstream_incarnation)
         VALUES ('fed', 1, 'orders', gen_random_uuid())",
        "42501",
    );
    app.fails(
        "CREATE TEMP TABLE mine AS SELECT * FROM leaf.worker;
         UPDATE mine SET worker_id = 77; INSERT INTO leaf.worker TABLE mine",
        "22023",
    );
    for denied in [
        "UPDATE leaf.alloc SET max_id = max_id",
        "DELETE FROM leaf.alloc",
        "DELETE FROM leaf.worker",
    ] {
        app.fails(denied, "42501");
    }
}
