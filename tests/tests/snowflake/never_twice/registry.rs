//! The table of worker ids: what it refuses, and when a row of another history or a node with
//! another clock is accepted.

use crate::registry::{expire, full_registry, registry};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Snowflake, refused, wait_until};

/// Moves a row back in time: its lease ended, and was last renewed, so long ago.
fn age(client: &mut Client, worker: i32, by: &str) {
    client.run(&format!(
        "UPDATE leaf.worker
            SET leased_until = clock_timestamp() - interval '{by}',
                renewed_at = clock_timestamp() - interval '{by}',
                registered_at = clock_timestamp() - interval '{by}'
          WHERE worker_id = {worker}"
    ));
}

#[test]
fn row_of_another_history_is_taken_only_after_a_long_time() {
    let (server, mut client, _) = full_registry();
    client.run("UPDATE leaf.worker SET history = 'elsewhere' WHERE worker_id = 0");
    let ceiling = client.ceiling(0);
    // Its holder may be alive where nobody here can see it.
    age(&mut client, 0, "29 days");
    refused(client.register("'c'"), "53400");
    refused(client.register("'c', 0"), "55000");
    refused(client.snowflake(), "53400");
    age(&mut client, 0, "31 days");
    let lease = client.register("'c'").expect("a lease");
    assert_eq!(lease.worker_id, 0);
    assert!(lease.start_at >= ceiling);

    client.run("UPDATE leaf.worker SET history = 'elsewhere' WHERE worker_id = 1");
    age(&mut client, 1, "3 hours");
    refused(client.register("'d'"), "53400");
    server.reload("leaf.worker_reuse_after", "2h");
    assert_eq!(client.register("'d'").expect("a lease").worker_id, 1);
}

#[test]
fn row_of_another_history_can_be_deleted_by_an_administrator() {
    let (server, mut client, [mut lease, _]) = full_registry();
    server.reload("leaf.ceiling_ahead", "100ms");
    expire(&server, &mut client, &mut lease);
    client.run("UPDATE leaf.worker SET history = 'elsewhere' WHERE worker_id = 0");
    refused(client.register("'c'"), "53400");
    wait_until("its ceiling has passed", || {
        client.clock() > client.ceiling(0)
    });
    client.run("DELETE FROM leaf.worker WHERE worker_id = 0");
    assert_eq!(client.register("'c'").expect("a lease").worker_id, 0);
}

#[test]
fn node_whose_clock_is_off_is_58000() {
    let (server, mut client) = registry();
    for off in ["+ '6 s'", "- '6 s'", "- '1 day'"] {
        let arguments = format!("'a', clock => clock_timestamp() {off}::interval");
        refused(client.register(&arguments), "58000");
    }
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 0);
    client
        .register("'a', clock => clock_timestamp() - '3 s'::interval")
        .expect("3 s are within the bound");
    let offset = client.text("SELECT round(clock_offset_ms)::text FROM leaf.worker");
    let offset: i64 = offset.parse().expect("a number");
    assert!((-3_100..=-2_900).contains(&offset), "{offset} ms");
    server.reload("leaf.max_clock_offset", "1s");
    refused(
        client.register("'b', clock => clock_timestamp() - '3 s'::interval"),
        "58000",
    );
}

#[test]
fn ceiling_of_a_row_is_safe_from_plain_sql() {
    let (server, mut client) = registry();
    server.reload("leaf.ceiling_ahead", "3s");
    let lease = client.register("'a'").expect("a lease");
    refused(client.batch_execute("DELETE FROM leaf.worker"), "55006");
    refused(
        client.batch_execute("UPDATE leaf.worker SET ceiling = ceiling - interval '1 ms'"),
        "22023",
    );
    for truncate in ["TRUNCATE leaf.worker", "TRUNCATE leaf.worker CASCADE"] {
        refused(client.batch_execute(truncate), "0A000");
    }
    assert_eq!(client.ceiling(0), lease.ceiling);
    wait_until("the ceiling has passed", || client.clock() > lease.ceiling);
    refused(
        client.batch_execute("UPDATE leaf.worker SET ceiling = ceiling - interval '1 ms'"),
        "22023",
    );
    client.run("UPDATE leaf.worker SET ceiling = ceiling + interval '1 ms'");
    client.run("DELETE FROM leaf.worker");
}

/// A release lowers the ceiling to the start of the lease at most.
#[test]
fn start_of_a_lease_is_safe_from_plain_sql() {
    let (_server, mut client) = registry();
    client.register("'a'").expect("a lease");
    let earlier = "UPDATE leaf.worker SET start_at = registered_at - interval '1 min'";
    refused(client.batch_execute(earlier), "22023");
    client.run("UPDATE leaf.worker SET start_at = NULL");
    refused(client.batch_execute(earlier), "22023");
    client.run("UPDATE leaf.worker SET start_at = ceiling");
}

/// The holder goes on above it, whatever it knew.
#[test]
fn ceiling_raised_by_hand_is_respected() {
    let (_server, mut client) = registry();
    client.snowflake().expect("an id");
    client.run("UPDATE leaf.worker SET ceiling = now() + interval '8 s'");
    let raised = client.ceiling(0);
    wait_until("ids lie above the ceiling", || {
        let id = client.snowflake().expect("an id");
        client.parts(id).created_at >= raised
    });
}

#[test]
fn rows_of_a_registry_agree_on_layout_and_epoch() {
    let (_server, mut client) = registry();
    client.register("'a'").expect("a lease");
    let copy = |columns: &str| {
        format!(
            "INSERT INTO leaf.worker
             SELECT 9, node, nonce, token, history, {columns}, ceiling, leased_until
               FROM leaf.worker"
        )
    };
    refused(client.batch_execute(&copy("'uid', epoch")), "55000");
    refused(client.batch_execute(&copy("layout, now()")), "55000");
    refused(client.batch_execute(&copy("'nonsense', epoch")), "22023");
    let change = "UPDATE leaf.worker SET layout = 'uid'";
    refused(client.batch_execute(change), "55000");
    client.run(&copy("layout, epoch"));
}

/// The ceiling and the offset that it would get depend on its clock.
#[test]
fn renewal_with_a_clock_that_is_off_is_58000_and_changes_nothing() {
    let (_server, mut client) = registry();
    let mut lease = client.register("'a'").expect("a lease");
    let before = client.text("SELECT worker::text FROM leaf.worker");
    for off in ["+ '1 hour'", "- '1 hour'", "+ '6 s'", "- '6 s'"] {
        let renewal = format!(
            "SELECT * FROM leaf_worker_renew({}, '{}', {}, clock_timestamp() {off}::interval)",
            lease.worker_id, lease.nonce, lease.token
        );
        client.fails(&renewal, "58000");
    }
    assert_eq!(client.text("SELECT worker::text FROM leaf.worker"), before);
    client.renew(&mut lease).expect("with the right clock");
}
