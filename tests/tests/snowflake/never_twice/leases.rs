//! Worker ids leased through SQL, by nodes that are not the server itself: each is
//! held once, and what one holder may have issued no other does.

use crate::registry::{expire, full_registry, registry};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Lease, Server, Snowflake, refused, wait_until, waiting_callers};
use std::collections::HashSet;
use std::fs::File;
use std::thread;
use std::time::Duration;

#[test]
fn lease_says_what_its_holder_needs() {
    let (_server, mut client) = registry();
    let before = client.clock();
    let lease = client.register("'service 1'").expect("a lease");
    let after = client.clock();
    assert_eq!(lease.worker_id, 0);
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
                    lease.expect("a lease").worker_id
                })
            })
            .collect();
        let id = client.snowflake().expect("the server draws meanwhile");
        let own = client.parts(id).worker_id;
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
            worker_id: 77,
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
    assert_eq!(next.worker_id, 0);
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
    assert_eq!(next.worker_id, 1);
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
    assert_eq!(client.parts(id).worker_id, 0);
    assert!(client.parts(id).created_at >= lease.ceiling);
}

#[test]
fn chosen_worker_id_is_leased_if_it_is_free() {
    let (_server, mut client) = registry();
    let lease = client.register("'a', 7").expect("a lease");
    assert_eq!(lease.worker_id, 7);
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
fn ceiling_is_as_far_ahead_as_the_node_asks_for() {
    let (_server, mut client) = registry();
    let now = client.clock();
    let mut lease = client.register("'a', ahead => '20 s'").expect("a lease");
    assert!(lease.ceiling >= now + 20_000, "{lease:?} at {now}");
    renew_for(&mut client, &mut lease, "2 hours");
    assert!(lease.ceiling >= now + 7_200_000, "{lease:?} at {now}");
    for ahead in ["1 ms", "25 hours", "1 month", "-1 day"] {
        let arguments = format!("'b', ahead => '{ahead}'");
        refused(client.register(&arguments), "22023");
    }
    // Nobody else gets it meanwhile, even when it was given up.
    client.release(&lease).expect("a release");
    let other = client.register("'b'").expect("a lease");
    assert_ne!(other.worker_id, lease.worker_id);
    refused(
        client.register(&format!("'c', {}", lease.worker_id)),
        "55006",
    );
}

#[test]
fn worker_id_goes_on_where_its_holder_says_it_ended() {
    let (_server, mut client) = registry();
    let lease = client.register("'a', ahead => '2 hours'").expect("a lease");
    let used_until = client.clock() + 2_000;
    client.run(&format!(
        "SELECT leaf_worker_release({}, '{}', {}, to_timestamp({used_until} / 1000.0))",
        lease.worker_id, lease.nonce, lease.token
    ));
    assert_eq!(client.ceiling(lease.worker_id), used_until);
    let next = client.register(&format!("'b', {}", lease.worker_id));
    assert_eq!(next.expect("a lease").start_at, used_until);
}

#[test]
fn holder_that_claims_to_have_used_more_than_its_lease_holds_nothing_longer() {
    let (_server, mut client) = registry();
    let lease = client.register("'a'").expect("a lease");
    client.run(&format!(
        "SELECT leaf_worker_release({}, '{}', {}, now() + '10 years')",
        lease.worker_id, lease.nonce, lease.token
    ));
    assert_eq!(client.ceiling(lease.worker_id), lease.ceiling);
}

#[test]
fn worker_id_belongs_to_its_holder_until_its_ceiling_even_if_leases_are_shorter() {
    let server = Server::options().set("leaf.worker_lease", "1s").start();
    let mut client = server.connect();
    let mut lease = client.register("'a', ahead => '20 s'").expect("a lease");
    wait_until("leaf.worker_lease has passed", || {
        client
            .number("SELECT count(*) FROM leaf.worker WHERE registered_at < now() - interval '1 s'")
            == 1
    });
    let other = client.register("'b'").expect("a lease");
    assert_ne!(other.worker_id, lease.worker_id);
    client.renew(&mut lease).expect("its holder renews it");
}

/// The holder goes on, and once the table is gone only a file says up to where.
#[test]
fn release_that_was_rolled_back_is_none() {
    let (_server, mut client) = registry();
    let lease = client.register("'a', ahead => '30 s'").expect("a lease");
    let release = format!(
        "SELECT leaf_worker_release({}, '{}', {}, now())",
        lease.worker_id, lease.nonce, lease.token
    );
    client.run(&format!("BEGIN; {release}; ROLLBACK"));
    client.run(&format!(
        "BEGIN; SAVEPOINT s; {release}; ROLLBACK TO s; COMMIT"
    ));
    client.run("DROP EXTENSION leaf; CREATE EXTENSION leaf");
    let next = client.register(&format!("'b', {}", lease.worker_id));
    assert!(next.expect("a lease").start_at >= lease.ceiling);
}

/// Its ceiling lies further ahead than ids may run, and nothing but a file
/// remembers it.
#[test]
fn registration_that_was_rolled_back_is_in_nobodys_way() {
    let server = Server::start();
    let mut admin = server.connect();
    // No loader sees that registry, so the session leases for itself.
    admin.run("BEGIN; DROP EXTENSION leaf; CREATE EXTENSION leaf");
    let mut undone = admin.register("'a'").expect("a lease");
    renew_for(&mut admin, &mut undone, "1 day");
    admin.run("ROLLBACK");
    let id = admin.snowflake().expect("an id");
    let own = admin.parts(id);
    assert_ne!(own.worker_id, undone.worker_id);
    assert!(own.created_at < undone.ceiling);
    let next = admin.register("'b'").expect("a lease");
    assert!(![own.worker_id, undone.worker_id].contains(&next.worker_id));
    // Whoever insists on it is told why not.
    let insists = admin.register(&format!("'c', {}", undone.worker_id));
    refused(insists, "58000");
}

/// Two leases of a worker id, the second ahead of the clock.
#[test]
fn release_gives_back_nothing_that_an_earlier_lease_may_have_used() {
    let (_server, mut client) = registry();
    let first = client.register("'a', 7, ahead => '30 s'").expect("a lease");
    client.release(&first).expect("a release");
    let second = client.register("'b', 7").expect("a lease");
    assert_eq!(second.start_at, first.ceiling);
    client.run(&format!(
        "SELECT leaf_worker_release(7, '{}', {}, now() - '1 day'::interval)",
        second.nonce, second.token
    ));
    assert_eq!(client.ceiling(7), first.ceiling);
    let third = client.register("'c', 7").expect("a lease");
    assert_eq!(third.start_at, first.ceiling);
}

/// Its row would count as that of a lease for longer, in another history too.
#[test]
fn release_that_is_repeated_prolongs_nothing() {
    let (_server, mut client) = registry();
    let mut lease = client.register("'a'").expect("a lease");
    client.release(&lease).expect("a release");
    let ended = "SELECT leased_until::text FROM leaf.worker";
    let until = client.text(ended);
    lease.token = lease.token.abs() + 1;
    client.release(&lease).expect("the same");
    assert_eq!(client.text(ended), until);
}

/// Where the lease began is not known then.
#[test]
fn release_of_a_row_written_by_hand_keeps_its_ceiling() {
    let (_server, mut client) = registry();
    let lease = client.register("'a'").expect("a lease");
    client.run(
        "INSERT INTO leaf.worker (worker_id, node, nonce, token, history, layout, epoch, ceiling, leased_until)
         SELECT 5, 'b', nonce, token, history, layout, epoch, ceiling, leased_until FROM leaf.worker",
    );
    client.run(&format!(
        "SELECT leaf_worker_release(5, '{}', {}, now() - '1 day'::interval)",
        lease.nonce, lease.token
    ));
    assert_eq!(client.ceiling(5), lease.ceiling);
}

#[test]
fn worker_id_that_is_held_says_until_when() {
    let (_server, mut client) = registry();
    client.register("'a', 7").expect("a lease");
    let until = client.text("SELECT leased_until::text FROM leaf.worker");
    let error = refused(client.register("'b', 7"), "55006");
    let detail = error.detail().unwrap_or_default();
    let day = until.split(' ').next().expect("a date");
    assert!(detail.contains("\"a\"") && detail.contains(day), "{detail}");
}

/// Once the table is gone, only the file has it.
#[test]
fn ceiling_of_a_renewal_is_respected_after_the_extension_was_dropped() {
    let (_server, mut client) = registry();
    let lease = client.register("'a'").expect("a lease");
    client.run(&format!(
        "SELECT * FROM leaf_worker_renew({}, '{}', {}, ahead => '30 s')",
        lease.worker_id, lease.nonce, lease.token
    ));
    let renewed = client.ceiling(lease.worker_id);
    assert!(renewed > lease.ceiling);
    client.run("DROP EXTENSION leaf; CREATE EXTENSION leaf");
    let next = client.register(&format!("'b', {}", lease.worker_id));
    assert!(next.expect("a lease").start_at >= renewed);
}

/// Nodes that ask while the loader waits get their leases in one transaction.
#[test]
fn ceilings_of_nodes_registered_together_are_respected_after_the_extension_was_dropped() {
    let (server, mut client) = registry();
    client.register("'first'").expect("a lease");
    let lock = File::open(server.data().join("leaf")).expect("the folder");
    lock.lock().expect("the lock");
    let leases: Vec<Lease> = thread::scope(|scope| {
        let nodes: Vec<_> = (0..8)
            .map(|node| {
                let mut client = server.connect();
                scope.spawn(move || client.register(&format!("'node {node}'")))
            })
            .collect();
        wait_until("all wait", || {
            waiting_callers(&mut client, "leaf_worker_register") == 8
        });
        lock.unlock().expect("the lock");
        let leases = nodes.into_iter().map(|node| node.join().expect("a node"));
        leases.map(|lease| lease.expect("a lease")).collect()
    });
    client.run("DROP EXTENSION leaf; CREATE EXTENSION leaf");
    for lease in leases {
        let next = client.register(&format!("'another', {}", lease.worker_id));
        assert!(next.expect("a lease").start_at >= lease.ceiling);
    }
}

/// The higher of the row's ceiling and the file's counts, whichever that is.
#[test]
fn next_lease_begins_above_a_ceiling_raised_by_hand() {
    let (_server, mut client) = registry();
    let lease = client.register("'a'").expect("a lease");
    client.run("UPDATE leaf.worker SET ceiling = ceiling + interval '20 s'");
    let raised = client.ceiling(lease.worker_id);
    client.release(&lease).expect("a release");
    let next = client.register(&format!("'b', {}", lease.worker_id));
    assert!(next.expect("a lease").start_at >= raised);
}

/// It may have issued ids, whatever became of its row.
#[test]
fn lease_of_a_worker_id_that_another_transaction_leased_is_lost() {
    let (_server, mut client) = registry();
    let mut lease = client.register("'a'").expect("a lease");
    client.run("BEGIN; DROP EXTENSION leaf; CREATE EXTENSION leaf");
    let other = client.register(&format!("'b', {}", lease.worker_id));
    assert!(other.expect("a lease").ceiling > lease.ceiling);
    client.run("ROLLBACK");
    refused(client.renew(&mut lease), "55000");
}

#[test]
fn worker_id_with_the_largest_token_is_taken_over() {
    let server = Server::start();
    let mut client = server.connect();
    let lease = client.register("'a'").expect("a lease");
    let (worker, nonce) = (lease.worker_id, &lease.nonce);
    let largest = i64::MAX - 1;
    client.run(&format!(
        "SELECT FROM leaf_worker_renew({worker}, '{nonce}', {}, next_token => {largest});
         SELECT leaf_worker_release({worker}, '{nonce}', {largest});
         UPDATE leaf.worker SET history = 'elsewhere'",
        lease.token
    ));
    let taken = client.number(&format!("SELECT leaf_worker_take_over({worker})::bigint"));
    assert_eq!(taken, 1);
}

/// Renews a lease, so far ahead.
fn renew_for(client: &mut Client, lease: &mut Lease, ahead: &str) {
    let query =
        format!("SELECT token FROM leaf_worker_renew($1, $2::text::uuid, $3, ahead => '{ahead}')");
    let renewed = client.query_one(&query, &[&lease.worker_id, &lease.nonce, &lease.token]);
    lease.token = renewed.expect("its holder renews it").get(0);
    lease.ceiling = client.ceiling(lease.worker_id);
}

/// A server with a layout of 32 worker ids, whose clock the test moves.
fn small_fleet() -> Server {
    let options = Server::options().set("leaf.snowflake_layout", "js53");
    options.clock().start()
}

/// Each start is killed before it renews.
#[test]
fn service_that_is_killed_at_each_start_does_not_take_all_worker_ids() {
    let server = small_fleet();
    let mut client = server.connect();
    let start = "'checkout-7', ahead => '10 minutes'";
    for second in 1..=31 {
        client.register(start).expect("a lease");
        server.clock().ahead(Duration::from_secs(second));
    }
    server.clock().ahead(Duration::from_secs(31 + 120));
    let held = "SELECT count(*) FROM leaf.worker WHERE leased_until >= clock_timestamp()";
    assert!(client.number(held) <= 31 - 24);
    for node in 1..=24 {
        client
            .register(&format!("'other-{node}'"))
            .expect("a lease");
    }
}

#[test]
fn replicas_of_one_name_all_lease() {
    let server = small_fleet();
    let mut client = server.connect();
    let mut leases: Vec<_> = (0..20)
        .map(|_| {
            client
                .register("'shop', ahead => '10 minutes'")
                .expect("a lease")
        })
        .collect();
    for lease in &mut leases {
        let unrenewed = lease.ceiling;
        // The first renewal gives the full length.
        renew_for(&mut client, lease, "10 minutes");
        assert!(lease.ceiling > unrenewed + 9 * 60 * 1_000);
    }
    let mut ids: Vec<_> = leases.iter().map(|lease| lease.worker_id).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 20);
    for _ in 20..32 {
        client.register("'other'").expect("a lease");
    }
    let error = refused(client.register("'one more'"), "53400");
    let detail = error.detail().unwrap_or_default();
    assert!(
        detail.contains("Node \"shop\" has most of them: 20."),
        "{error:?}"
    );
}
