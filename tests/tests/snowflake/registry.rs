//! The table of worker ids: who may write it, what it refuses, and when a row of
//! another history or a node with another clock is accepted.

use std::thread;

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Lease, Server, Snowflake, is_plain, refused, wait_until};

/// A registry that nobody has registered in yet.
pub fn registry() -> (Server, Client) {
    let server = Server::start();
    let client = server.connect();
    (server, client)
}

/// A registry with two worker ids, both leased.
pub fn full_registry() -> (Server, Client, [Lease; 2]) {
    let server = Server::options()
        .set("leaf.snowflake_layout", "custom:41,1,12")
        .set("leaf.snowflake_epoch", "2024-01-01T00:00:00Z")
        .set("leaf.ceiling_ahead", "1s")
        .start();
    let mut client = server.connect();
    let leases = ["'a'", "'b'"].map(|node| client.register(node).expect("a lease"));
    assert_eq!([leases[0].worker_id, leases[1].worker_id], [0, 1]);
    (server, client, leases)
}

/// Waits until a lease, renewed for a second, has run out.
pub fn expire(server: &Server, client: &mut Client, lease: &mut Lease) {
    server.reload("leaf.worker_lease", "1s");
    client.renew(lease).expect("its holder renews it");
    server.reload("leaf.worker_lease", "10min");
    let expired = format!(
        "SELECT count(*) FROM leaf.worker
          WHERE worker_id = {} AND leased_until < clock_timestamp()",
        lease.worker_id
    );
    wait_until("the lease has run out", || client.number(&expired) == 1);
}

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
fn clocks_of_other_nodes_keep_nobody_out() {
    let (_server, mut client) = registry();
    let ahead = "clock => clock_timestamp() + '4.9 s'::interval, ahead => '1 day'";
    for node in 0..8 {
        client
            .register(&format!("'{node}', {ahead}"))
            .expect("4.9 s are within the bound");
    }
    let behind = "'honest', clock => clock_timestamp() - '1 s'::interval";
    client.register(behind).expect("a lease");
    client.snowflake().expect("an id");
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

#[test]
fn name_of_a_server_is_for_servers() {
    let (_server, mut client) = registry();
    refused(client.register("'server 1/2/3'"), "22023");
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

#[test]
fn one_node_with_a_wrong_clock_blocks_no_registration() {
    for others in 0..4 {
        let (_server, mut client) = registry();
        for node in 0..others {
            client
                .register(&format!("'right {node}'"))
                .expect("a lease");
        }
        client.register("'wrong'").expect("a lease");
        client.run("UPDATE leaf.worker SET clock_offset_ms = 3600000 WHERE node = 'wrong'");
        client.register("'another'").expect("a lease");
        client.snowflake().expect("an id of the server's");
    }
}

#[test]
fn infinite_instants_are_22023() {
    let (_server, mut client) = registry();
    let lease = client.register("'a'").expect("a lease");
    let before = client.text("SELECT worker::text FROM leaf.worker");
    for infinity in ["infinity", "-infinity"] {
        let proof = format!("{}, '{}', {}", lease.worker_id, lease.nonce, lease.token);
        for call in [
            format!("leaf_worker_register('b', clock => '{infinity}')"),
            format!("leaf_worker_renew({proof}, '{infinity}')"),
            format!("leaf_worker_release({proof}, '{infinity}')"),
        ] {
            client.fails(&format!("SELECT * FROM {call}"), "22023");
        }
    }
    assert_eq!(client.text("SELECT worker::text FROM leaf.worker"), before);
}

/// The clock was read before.
#[test]
fn wait_for_a_row_is_no_offset_of_the_clock() {
    let (server, mut client) = registry();
    server.reload("leaf.max_clock_offset", "500ms");
    let lease = client.register("'a'").expect("a lease");
    let mut holder = server.connect();
    holder.run("BEGIN; SELECT FROM leaf.worker FOR UPDATE");
    let renewal = format!(
        "SELECT * FROM leaf_worker_renew({}, '{}', {}, clock_timestamp())",
        lease.worker_id, lease.nonce, lease.token
    );
    thread::scope(|scope| {
        let mut node = server.connect();
        let renewal = scope.spawn(move || node.batch_execute(&renewal));
        wait_until("the renewal waits for the row", || {
            client.number("SELECT count(*) FROM pg_locks WHERE NOT granted") == 1
        });
        let began = client.clock();
        wait_until("a second has passed", || client.clock() > began + 1_000);
        holder.run("COMMIT");
        renewal.join().expect("no panic").expect("a renewal");
    });
    let offset = client.text("SELECT (abs(clock_offset_ms) < 500)::text FROM leaf.worker");
    assert_eq!(offset, "true");
}

/// A registry with so many worker ids leased, the first of them 0, all of them live.
fn large_registry(server: &Server, client: &mut Client, layout: &str, rows: u32) {
    server.reload("leaf.snowflake_layout", layout);
    let lease = client.register("'node 0'").expect("a lease");
    assert_eq!(lease.worker_id, 0);
    client.run(&format!(
        "INSERT INTO leaf.worker (worker_id, node, nonce, token, history, layout, epoch, ceiling, leased_until)
         SELECT n, 'node ' || n, gen_random_uuid(), 1, history, layout, epoch,
                ceiling, leased_until + n * '1 ms'::interval
           FROM leaf.worker, generate_series(1, {rows} - 1) AS n"
    ));
}

/// Work on the registry, and how many of its rows that has read.
fn rows_read<T>(client: &mut Client, work: impl FnOnce(&mut Client) -> T) -> (T, i64) {
    // Of this session, not yet reported.
    let read = "SELECT seq_tup_read + coalesce(idx_tup_fetch, 0) FROM pg_stat_xact_all_tables
                 WHERE relid = 'leaf.worker'::regclass";
    client.run("BEGIN");
    let before = client.number(read);
    let worked = work(client);
    let after = client.number(read);
    client.run("COMMIT");
    (worked, after - before)
}

/// Instead of the time that it takes: how many rows are read does not depend on the machine.
#[test]
fn registering_and_renewing_read_few_rows_of_a_large_registry() {
    let server = Server::options()
        .set("leaf.snowflake_layout", "uid")
        .start();
    let mut client = server.connect();
    large_registry(&server, &mut client, "uid", 60_000);
    let few = 3_000;
    let (lease, read) = rows_read(&mut client, |client| client.register("'a'"));
    let mut lease = lease.expect("a lease");
    assert_eq!(lease.worker_id, 60_000);
    assert!(read < few, "a registration has read {read} rows");
    let (renewed, read) = rows_read(&mut client, |client| client.renew(&mut lease));
    renewed.expect("a renewal");
    assert!(read < few, "a renewal has read {read} rows");
    // One that ran out is found among all that live, also in other histories.
    client.run(
        "UPDATE leaf.worker SET leased_until = now() - '1 day'::interval WHERE worker_id = 31234;
         UPDATE leaf.worker SET history = 'elsewhere', leased_until = now() - '1 day'::interval
          WHERE worker_id BETWEEN 40000 AND 45000",
    );
    let (lease, read) = rows_read(&mut client, |client| client.register("'b'"));
    assert_eq!(lease.expect("a lease").worker_id, 31_234);
    assert!(read < few, "a registration has read {read} rows");
    let (lease, read) = rows_read(&mut client, |client| client.register("'c'"));
    assert!(lease.expect("a lease").worker_id > 60_000);
    assert!(read < few, "a registration has read {read} rows");
    if !is_plain() {
        client.snowflake().expect("an id of the server's");
    }
}

#[test]
fn worker_id_whose_lease_ran_out_is_leased_before_one_that_was_never_used() {
    let (server, mut client) = registry();
    server.reload("leaf.worker_lease", "1s");
    server.reload("leaf.ceiling_ahead", "100ms");
    let lease = client.register("'a'").expect("a lease");
    for node in ["'b'", "'c'"] {
        let expired = "SELECT count(*) FROM leaf.worker WHERE leased_until < clock_timestamp()";
        wait_until("the lease has run out", || client.number(expired) == 1);
        let next = client.register(node).expect("a lease");
        assert_eq!(next.worker_id, lease.worker_id);
    }
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 1);
}

/// Every worker id of a layout can be leased.
#[test]
fn last_worker_id_of_a_large_layout_is_reachable() {
    let (server, mut client) = registry();
    large_registry(&server, &mut client, "uid", 2_000);
    let last = client.register("'last', 4194303").expect("a lease");
    assert_eq!(last.worker_id, 4_194_303);
    refused(client.register("'none', 4194304"), "22023");
    // The highest is taken, and so are the lowest.
    let next = client.register("'a'").expect("a lease");
    assert!((2_000..4_194_303).contains(&next.worker_id), "{next:?}");
    // Its ceiling is in a file of its own.
    client.run("DROP EXTENSION leaf; CREATE EXTENSION leaf");
    let again = client.register("'last', 4194303").expect("a lease");
    assert!(again.start_at >= last.ceiling);
}

#[test]
fn full_layout_is_53400_and_its_last_gap_is_found() {
    let server = Server::options()
        .set("leaf.snowflake_layout", "custom:41,12,10")
        .start();
    let mut client = server.connect();
    large_registry(&server, &mut client, "custom:41,12,10", 4_096);
    refused(client.register("'a'"), "53400");
    client.run(
        "ALTER TABLE leaf.worker DISABLE TRIGGER leaf_check;
         DELETE FROM leaf.worker WHERE worker_id = 3210;
         ALTER TABLE leaf.worker ENABLE ALWAYS TRIGGER leaf_check",
    );
    assert_eq!(client.register("'a'").expect("a lease").worker_id, 3_210);
    refused(client.register("'b'"), "53400");
}

#[test]
fn transaction_that_stays_open_holds_up_no_registration() {
    let server = Server::start();
    let mut client = server.connect();
    server.reload("leaf.worker_lease", "1s");
    server.reload("leaf.ceiling_ahead", "100ms");
    let mut lease = client.register("'expired'").expect("a lease");
    let expired = "SELECT count(*) FROM leaf.worker WHERE leased_until < clock_timestamp()";
    wait_until("the lease has run out", || client.number(expired) == 1);
    // It has registered, renewed what has run out, and ended a lease.
    let mut open = server.connect();
    open.run("BEGIN");
    let own = open.register("'open', 7").expect("a lease");
    open.renew(&mut lease).expect("a renewal");
    open.release(&own).expect("a release");
    let next = client.register("'next'").expect("a lease");
    assert!(![lease.worker_id, own.worker_id].contains(&next.worker_id));
    client.snowflake().expect("an id of the server's own");
    open.run("ROLLBACK");
    // The registration is committed whatever becomes of the transaction.
    let leases = "SELECT count(*) FROM leaf.worker WHERE node = 'open'";
    assert_eq!(client.number(leases), 1);
}

#[test]
fn role_whose_transactions_are_read_only_has_leases() {
    let (_server, mut client) = registry();
    client.run("SET default_transaction_read_only = on");
    let mut lease = client.register("'a'").expect("a lease");
    client.renew(&mut lease).expect("a renewal");
    client.release(&lease).expect("a release");
}
