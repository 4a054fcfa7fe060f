//! The table of worker ids: which one is leased next, what registering reads of a large
//! table, and that no node is kept out by the clock of another.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Lease, Server, Snowflake, is_plain, refused, wait_until};
use std::thread;

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
fn name_of_a_server_is_for_servers() {
    let (_server, mut client) = registry();
    refused(client.register("'server 1/2/3'"), "22023");
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
