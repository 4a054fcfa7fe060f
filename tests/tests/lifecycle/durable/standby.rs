//! A standby that does not confirm: what it has not got is not handed out.

use crate::never_twice::history::primary;
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Server, Snowflake, refused, wait_until, waiting_loaders};
use std::thread;

/// A primary that waits for a synchronous standby which does not exist; `call`
/// draws meanwhile and must not be given anything unconfirmed.
fn refused_unconfirmed<T: Send + std::fmt::Debug>(
    call: impl Fn(&mut Client) -> Result<T, leaf_tests::postgres::Error> + Sync,
) -> Server {
    let server = primary();
    server.reload("synchronous_standby_names", "nobody");
    let mut observer = server.connect();
    thread::scope(|scope| {
        let session = scope.spawn(|| {
            let mut client = server.connect();
            client.run("SET leaf.wait_timeout = '4s'");
            call(&mut client)
        });
        for _ in 0..2 {
            let mut loader = 0;
            wait_until("a grant waits for the standby", || {
                loader = observer.number(
                    "SELECT coalesce(max(pid), 0)::bigint FROM pg_stat_activity
                      WHERE backend_type = 'leaf loader' AND wait_event = 'SyncRep'",
                );
                loader != 0 || session.is_finished()
            });
            observer.run(&format!("SELECT pg_terminate_backend({loader})"));
            wait_until("that loader is gone", || {
                !server.loaders("postgres").contains(&(loader as i32))
            });
        }
        refused(session.join().expect("a session"), "55P03");
    });
    server
}

fn unconfirmed<T: Send + std::fmt::Debug>(
    call: impl Fn(&mut Client) -> Result<T, leaf_tests::postgres::Error> + Sync,
) {
    let server = refused_unconfirmed(call);
    let mut observer = server.connect();
    // The grants were committed here all the same; their ids are lost.
    let thrown_away = observer.number("SELECT max_id FROM leaf.alloc");
    assert!(thrown_away > 1);
    server.reload("synchronous_standby_names", "");
    let id = server.connect().next("orders").expect("an id");
    assert!(id >= thrown_away, "{id} was never confirmed");
}

#[test]
fn unconfirmed_grant_is_thrown_away() {
    unconfirmed(|client| client.next("orders"));
}

#[test]
fn unconfirmed_block_is_thrown_away() {
    unconfirmed(|client| client.reserve("orders", 10));
}

#[test]
fn unconfirmed_ceiling_is_not_used() {
    let server = refused_unconfirmed(|client| client.snowflake());
    let mut client = server.connect();
    // It was committed here all the same, and is kept to.
    let ceiling = client.ceiling(0);
    server.reload("synchronous_standby_names", "");
    let id = client.snowflake().expect("an id");
    assert!(client.parts(id).created_at >= ceiling);
}

/// `pg_cancel_backend` would end the wait for the standby without an error.
#[test]
fn cancel_does_not_make_the_loader_believe_in_a_confirmation() {
    let server = primary();
    server.reload("synchronous_standby_names", "nobody");
    let mut observer = server.connect();
    thread::scope(|scope| {
        let session = scope.spawn(|| {
            let mut client = server.connect();
            client.run("SET leaf.wait_timeout = '4s'");
            client.next("orders")
        });
        wait_until("a grant waits for the standby", || {
            waiting_loaders(&mut observer, "SyncRep") == 1
        });
        observer.run(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
              WHERE backend_type = 'leaf loader'",
        );
        refused(session.join().expect("a session"), "55P03");
    });
}
