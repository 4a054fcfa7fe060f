//! Waits for a worker id, its ceiling and the next tick.

use crate::registry::registry;
use leaf_tests::postgres::{Error, NoTls};
use leaf_tests::{Draw, Order, Server, Snowflake, failed, refused, wait_until, waiting_callers};
use std::fs::File;
use std::thread;

/// Another process has the files locked, as one does that has been stopped.
#[test]
fn wait_for_the_file_of_ceilings_obeys_the_statement_timeout_and_a_cancel() {
    let (server, mut client) = registry();
    let mut lease = client.register("'a'").expect("a lease");
    let lock = File::open(server.data().join("leaf")).expect("the folder");
    lock.lock().expect("the lock");
    client.run("SET statement_timeout = '300ms'");
    refused_by_postgres(client.register("'b'"));
    refused_by_postgres(client.renew(&mut lease));
    client.run("SET statement_timeout = 0");
    let cancel = client.cancel_token();
    let mut observer = server.connect();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| client.register("'b'").map(|_| ()));
        wait_until("it waits", || {
            waiting_callers(&mut observer, "leaf_worker_register") == 1
        });
        cancel.cancel_query(NoTls).expect("it is cancelled");
        refused_by_postgres(waiting.join().expect("no panic"));
    });
    // The server's own lease is not waited for without end, and segment ids are drawn.
    client.run("SELECT leaf_tag_create('orders'); SET leaf.wait_timeout = '3s'");
    refused(client.snowflake(), "55P03");
    client.next("orders").expect("a segment id");
    client.run("SET lock_timeout = '300ms'");
    refused(client.register("'b'"), "55P03");
    lock.unlock().expect("the lock");
    client.renew(&mut lease).expect("a renewal");
    client.snowflake().expect("an id");
}

/// The statement was cancelled.
fn refused_by_postgres<T>(result: Result<T, Error>) {
    let error = result.err().expect("an error");
    assert_eq!(
        error.code().map(|code| code.code()),
        Some("57014"),
        "{error:?}"
    );
}

#[test]
fn registration_on_a_locked_table_is_55p03_with_its_cause() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders'); SET leaf.wait_timeout = '1s'");
    let mut holder = server.connect();
    holder.run("BEGIN; LOCK TABLE leaf.worker IN ACCESS EXCLUSIVE MODE");
    // Who is not told by leaf is cancelled by this.
    client.run("SET statement_timeout = '20s'");
    for error in [
        refused(client.snowflake(), "55P03"),
        refused(client.snowflakes(5), "55P03"),
    ] {
        assert!(
            error.detail().is_some_and(|text| text.contains("lock")),
            "{error:?}"
        );
    }
    client.batch("orders", 20_000).expect("segment ids");
    holder.run("ROLLBACK");
    client.snowflake().expect("an id");
    assert!(client.snowflake_stat::<i64>("timeouts::bigint") >= Some(2));
}

#[test]
fn renewal_on_a_locked_table_stops_at_the_ceiling_with_its_cause() {
    let server = Server::options().set("leaf.ceiling_ahead", "1s").start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders'); SET leaf.wait_timeout = '1s'");
    let order = Order::new();
    order.ascending(|| client.snowflakes(100)).expect("ids");
    let mut holder = server.connect();
    holder.run("BEGIN; LOCK TABLE leaf.worker IN ACCESS EXCLUSIVE MODE");
    let ceiling = holder.ceiling(0);
    let mut drawn = Vec::new();
    let mut refusal = None;
    wait_until("the ceiling is reached", || {
        match order.ascending(|| client.snowflakes(10)) {
            Ok(ids) => drawn.extend(ids),
            error => refusal = Some(refused(error, "55P03")),
        }
        refusal.is_some()
    });
    let detail = refusal.and_then(|error| error.detail().map(str::to_owned));
    assert!(
        detail.as_ref().is_some_and(|text| text.contains("lock")),
        "{detail:?}"
    );
    for id in drawn {
        assert!(client.parts(id).created_at < ceiling);
    }
    client.batch("orders", 20_000).expect("segment ids");
    holder.run("ROLLBACK");
    order.ascending(|| client.snowflakes(100)).expect("ids");
}

/// Half-way to the ceiling, so that no caller waits for it.
#[test]
fn ceiling_is_raised_long_before_ids_reach_it() {
    let server = Server::options().set("leaf.ceiling_ahead", "4s").start();
    let mut client = server.connect();
    client.snowflake().expect("an id");
    for _ in 0..3 {
        let before = client.ceiling(0);
        let mut last = 0;
        wait_until("the ceiling is raised", || {
            let id = client.snowflake().expect("an id");
            last = client.parts(id).created_at;
            client.ceiling(0) > before
        });
        assert!(last < before - 500, "an id of {last} at {before}");
    }
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
fn batch_waiting_for_the_next_tick_can_be_cut_off() {
    let server = Server::options()
        .set("leaf.snowflake_layout", "custom:33,10,1,1s")
        .start();
    let mut client = server.connect();
    client.run("SET statement_timeout = '3s'");
    // It would take a week.
    failed(client.snowflakes(1_000_000), "57014");
    client.snowflake().expect("the session goes on");
}
