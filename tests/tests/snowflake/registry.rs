//! Worker ids leased through SQL, by nodes that are not the server itself: each is
//! held once, and what one holder may have issued no other does.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Lease, Server, Snowflake, refused, wait_until};
use std::collections::HashSet;
use std::thread;

/// A registry that nobody has registered in yet.
fn registry() -> (Server, Client) {
    let server = Server::start();
    let client = server.connect();
    (server, client)
}

/// A registry with two worker ids, both leased.
fn full_registry() -> (Server, Client, [Lease; 2]) {
    let server = Server::options()
        .set("leaf.snowflake_layout", "custom:41,1,12")
        .set("leaf.snowflake_epoch", "2024-01-01T00:00:00Z")
        .start();
    let mut client = server.connect();
    let leases = ["'a'", "'b'"].map(|node| client.register(node).expect("a lease"));
    assert_eq!([leases[0].worker, leases[1].worker], [0, 1]);
    (server, client, leases)
}

/// Waits until a lease, renewed for a second, has run out.
fn expire(server: &Server, client: &mut Client, lease: &mut Lease) {
    server.reload("leaf.worker_lease", "1s");
    client.renew(lease).expect("its holder renews it");
    server.reload("leaf.worker_lease", "10min");
    let expired = format!(
        "SELECT count(*) FROM leaf.worker
          WHERE worker_id = {} AND leased_until < clock_timestamp()",
        lease.worker
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
fn lease_says_what_its_holder_needs() {
    let (_server, mut client) = registry();
    let before = client.clock();
    let lease = client.register("'service 1'").expect("a lease");
    let after = client.clock();
    assert_eq!(lease.worker, 0);
    assert_eq!(lease.layout, "leaf");
    assert_eq!(lease.epoch, 1_288_834_974_657);
    assert!(lease.start_at <= after, "a new worker id begins now");
    assert!(before < lease.ceiling, "its holder may issue at once");
    assert_eq!(client.ceiling(0), lease.ceiling);
    let row = format!(
        "SELECT count(*) FROM leaf.worker
          WHERE node = 'service 1' AND nonce = '{}' AND token = {} AND layout = 'leaf'
            AND leased_until > clock_timestamp()",
        lease.nonce, lease.token
    );
    assert_eq!(client.number(&row), 1);
}

#[test]
fn nodes_registering_at_once_hold_distinct_ids() {
    let (server, mut client) = registry();
    let workers: Vec<i32> = thread::scope(|scope| {
        let nodes: Vec<_> = (0..16)
            .map(|node| {
                let mut client = server.connect();
                scope.spawn(move || {
                    let lease = client.register(&format!("'node {node}'"));
                    lease.expect("a lease").worker
                })
            })
            .collect();
        let id = client.snowflake().expect("the server draws meanwhile");
        let own = client.parts(id).worker;
        let leased = nodes.into_iter().map(|node| node.join().expect("a node"));
        leased.chain([own]).collect()
    });
    let distinct: HashSet<i32> = workers.iter().copied().collect();
    assert_eq!(distinct.len(), 17, "{workers:?}");
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 17);
}

#[test]
fn renewal_swaps_the_token_and_lifts_the_ceiling() {
    let (_server, mut client) = registry();
    let mut lease = client.register("'a'").expect("a lease");
    for _ in 0..3 {
        let before = lease.clone();
        wait_until("the clock has moved", || {
            client.renew(&mut lease).expect("a renewal");
            lease.ceiling > before.ceiling
        });
        assert!(lease.token != before.token);
        assert_eq!(client.ceiling(0), lease.ceiling);
    }
}

#[test]
fn of_two_holders_of_one_lease_only_one_can_renew() {
    let (_server, mut client) = registry();
    let mut lease = client.register("'a'").expect("a lease");
    let mut copy = lease.clone();
    client.renew(&mut lease).expect("the first to renew");
    for _ in 0..2 {
        refused(client.renew(&mut copy), "55000");
        client.renew(&mut lease).expect("it still holds the lease");
    }
}

#[test]
fn of_many_holders_at_once_only_one_can_renew() {
    let (server, mut client) = registry();
    for round in 0..5 {
        let lease = client
            .register(&format!("'node {round}'"))
            .expect("a lease");
        let renewed: usize = thread::scope(|scope| {
            let holders: Vec<_> = (0..8)
                .map(|_| {
                    let (mut client, mut copy) = (server.connect(), lease.clone());
                    scope.spawn(move || match client.renew(&mut copy) {
                        Ok(()) => 1,
                        refusal => {
                            refused(refusal, "55000");
                            0
                        }
                    })
                })
                .collect();
            let results = holders.into_iter().map(|h| h.join().expect("a holder"));
            results.sum()
        });
        assert_eq!(renewed, 1);
    }
}

#[test]
fn stranger_to_a_lease_can_neither_renew_nor_release_it() {
    let (_server, mut client) = registry();
    let mut lease = client.register("'a'").expect("a lease");
    let other = client.register("'b'").expect("a lease");
    for mut forged in [
        Lease {
            nonce: other.nonce.clone(),
            ..lease.clone()
        },
        Lease {
            token: lease.token + 1,
            ..lease.clone()
        },
        Lease {
            worker: 77,
            ..lease.clone()
        },
    ] {
        refused(client.renew(&mut forged), "55000");
        refused(client.release(&forged), "55000");
    }
    client.renew(&mut lease).expect("it still holds the lease");
}

#[test]
fn released_worker_id_is_reused_from_its_ceiling_on() {
    let (_server, mut client, [mut lease, _]) = full_registry();
    refused(client.register("'c'"), "53400");
    client.renew(&mut lease).expect("a renewal");
    client.release(&lease).expect("a release");
    refused(client.renew(&mut lease), "55000");
    let next = client.register("'c'").expect("a lease");
    assert_eq!(next.worker, 0);
    assert!(
        next.start_at >= lease.ceiling && next.ceiling > next.start_at,
        "{next:?} after {lease:?}"
    );
    assert_ne!(next.nonce, lease.nonce);
    refused(client.renew(&mut lease), "55000");
}

#[test]
fn expired_worker_id_is_reused_from_its_ceiling_on() {
    let (server, mut client, [_, mut lease]) = full_registry();
    refused(client.register("'c'"), "53400");
    expire(&server, &mut client, &mut lease);
    let next = client.register("'c'").expect("a lease");
    assert_eq!(next.worker, 1);
    assert!(
        next.start_at >= lease.ceiling && next.ceiling > next.start_at,
        "{next:?} after {lease:?}"
    );
    refused(client.renew(&mut lease), "55000");
    refused(client.register("'d'"), "53400");
}

#[test]
fn exhausted_worker_ids_are_53400_for_the_server_too() {
    let (server, mut client, [lease, _]) = full_registry();
    for _ in 0..2 {
        refused(client.register("'c'"), "53400");
        refused(client.snowflake(), "53400");
        refused(client.snowflakes(5), "53400");
    }
    // Segment ids know nothing of workers.
    client.run("SELECT leaf_tag_create('orders')");
    client.next("orders").expect("an id");
    client.release(&lease).expect("a release");
    let mut client = server.connect();
    wait_until("the server has leased what is free", || {
        client.snowflake().is_ok()
    });
    let id = client.snowflake().expect("an id");
    assert_eq!(client.parts(id).worker, 0);
    assert!(client.parts(id).created_at >= lease.ceiling);
}

#[test]
fn chosen_worker_id_is_leased_if_it_is_free() {
    let (_server, mut client) = registry();
    let lease = client.register("'a', 7").expect("a lease");
    assert_eq!(lease.worker, 7);
    for out_of_range in ["-1", "1024", "2147483647"] {
        let arguments = format!("'b', {out_of_range}");
        refused(client.register(&arguments), "22023");
    }
    refused(client.register("'b', 7"), "55006");
    client.release(&lease).expect("a release");
    let next = client.register("'b', 7").expect("a lease");
    assert!(next.start_at >= lease.ceiling);
}

#[test]
fn row_of_another_history_is_taken_only_after_a_long_time() {
    let (server, mut client, _) = full_registry();
    client.run("UPDATE leaf.worker SET history = 'elsewhere' WHERE worker_id = 0");
    let ceiling = client.ceiling(0);
    // Its holder may be alive where nobody here can see it.
    age(&mut client, 0, "29 days");
    refused(client.register("'c'"), "53400");
    refused(client.register("'c', 0"), "55006");
    refused(client.snowflake(), "53400");
    age(&mut client, 0, "31 days");
    let lease = client.register("'c'").expect("a lease");
    assert_eq!(lease.worker, 0);
    assert!(lease.start_at >= ceiling);

    client.run("UPDATE leaf.worker SET history = 'elsewhere' WHERE worker_id = 1");
    age(&mut client, 1, "3 hours");
    refused(client.register("'d'"), "53400");
    server.reload("leaf.worker_reuse_after", "2h");
    assert_eq!(client.register("'d'").expect("a lease").worker, 1);
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
    assert_eq!(client.register("'c'").expect("a lease").worker, 0);
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
fn node_whose_clock_is_off_from_those_of_the_live_workers_is_58000() {
    let (_server, mut client) = registry();
    let ahead = "clock => clock_timestamp() + '4 s'::interval";
    let behind = "'c', clock => clock_timestamp() - '4 s'::interval";
    let leases = ["'a'", "'b'"].map(|node| {
        let lease = client.register(&format!("{node}, {ahead}"));
        lease.expect("4 s are within the bound")
    });
    refused(client.register(behind), "58000");
    for lease in &leases {
        client.release(lease).expect("a release");
    }
    client.register(behind).expect("nobody else is alive");
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

#[test]
fn ceiling_is_as_far_ahead_as_the_node_asks_for() {
    let (_server, mut client) = registry();
    let now = client.clock();
    let lease = client.register("'a', ahead => '2 hours'").expect("a lease");
    assert!(lease.ceiling >= now + 7_200_000, "{lease:?} at {now}");
    for ahead in ["1 ms", "25 hours", "1 month", "-1 day"] {
        let arguments = format!("'b', ahead => '{ahead}'");
        refused(client.register(&arguments), "22023");
    }
    // Nobody else gets it meanwhile, even when it was given up.
    client.release(&lease).expect("a release");
    let other = client.register("'b'").expect("a lease");
    assert_ne!(other.worker, lease.worker);
    refused(client.register(&format!("'c', {}", lease.worker)), "55006");
}

#[test]
fn worker_id_goes_on_where_its_holder_says_it_ended() {
    let (_server, mut client) = registry();
    let lease = client.register("'a', ahead => '2 hours'").expect("a lease");
    let used_until = client.clock() + 2_000;
    client.run(&format!(
        "SELECT leaf_worker_release({}, '{}', {}, to_timestamp({used_until} / 1000.0))",
        lease.worker, lease.nonce, lease.token
    ));
    assert_eq!(client.ceiling(lease.worker), used_until);
    let next = client.register(&format!("'b', {}", lease.worker));
    assert_eq!(next.expect("a lease").start_at, used_until);
}

/// The holder goes on, and once the table is gone only a file says up to where.
#[test]
fn release_that_was_rolled_back_is_none() {
    let (_server, mut client) = registry();
    let lease = client.register("'a', ahead => '30 s'").expect("a lease");
    let release = format!(
        "SELECT leaf_worker_release({}, '{}', {}, now())",
        lease.worker, lease.nonce, lease.token
    );
    client.run(&format!("BEGIN; {release}; ROLLBACK"));
    client.run(&format!(
        "BEGIN; SAVEPOINT s; {release}; ROLLBACK TO s; COMMIT"
    ));
    client.run("DROP EXTENSION leaf; CREATE EXTENSION leaf");
    let next = client.register(&format!("'b', {}", lease.worker));
    assert!(next.expect("a lease").start_at >= lease.ceiling);
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
fn leasing_is_not_for_everybody() {
    let (server, mut admin) = registry();
    let lease = admin.register("'a'").expect("a lease");
    admin.run("CREATE ROLE stranger LOGIN");
    let mut stranger = server.connect_as("stranger", "postgres");
    let Lease { nonce, token, .. } = &lease;
    for statement in [
        "SELECT leaf_worker_register('b')".to_owned(),
        format!("SELECT leaf_worker_renew(0, '{nonce}', {token})"),
        format!("SELECT leaf_worker_release(0, '{nonce}', {token})"),
        "UPDATE leaf.worker SET node = 'b'".to_owned(),
        "DELETE FROM leaf.worker".to_owned(),
        "INSERT INTO leaf.worker (worker_id) VALUES (5)".to_owned(),
    ] {
        let error = stranger.batch_execute(&statement).expect_err(&statement);
        assert_eq!(
            error.code().map(|c| c.code()),
            Some("42501"),
            "{statement}: {error:?}"
        );
    }
    stranger.snowflake().expect("drawing is");
    admin.run(
        "GRANT EXECUTE ON FUNCTION leaf_worker_register, leaf_worker_renew, leaf_worker_release
            TO stranger",
    );
    let mut lease = stranger.register("'b'").expect("a grant is all it takes");
    stranger.renew(&mut lease).expect("a renewal");
    stranger.release(&lease).expect("a release");
}
