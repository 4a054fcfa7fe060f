//! Which roles lease worker ids, and how many.

use crate::drawing::server;
use crate::registry::registry;
use leaf_tests::{Draw, Server, Snowflake, refused, wait_until};
use std::thread;

/// Whoever knows the nonce can renew it: then it counts again.
#[test]
fn lease_that_has_ended_is_renewed_only_if_the_role_may_hold_one_more() {
    let server = Server::options().set("leaf.max_leases", "2").start();
    server.connect().run(
        "CREATE ROLE node LOGIN;
         GRANT EXECUTE ON FUNCTION leaf_worker_register, leaf_worker_renew, leaf_worker_release TO node",
    );
    let mut node = server.connect_as("node", "postgres");
    let mut ended = node.register("'a', 5").expect("a lease");
    node.release(&ended).expect("a release");
    ended.token = ended.token.abs() + 1;
    node.renew(&mut ended).expect("it is the first one");
    node.release(&ended).expect("a release");
    ended.token = ended.token.abs() + 1;
    for other in ["'b', 6", "'c', 7"] {
        node.register(other).expect("a lease");
    }
    refused(node.renew(&mut ended), "53400");
}

/// Nor while it waits for the row, which its own role can lock.
#[test]
fn lease_that_ends_while_its_renewal_waits_counts_no_more() {
    let server = Server::options()
        .set("leaf.max_leases", "1")
        .set("leaf.worker_lease", "1s")
        .start();
    let mut client = server.connect();
    client.run(
        "CREATE ROLE node LOGIN;
         GRANT EXECUTE ON FUNCTION leaf_worker_register, leaf_worker_renew TO node",
    );
    let [mut node, mut other] = [(); 2].map(|()| server.connect_as("node", "postgres"));
    let mut lease = node.register("'a', 5, ahead => '100 ms'").expect("a lease");
    client.run("BEGIN; SELECT FROM leaf.worker FOR UPDATE");
    thread::scope(|scope| {
        let renewal = scope.spawn(|| node.renew(&mut lease));
        wait_until("the renewal waits for the row", || {
            client.number("SELECT count(*) FROM pg_locks WHERE NOT granted") == 1
        });
        wait_until("the lease has ended", || {
            client.number("SELECT count(*) FROM leaf.worker WHERE leased_until < clock_timestamp()")
                == 1
        });
        other.register("'b', 6").expect("the first one has ended");
        client.run("ROLLBACK");
        refused(renewal.join().expect("a renewal"), "53400");
    });
}

#[test]
fn role_that_may_execute_the_functions_leases_a_worker_id() {
    let (server, mut admin) = registry();
    admin.run(
        "CREATE ROLE stranger LOGIN;
         GRANT EXECUTE ON FUNCTION leaf_worker_register, leaf_worker_renew, leaf_worker_release
            TO stranger",
    );
    let mut stranger = server.connect_as("stranger", "postgres");
    let mut lease = stranger.register("'b'").expect("a grant is all it takes");
    stranger.renew(&mut lease).expect("a renewal");
    stranger.release(&lease).expect("a release");
}

#[test]
fn role_whose_transactions_are_read_only_has_leases() {
    let (_server, mut client) = registry();
    client.run("SET default_transaction_read_only = on");
    let mut lease = client.register("'a'").expect("a lease");
    client.renew(&mut lease).expect("a renewal");
    client.release(&lease).expect("a release");
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
