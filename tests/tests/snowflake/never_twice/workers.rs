//! The worker id of the server itself: leased once, kept over restarts, shared with
//! no copy, and given up rather than used twice.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Load, Mode, Order, Server, Snowflake, refused, wait_until};
use std::sync::Barrier;
use std::thread;

/// Draws an id; whose it is.
pub fn worker(client: &mut Client) -> i32 {
    let id = client.snowflake().expect("an id");
    client.parts(id).worker_id
}

#[test]
fn first_draws_of_32_sessions_lease_one_worker_id() {
    let server = Server::start();
    let together = Barrier::new(32);
    let mut ledger = Ledger::new();
    thread::scope(|scope| {
        let sessions: Vec<_> = (0..32)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = server.connect();
                    together.wait();
                    client.snowflake().expect("no caller fails")
                })
            })
            .collect();
        ledger.add(sessions.into_iter().map(|s| s.join().expect("a session")));
    });
    let mut client = server.connect();
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 1);
    assert_eq!(worker(&mut client), 0);
}

#[test]
fn restarted_server_takes_its_own_lease_again() {
    // A lease lasts as long as its ceiling at least.
    let mut server = Server::options()
        .set("leaf.worker_lease", "1s")
        .set("leaf.ceiling_ahead", "200ms")
        .start();
    let mut others = server.connect();
    others.register("'other'").expect("a lease");
    assert_eq!(worker(&mut others), 1);
    drop(others);
    let expired = "SELECT count(*) FROM leaf.worker WHERE leased_until < clock_timestamp()";
    for round in 0..4 {
        if round % 2 == 1 {
            // Expired or not makes no difference to its owner.
            let mut client = server.connect();
            wait_until("the leases have run out", || client.number(expired) == 2);
        }
        match round {
            0 | 1 => server.stop(Mode::Fast),
            2 => server.stop(Mode::Immediate),
            _ => server.kill_postmaster(),
        }
        server.start_again();
        let mut client = server.connect();
        assert_eq!(worker(&mut client), 1, "round {round}");
        assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 2);
    }
}

#[test]
fn own_lease_that_ran_out_while_idle_is_taken_again() {
    let server = Server::options()
        .set("leaf.worker_lease", "1s")
        .set("leaf.ceiling_ahead", "200ms")
        .start();
    let mut client = server.connect();
    let order = Order::new();
    for _ in 0..3 {
        order.ascending(|| client.snowflakes(5_000)).expect("ids");
        assert_eq!(worker(&mut client), 0);
        wait_until("the lease has run out", || {
            client.number("SELECT count(*) FROM leaf.worker WHERE leased_until < clock_timestamp()")
                == 1
        });
    }
}

#[test]
fn worker_whose_lease_somebody_else_took_stops_at_its_ceiling() {
    let server = Server::start();
    let mut client = server.connect();
    let mut drawn = client.snowflakes(1_000).expect("ids");
    // As another holder of the same lease would, who was quicker.
    client.run(
        "UPDATE leaf.worker SET node = 'thief', nonce = gen_random_uuid(), token = token + 1,
                leased_until = clock_timestamp() + interval '1 hour'",
    );
    let ceiling = client.ceiling(0);
    client.run("SET leaf.wait_timeout = '200ms'");
    wait_until("the server has leased another worker id", || {
        match client.snowflakes(10) {
            Ok(ids) => drawn.extend(ids),
            Err(error) => {
                let code = error.code().map_or("", |code| code.code());
                assert!(["55000", "55P03"].contains(&code), "{error:?}");
            }
        }
        client.parts(drawn[drawn.len() - 1]).worker_id != 0
    });
    let mut ledger = Ledger::new();
    ledger.add(drawn.iter().copied());
    for id in drawn {
        let parts = client.parts(id);
        assert!(
            parts.worker_id != 0 || parts.created_at < ceiling,
            "{parts:?} is the thief's"
        );
    }
}

#[test]
fn manual_worker_id_is_used_and_kept() {
    let mut server = Server::options().set("leaf.worker_id", "7").start();
    for mode in [Mode::Fast, Mode::Immediate] {
        assert_eq!(worker(&mut server.connect()), 7);
        server.restart(mode);
    }
    let mut client = server.connect();
    assert_eq!(worker(&mut client), 7);
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 1);
    // Whom the registry asks next is given another.
    refused(client.register("'a', 7"), "55006");
}

#[test]
fn manual_worker_id_out_of_range_is_22023() {
    let server = Server::options().set("leaf.worker_id", "1024").start();
    let mut client = server.connect();
    refused(client.snowflake(), "22023");
    refused(client.snowflakes(5), "22023");
    server.reload("leaf.worker_id", "1023");
    assert_eq!(worker(&mut client), 1_023);
}

#[test]
fn manual_worker_id_of_another_node_is_55006() {
    let server = Server::options().set("leaf.worker_id", "7").start();
    let mut client = server.connect();
    let lease = client.register("'other', 7").expect("a lease");
    refused(client.snowflake(), "55006");
    refused(client.snowflakes(5), "55006");
    client.release(&lease).expect("a release");
    wait_until("the server has leased it", || client.snowflake().is_ok());
    let id = client.snowflake().expect("an id");
    let parts = client.parts(id);
    assert_eq!(parts.worker_id, 7);
    assert!(parts.created_at >= lease.ceiling);
}

#[test]
fn manual_worker_id_of_another_history_is_55000() {
    let server = Server::options().set("leaf.worker_id", "7").start();
    let mut client = server.connect();
    client.register("'other', 7").expect("a lease");
    client.run(
        "UPDATE leaf.worker SET history = 'elsewhere', leased_until = clock_timestamp() - '1 day'::interval",
    );
    refused(client.snowflake(), "55000");
    server.reload("leaf.worker_id", "8");
    assert_eq!(worker(&mut client), 8);
}

#[test]
fn databases_of_one_server_are_registries_of_their_own() {
    let server = Server::start();
    let mut first = server.connect();
    first.run("CREATE DATABASE other");
    let mut second = server.connect_as("postgres", "other");
    second.run("CREATE EXTENSION leaf");
    for client in [&mut first, &mut second] {
        assert_eq!(worker(client), 0);
        assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 1);
        assert_eq!(client.number("SELECT count(*) FROM leaf.stat_snowflake"), 1);
    }
    let issued = first.snowflake_stat::<String>("last_issued_at::text");
    second.snowflakes(10_000).expect("ids");
    assert_eq!(
        first.snowflake_stat::<String>("last_issued_at::text"),
        issued
    );
}

#[test]
fn copied_database_takes_another_worker_id_than_its_template() {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run("CREATE DATABASE work");
    let mut work = server.connect_as("postgres", "work");
    work.run("CREATE EXTENSION leaf");
    assert_eq!(worker(&mut work), 0);
    drop(work);
    wait_until("the database can be copied", || {
        admin
            .batch_execute("CREATE DATABASE copy TEMPLATE work")
            .is_ok()
    });
    let mut copy = server.connect_as("postgres", "copy");
    assert_ne!(worker(&mut copy), 0);
    assert_eq!(worker(&mut server.connect_as("postgres", "work")), 0);
}

#[test]
fn restored_dump_takes_another_worker_id_than_its_original() {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run("CREATE DATABASE work");
    admin.run("CREATE DATABASE restored");
    let mut work = server.connect_as("postgres", "work");
    work.run("CREATE EXTENSION leaf");
    assert_eq!(worker(&mut work), 0);
    server.dump_and_restore("work", "restored");
    let mut restored = server.connect_as("postgres", "restored");
    assert_ne!(worker(&mut restored), 0);
    assert_eq!(worker(&mut work), 0);
}

#[test]
fn promoted_standby_takes_another_worker_id_than_the_old_primary() {
    let primary = Server::start();
    let mut old = primary.connect();
    assert_eq!(worker(&mut old), 0);
    let standby = Server::options().start_standby_of(&primary);
    standby.catch_up_with(&primary);
    let mut new = standby.connect();
    refused(new.snowflake(), "25006");
    standby.promote();
    let promoted = worker(&mut new);
    assert_ne!(promoted, 0);
    let mut ledger = Ledger::new();
    for _ in 0..20 {
        for (client, expected) in [(&mut old, 0), (&mut new, promoted)] {
            let ids = client.snowflakes(5_000).expect("both go on");
            assert_eq!(client.parts(ids[0]).worker_id, expected);
            ledger.add(ids);
        }
    }
}

#[test]
fn terminated_loader_is_followed_by_another() {
    let server = Server::options().set("leaf.ceiling_ahead", "500ms").start();
    let mut admin = server.connect();
    Load::of_snowflakes(&server.config("postgres", "postgres"), 2, |load| {
        for _ in 0..5 {
            load.goes_on(5_000);
            wait_until("a loader was there to be terminated", || {
                let loaders = server.loaders("postgres");
                for loader in &loaders {
                    admin.run(&format!("SELECT pg_terminate_backend({loader})"));
                }
                !loaders.is_empty()
            });
        }
        load.goes_on(5_000);
        assert_eq!((load.refusals(), load.lost()), (0, 0));
    });
    assert_eq!(worker(&mut admin), 0);
}
