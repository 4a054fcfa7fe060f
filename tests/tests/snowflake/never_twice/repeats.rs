//! Registrations and renewals that are repeated, because their answer was lost or they
//! were rolled back.

use crate::registry::registry;
use leaf_tests::postgres::{Client, Error};
use leaf_tests::{Draw, Lease, Snowflake, refused};
use std::collections::HashSet;
use std::thread;

/// The text of a uuid that ends with a digit.
fn uuid(digit: u8) -> String {
    format!("7c9e6679-7425-40de-944b-e07fc1f9000{digit}")
}

#[test]
fn repeated_registration_is_answered_the_same_way() {
    let (server, mut client) = registry();
    for (node, arguments) in ["'a', nonce =>", "'b', 7, clock_timestamp(), '1 min',"]
        .into_iter()
        .enumerate()
    {
        let arguments = format!("{arguments} '{}'", uuid(node as u8));
        let first = client.register(&arguments).expect("a lease");
        assert_eq!(first.nonce, uuid(node as u8));
        for _ in 0..5 {
            let repeated = server.connect().register(&arguments);
            assert_eq!(repeated.expect("the same lease"), first);
        }
    }
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 2);
}

#[test]
fn nonce_of_another_lease_is_55000() {
    let (_server, mut client) = registry();
    let with = |arguments: &str, digit| format!("{arguments}, nonce => '{}'", uuid(digit));
    let mut lease = client.register(&with("'a', 7", 1)).expect("a lease");
    for other in ["'b'", "'a', 8"] {
        refused(client.register(&with(other, 1)), "55000");
    }
    client.renew(&mut lease).expect("a renewal");
    refused(client.register(&with("'a', 7", 1)), "55000");
    let lease = client.register(&with("'a'", 2)).expect("a lease");
    client.release(&lease).expect("a release");
    refused(client.register(&with("'a'", 2)), "55000");
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 2);
}

/// Its worker id may have been somebody else's meanwhile.
#[test]
fn registration_that_arrives_after_its_lease_has_ended_revives_no_holder() {
    let (_server, mut client) = registry();
    let arguments = format!("'a', 0, nonce => '{}'", uuid(1));
    let mut first = client.register(&arguments).expect("a lease");
    client.run("UPDATE leaf.worker SET leased_until = clock_timestamp() - interval '1 s'");
    let other = client.register("'b', 0").expect("the same worker id");
    client.release(&other).expect("a release");
    let late = client.register(&arguments).expect("another lease");
    assert_eq!(late.nonce, first.nonce);
    refused(client.renew(&mut first), "55000");
}

/// `leaf_worker_renew` with a proposed token: token and ceiling.
fn propose(client: &mut Client, lease: &Lease, next: i64) -> Result<(i64, String), Error> {
    let row = client.query_one(
        "SELECT token, ceiling::text FROM leaf_worker_renew($1, $2::text::uuid, $3, next_token => $4)",
        &[&lease.worker_id, &lease.nonce, &lease.token, &next],
    )?;
    Ok((row.get(0), row.get(1)))
}

#[test]
fn repeated_renewal_is_answered_the_same_way() {
    let (server, mut client) = registry();
    let mut lease = client.register("'a'").expect("a lease");
    let before = lease.clone();
    for next in [1_000, 7, i64::MAX - 1] {
        let first = propose(&mut client, &lease, next).expect("a renewal");
        assert_eq!(first.0, next);
        for _ in 0..5 {
            let repeated = propose(&mut server.connect(), &lease, next);
            assert_eq!(repeated.expect("the same"), first);
        }
        // Another proposal is another renewal, of a token that is no more.
        refused(propose(&mut client, &lease, next - 1), "55000");
        lease.token = next;
    }
    refused(propose(&mut client, &before, 5), "55000");
    // A registration is repeated while its first token stands, and a release adds one.
    for unfit in [lease.token, -1, 0, 1, i64::MAX] {
        refused(propose(&mut client, &lease, unfit), "22023");
    }
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 1);
}

#[test]
fn renewals_that_propose_the_same_at_once_are_one() {
    let (server, mut client) = registry();
    let lease = client.register("'a'").expect("a lease");
    let answers: HashSet<(i64, String)> = thread::scope(|scope| {
        let renewals: Vec<_> = (0..8)
            .map(|_| {
                let mut client = server.connect();
                let lease = &lease;
                scope.spawn(move || propose(&mut client, lease, 42).expect("a renewal"))
            })
            .collect();
        renewals
            .into_iter()
            .map(|it| it.join().expect("no panic"))
            .collect()
    });
    assert_eq!(answers.len(), 1, "{answers:?}");
}

/// In a select list, `.*` calls a function once for each column.
#[test]
fn record_expanded_in_a_select_list_leases_nothing_and_breaks_no_lease() {
    let (_server, mut client) = registry();
    let mut lease = client.register("'a'").expect("a lease");
    let before = client.text("SELECT worker::text FROM leaf.worker");
    let renew = format!(
        "leaf_worker_renew({}, '{}', {})",
        lease.worker_id, lease.nonce, lease.token
    );
    for call in ["leaf_worker_register('b')", &renew] {
        for expansion in [
            format!("SELECT ({call}).*"),
            format!("SELECT ({call}).token"),
            format!("SELECT ({call}).* FROM generate_series(1, 3)"),
        ] {
            refused(client.batch_execute(&expansion), "0A000");
        }
    }
    assert_eq!(client.text("SELECT worker::text FROM leaf.worker"), before);
    client.renew(&mut lease).expect("the lease is whole");
}

/// The file has its ceiling, which the registry does not.
#[test]
fn renewal_that_was_rolled_back_can_be_repeated() {
    let (_server, mut client) = registry();
    let mut lease = client.register("'a'").expect("a lease");
    let mut undone = lease.clone();
    client.run("BEGIN");
    client.renew(&mut undone).expect("a renewal");
    client.run("ROLLBACK");
    client.renew(&mut lease).expect("it still holds the lease");
    assert!(lease.ceiling >= undone.ceiling, "its holder may rely on it");
}
