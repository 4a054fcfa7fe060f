//! Foreign tables: ids are drawn where the statement runs.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Server};
use std::io::Write;

/// A server with the databases `postgres` and `far`, both with a tag `orders`; the
/// first has foreign tables of the second.
fn foreign() -> (Server, Client, Client) {
    let server = Server::start();
    let mut here = server.connect();
    here.run("CREATE DATABASE far");
    let mut far = server.connect_as("postgres", "far");
    far.run(
        "CREATE EXTENSION leaf;
         SELECT leaf_tag_create('orders', step => 10, start => 1000000);
         CREATE TABLE t (id bigint DEFAULT leaf_segment_next('orders'), n int);
         CREATE VIEW ids AS SELECT leaf_segment_next('orders') AS id FROM generate_series(1, 5)",
    );
    here.run(&format!(
        "SELECT leaf_tag_create('orders', step => 10);
         CREATE EXTENSION postgres_fdw;
         CREATE SERVER far FOREIGN DATA WRAPPER postgres_fdw
            OPTIONS (host '{}', dbname 'far', extensions 'leaf');
         CREATE USER MAPPING FOR postgres SERVER far OPTIONS (user 'postgres');
         CREATE FOREIGN TABLE t (id bigint DEFAULT leaf_segment_next('orders'), n int) SERVER far;
         CREATE FOREIGN TABLE ids (id bigint) SERVER far",
        server.host()
    ));
    (server, here, far)
}

#[test]
fn foreign_table_draws_where_the_statement_runs() {
    let (_server, mut here, mut far) = foreign();
    here.run("INSERT INTO t (n) SELECT generate_series(1, 300)");
    let mut copy = here.copy_in("COPY t (n) FROM STDIN").expect("COPY");
    writeln!(copy, "301").expect("a row");
    copy.finish().expect("the end");
    for client in [&mut here, &mut far] {
        assert_eq!(client.number("SELECT count(DISTINCT id) FROM t"), 301);
        assert_eq!(client.number("SELECT max(id) FROM t"), 301);
    }
    here.run("UPDATE t SET id = leaf_segment_next('orders')");
    assert_eq!(far.number("SELECT min(id) FROM t"), 302);
    assert_eq!(far.next("orders").expect("an id"), 1_000_000);
    // A view at the other end draws there, as many as are fetched.
    let ids = here.numbers("SELECT id FROM ids");
    assert_eq!(ids, (1_000_001..=1_000_005).collect::<Vec<_>>());
}

/// Even if the foreign server is said to have leaf: what is computed there must not
/// depend on where.
#[test]
fn draws_are_never_sent_to_a_foreign_server() {
    let (_server, mut here, _far) = foreign();
    for local in [
        "id < leaf_segment_next('orders')",
        "id < leaf_snowflake_next()",
        "id < leaf_snowflake_floor(to_timestamp(n))",
    ] {
        let plan = here.plan(&format!("(VERBOSE) SELECT id FROM t WHERE {local}"));
        let remote = plan.lines().find(|line| line.contains("Remote SQL"));
        let remote = remote.expect("a foreign scan");
        assert!(!remote.contains("leaf"), "{remote}");
    }
}
