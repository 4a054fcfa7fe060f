//! Worker ids: whom they are leased to, and from when on; and random calls, after which no worker id
//! was anybody's twice for one instant.

use std::time::{SystemTime, UNIX_EPOCH};

use leaf_tests::postgres::{Client, Error, Row};
use leaf_tests::{Draw, Ledger, Server, refused};

use crate::reserve;

/// A lease, with instants in microseconds since 1970.
#[derive(Clone, Debug)]
pub struct Lease {
    pub worker_id: i32,
    nonce: String,
    token: i64,
    start: i64,
    ceiling: i64,
}

fn us(row: &Row, column: &str) -> i64 {
    let at: SystemTime = row.get(column);
    let after = at.duration_since(UNIX_EPOCH).expect("after 1970");
    i64::try_from(after.as_micros()).expect("of this age")
}

fn nonce() -> String {
    format!("{:032x}", fastrand::u128(..))
}

/// `leaf_worker_register` with a nonce; other arguments as SQL has them.
pub fn lease_with(client: &mut Client, nonce: &str, arguments: &str) -> Result<Lease, Error> {
    let call = format!("CALL leaf_worker_register({arguments}, nonce => '{nonce}')");
    let row = client.query_one(&call, &[])?;
    Ok(Lease {
        worker_id: row.get("worker_id"),
        nonce: nonce.to_owned(),
        token: row.get("token"),
        start: us(&row, "start_at"),
        ceiling: us(&row, "ceiling"),
    })
}

/// The same with a nonce of its own.
pub fn lease(client: &mut Client, arguments: &str) -> Result<Lease, Error> {
    lease_with(client, &nonce(), arguments)
}

/// `leaf_worker_renew`; the lease is brought up to date.
pub fn renew(client: &mut Client, lease: &mut Lease) -> Result<(), Error> {
    renew_with(client, lease, "")
}

fn renew_with(client: &mut Client, lease: &mut Lease, arguments: &str) -> Result<(), Error> {
    let Lease {
        worker_id,
        nonce,
        token,
        ..
    } = &lease;
    let call = format!("CALL leaf_worker_renew({worker_id}, '{nonce}', {token}{arguments})");
    let row = client.query_one(&call, &[])?;
    lease.token = row.get("token");
    lease.ceiling = us(&row, "ceiling");
    Ok(())
}

fn release(client: &mut Client, lease: &Lease, used_until: &str) -> Result<(), Error> {
    let Lease {
        worker_id,
        nonce,
        token,
        ..
    } = lease;
    let call = format!("CALL leaf_worker_release({worker_id}, '{nonce}', {token}, {used_until})");
    client.batch_execute(&call)
}

/// How much instants are moved in the rows, instead of waiting.
fn let_pass(client: &mut Client, time: &str) {
    client.run(&format!(
        "UPDATE leaf.worker SET ceiling = ceiling - interval '{time}', start_at = start_at - interval '{time}',
                                leased_until = leased_until - interval '{time}'"
    ));
}

#[test]
fn lowest_free_or_expired_worker_id_is_leased_above_its_ceiling() {
    let server = Server::options().plain().start();
    let mut client = server.connect();
    let leases: Vec<_> = (0..3)
        .map(|n| lease(&mut client, &format!("'node {n}'")).expect("a lease"))
        .collect();
    let ids: Vec<_> = leases.iter().map(|lease| lease.worker_id).collect();
    assert_eq!(ids, [0, 1, 2]);
    // What a node with a longer ceiling has used is not used again.
    client.run(
        "UPDATE leaf.worker SET leased_until = now() - interval '1 h' WHERE worker_id IN (1, 2)",
    );
    let next = lease(&mut client, "'next'").expect("a lease");
    assert_eq!(
        next.worker_id, 3,
        "a ceiling ahead of the clock is not expired"
    );
    client.run("UPDATE leaf.worker SET ceiling = now() - interval '1 ms' WHERE worker_id = 1");
    let ceiling = client.number("SELECT (extract(epoch FROM ceiling) * 1000000)::bigint FROM leaf.worker WHERE worker_id = 1");
    let next = lease(
        &mut client,
        "'next', clock => clock_timestamp() - interval '4 s'",
    )
    .expect("a lease");
    assert_eq!(next.worker_id, 1);
    assert!(next.start >= ceiling, "{next:?}");
    // A certain one, too.
    refused(lease(&mut client, "'other', 1"), "55006");
    refused(lease(&mut client, "'other', 1024"), "22023");
    assert_eq!(
        lease(&mut client, "'other', 700")
            .expect("a lease")
            .worker_id,
        700
    );
}

#[test]
fn nonce_and_token_show_whose_lease_it_is() {
    let server = Server::options().plain().start();
    let mut client = server.connect();
    let given = nonce();
    let mut held = lease_with(&mut client, &given, "'node'").expect("a lease");
    // An answer may be lost: the same call gets the same lease.
    let again = lease_with(&mut client, &given, "'node'").expect("the same lease");
    assert_eq!(
        (again.worker_id, again.token, again.start),
        (held.worker_id, held.token, held.start)
    );
    refused(lease_with(&mut client, &given, "'other'"), "55000");
    let before = held.clone();
    renew_with(&mut client, &mut held, ", next_token => 17").expect("a renewal");
    assert!(held.ceiling > before.ceiling && held.token == 17);
    let mut again = before.clone();
    renew_with(&mut client, &mut again, ", next_token => 17").expect("the same renewal");
    assert_eq!(again.ceiling, held.ceiling);
    // A copy of the node that goes on with the token of before.
    let mut copy = before.clone();
    let error = refused(renew(&mut client, &mut copy), "55000");
    assert!(
        error
            .hint()
            .expect("a hint")
            .contains("leaf_worker_register")
    );
    let mut stranger = Lease {
        nonce: nonce(),
        ..held.clone()
    };
    refused(renew(&mut client, &mut stranger), "55000");
    refused(release(&mut client, &stranger, "NULL"), "55000");
    refused(release(&mut client, &before, "NULL"), "55000");
    refused(lease_with(&mut client, &given, "'node'"), "55000");
    release(&mut client, &held, "clock_timestamp()").expect("a release");
    refused(renew(&mut client, &mut held), "55000");
    let mut next = lease(&mut client, "'next', ahead => '1 h'").expect("a lease");
    assert_eq!(next.worker_id, before.worker_id);
    // A ceiling only grows.
    let ceiling = next.ceiling;
    renew(&mut client, &mut next).expect("a renewal");
    assert_eq!(next.ceiling, ceiling);
}

/// A release lowers a ceiling to what was used, but not below where the lease has begun.
#[test]
fn release_keeps_what_was_used() {
    let server = Server::options().plain().start();
    let mut client = server.connect();
    for (used_until, is_lowered) in [
        ("NULL", false),
        ("'infinity'", false),
        ("'2020-01-01'", true),
        ("'-infinity'", true),
    ] {
        let held = lease(&mut client, "'node', ahead => '1 h'").expect("a lease");
        release(&mut client, &held, used_until).expect("a release");
        let ceiling = format!(
            "SELECT (extract(epoch FROM ceiling) * 1000000)::bigint FROM leaf.worker WHERE worker_id = {}",
            held.worker_id
        );
        let expected = if is_lowered { held.start } else { held.ceiling };
        assert_eq!(client.number(&ceiling), expected, "{used_until}");
    }
}

#[test]
fn wrong_clocks_and_arguments_lease_nothing() {
    let server = Server::options().plain().start();
    let mut client = server.connect();
    let mut held = lease(&mut client, "'node'").expect("a lease");
    for clock in [
        "clock_timestamp() - interval '6 s'",
        "clock_timestamp() + interval '1 h'",
        "'infinity'",
    ] {
        refused(
            lease(&mut client, &format!("'other', clock => {clock}")),
            "58000",
        );
        refused(
            renew_with(&mut client, &mut held, &format!(", clock => {clock}")),
            "58000",
        );
    }
    for arguments in [
        "''",
        "'node', ahead => '1 ms'",
        "'node', ahead => '2 d'",
        "'node', worker_id => -1",
        "NULL",
    ] {
        refused(lease(&mut client, arguments), "22023");
    }
    let own = format!(", next_token => {}", held.token);
    for arguments in [&own, ", next_token => 1", ", ahead => '30 h'"] {
        refused(renew_with(&mut client, &mut held, arguments), "22023");
    }
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 1);
    renew(&mut client, &mut held).expect("a renewal");
}

#[test]
fn layout_and_epoch_are_those_of_the_first_lease() {
    let server = Server::options()
        .plain()
        .set("leaf.snowflake_layout", "custom:41,1,12")
        .start();
    let mut client = server.connect();
    for _ in 0..2 {
        lease(&mut client, "'node'").expect("a lease");
    }
    let error = refused(lease(&mut client, "'node'"), "53400");
    assert!(error.hint().expect("a hint").contains("leaf.worker"));
    for change in [
        "snowflake_layout = 'leaf'",
        "snowflake_epoch = '2020-01-01'",
        "snowflake_layout = 'nosuch'",
    ] {
        client.run(&format!("BEGIN; UPDATE leaf.plain SET {change}; COMMIT"));
        let code = if change.contains("nosuch") {
            "22023"
        } else {
            "55000"
        };
        let error = refused(lease(&mut client, "'node'"), code);
        assert!(
            code == "55000" || error.message().contains("nosuch"),
            "{error:?}"
        );
        client.run(
            "UPDATE leaf.plain SET snowflake_layout = 'custom:41,1,12', snowflake_epoch = NULL",
        );
    }
    let_pass(&mut client, "1 d");
    lease(&mut client, "'node'").expect("a lease that had ended");
}

/// A node, and until when the ids of its lease may have been issued.
struct Node {
    lease: Lease,
    until: i64,
    is_over: bool,
}

/// Random calls of nodes and services, while the server's clock goes as it likes and histories end.
#[test]
fn two_thousand_random_calls_repeat_nothing() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let server = Server::options()
        .plain()
        .clock()
        .set("leaf.snowflake_layout", "custom:41,2,12")
        .start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders', step => 10)");
    let (mut nodes, mut ids, mut served) = (Vec::<Node>::new(), Ledger::new(), [0; 4]);
    let (mut now, mut released) = (1_790_000_000, None);
    for call in 0..2000 {
        // A worker id that was given back is what the next one gets.
        let (step, off, kind) = match released.take() {
            Some(()) => (1, -4, 0),
            None => (
                [0, 0, 0, 1, 3, 20, 700, -1, -30, -2000, 100_000, 2_700_000][random.usize(..12)],
                [0, 0, 1, -4, 4, 6, -6, -3600][random.usize(..8)],
                random.usize(..20),
            ),
        };
        now += step;
        server.clock().stand_at(now);
        let clock = format!("clock => clock_timestamp() + interval '{off} s'");
        let ahead = ["5 s", "100 ms", "1 h", "20 h", "30 h"][random.usize(..5)];
        let arguments = format!("{clock}, ahead => '{ahead}'");
        match kind {
            0..8 => {
                let nonce = nonce();
                let wanted =
                    [String::new(), format!("{}, ", random.usize(..5))][random.usize(..2)].clone();
                let arguments = format!("'node', {wanted}{arguments}");
                if let Ok(lease) = lease_with(&mut client, &nonce, &arguments) {
                    let again = lease_with(&mut client, &nonce, &arguments).expect("the same");
                    assert_eq!(again.start, lease.start);
                    nodes.push(Node {
                        until: lease.ceiling,
                        lease,
                        is_over: false,
                    });
                    served[0] += 1;
                }
            }
            // Also of leases that were lost, released or copied long ago.
            8..15 if !nodes.is_empty() => {
                let recent = nodes.len().saturating_sub(6);
                let at = [
                    random.usize(..nodes.len()),
                    random.usize(recent..nodes.len()),
                ][random.usize(..2)];
                let node = &mut nodes[at];
                let next = format!(", {arguments}, next_token => {}", 1000 + call);
                if renew_with(&mut client, &mut node.lease, &next).is_ok() {
                    assert!(!node.is_over, "it was released: {:?}", node.lease);
                    node.until = node.until.max(node.lease.ceiling);
                    served[1] += 1;
                }
            }
            15..17 if !nodes.is_empty() => {
                let at = random.usize(nodes.len().saturating_sub(6)..nodes.len());
                let node = &mut nodes[at];
                let Lease { start, ceiling, .. } = node.lease;
                let used = [
                    random.i64(start..=ceiling),
                    (now * 1_000_000).clamp(start, ceiling),
                ];
                let used = used[random.usize(..2)];
                let used_until =
                    format!("'epoch'::timestamptz + {used} * interval '1 microsecond'");
                if release(&mut client, &node.lease, &used_until).is_ok() {
                    (node.until, node.is_over, released) = (used, true, Some(()));
                    served[2] += 1;
                }
            }
            17 if random.usize(..20) == 0 => client.run("SELECT leaf_new_history()"),
            _ => {
                reserve(&mut client, "orders", random.i64(1..50), &mut ids);
                served[3] += 1;
            }
        }
    }
    assert!(served.iter().all(|count| *count > 20), "{served:?}");
    nodes.sort_by_key(|node| (node.lease.worker_id, node.lease.start));
    for pair in nodes.windows(2) {
        let [one, next] = pair else {
            unreachable!("windows of two")
        };
        assert!(
            one.lease.worker_id != next.lease.worker_id || one.until <= next.lease.start,
            "{:?} until {}, and {:?}",
            one.lease,
            one.until,
            next.lease
        );
    }
}
