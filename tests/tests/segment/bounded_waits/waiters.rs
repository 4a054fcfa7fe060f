//! Sessions while they wait for ids: they can be cancelled and terminated, and leave their
//! place to others when they give up.

use crate::bounded_waits::waits::impatient;
use leaf_tests::postgres::Client;
use leaf_tests::{
    Draw, Server, Signal, failed, refused, signal, slow_grants, wait_until, waiting_callers,
    waiting_loaders,
};
use std::thread;

#[test]
fn waiting_caller_can_be_terminated() {
    let (server, mut client) = impatient();
    let mut holder = server.connect();
    holder.run("BEGIN; SELECT * FROM leaf.alloc WHERE biz_tag = 'orders' FOR UPDATE");
    client.run("SET leaf.wait_timeout = '1h'");
    let pid = client.number("SELECT pg_backend_pid()::bigint");
    thread::scope(|scope| {
        let session = scope.spawn(|| client.next("orders"));
        let mut observer = server.connect();
        wait_until("the caller waits", || {
            waiting_callers(&mut observer, "leaf_segment") == 1
        });
        observer.run(&format!("SELECT pg_terminate_backend({pid})"));
        session
            .join()
            .expect("a session")
            .expect_err("a terminated session");
    });
    holder.run("ROLLBACK");
    server.connect().next("orders").expect("others go on");
}

/// Sixteen callers wait for the first grant of `orders`; `then` says what happens
/// once all of them do.
pub fn sixteen_waiters(
    server: &Server,
    timeout: &str,
    then: impl FnOnce(&mut Client),
) -> Vec<Result<i64, leaf_tests::postgres::Error>> {
    thread::scope(|scope| {
        let sessions: Vec<_> = (0..16)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = server.connect();
                    client.run(&format!("SET leaf.wait_timeout = '{timeout}'"));
                    client.next("orders")
                })
            })
            .collect();
        let mut observer = server.connect();
        wait_until("sixteen callers wait", || {
            waiting_callers(&mut observer, "leaf_segment") == 16
        });
        then(&mut observer);
        sessions
            .into_iter()
            .map(|session| session.join().expect("a session"))
            .collect()
    })
}

#[test]
fn waiters_time_out_one_by_one_and_leave_nothing_behind() {
    let (server, mut client) = impatient();
    let mut holder = server.connect();
    holder.run("BEGIN; SELECT * FROM leaf.alloc WHERE biz_tag = 'orders' FOR UPDATE");
    for result in sixteen_waiters(&server, "3s", |_| {}) {
        refused(result, "55P03");
    }
    assert!(client.stat("orders", "timeouts") >= 16);
    holder.run("ROLLBACK");
    client.next("orders").expect("an id");
}

#[test]
fn caller_that_waits_for_a_dropped_tag_is_told_at_once() {
    let (server, mut client) = impatient();
    client.run("SET leaf.wait_timeout = '1h'");
    let mut holder = server.connect();
    holder.run("BEGIN; DELETE FROM leaf.alloc WHERE biz_tag = 'orders'");
    thread::scope(|scope| {
        let session = scope.spawn(|| client.next("orders"));
        let mut observer = server.connect();
        wait_until("the caller waits", || {
            waiting_callers(&mut observer, "leaf_segment") == 1
        });
        holder.run("COMMIT");
        wait_until("the caller is told", || session.is_finished());
        refused(session.join().expect("a session"), "42704");
    });
}

/// There is room for 64 requests at once.
#[test]
fn reserves_that_were_given_up_leave_room_for_others() {
    let (server, mut client) = impatient();
    let mut holder = server.connect();
    holder.run("BEGIN; SELECT * FROM leaf.alloc WHERE biz_tag = 'orders' FOR UPDATE");
    for round in 0..80 {
        if round % 2 == 0 {
            client.run("SET leaf.wait_timeout = '1ms'; SET statement_timeout = 0");
            refused(client.reserve("orders", 10), "55P03");
        } else {
            client.run("SET leaf.wait_timeout = '1h'; SET statement_timeout = '20ms'");
            failed(client.reserve("orders", 10), "57014");
        }
    }
    holder.run("ROLLBACK");
    client.run("SET leaf.wait_timeout = '20s'; SET statement_timeout = 0");
    client.reserve("orders", 10).expect("a block");
}

#[test]
fn row_that_fails_is_no_failure_of_rows_loaded_with_it() {
    let (server, mut client) = impatient();
    client.next("orders").expect("a loader is at work");
    client.run(
        "SELECT leaf_tag_create('good'); SELECT leaf_tag_create('bad');
         ALTER TABLE leaf.alloc ADD CONSTRAINT broken_by_test
         CHECK (biz_tag <> 'bad' OR max_id <= 1) NOT VALID",
    );
    let loader = server.stop_sleeping_loader();
    thread::scope(|scope| {
        let call = |tag: &'static str, timeout: &'static str| {
            let mut caller = server.connect();
            caller.run(&format!("SET leaf.wait_timeout = '{timeout}'"));
            scope.spawn(move || caller.next(tag))
        };
        let (good, bad) = (call("good", "30s"), call("bad", "5s"));
        let mut observer = server.connect();
        wait_until("both callers wait", || {
            waiting_callers(&mut observer, "leaf_segment") == 2
        });
        signal(loader, Signal::SIGCONT);
        assert_eq!(good.join().expect("a session").expect("an id"), 1);
        refused(bad.join().expect("a session"), "55P03");
    });
    let blamed =
        client.number("SELECT count(*) FROM leaf.stat_segment WHERE last_error IS NOT NULL");
    assert_eq!(blamed, 1, "only the tag whose row fails");
}

#[test]
fn tag_that_somebody_waits_for_keeps_its_slot() {
    let server = Server::options().set("leaf.max_tags", "16").start();
    let mut client = server.connect();
    client.run(
        "SELECT leaf_tag_create('orders');
         SELECT leaf_tag_create('tag' || n) FROM generate_series(0, 16) AS n",
    );
    client.next("orders").expect("a loader is at work");
    let loader = server.stop_sleeping_loader();
    thread::scope(|scope| {
        let callers: Vec<_> = (0..16)
            .map(|n| {
                let mut caller = server.connect();
                scope.spawn(move || caller.next(&format!("tag{n}")))
            })
            .collect();
        let mut observer = server.connect();
        wait_until("every slot has somebody who waits for it", || {
            waiting_callers(&mut observer, "leaf_segment") == 16
        });
        client.run("SET leaf.wait_timeout = '1s'");
        refused(client.next("tag16"), "53400");
        signal(loader, Signal::SIGCONT);
        for caller in callers {
            assert_eq!(caller.join().expect("a session").expect("an id"), 1);
        }
    });
    client.next("tag16").expect("a slot, now that nobody waits");
}

/// Who gives up while the loader has his request in hand leaves it to the loader to
/// make room again.
#[test]
fn reserves_given_up_while_they_are_granted_leave_room_for_others() {
    let (server, mut client) = impatient();
    client.next("orders").expect("a loader is at work");
    slow_grants(&mut client, 2.0);
    // There is room for 64 requests.
    for _ in 0..2 {
        let loader = server.stop_sleeping_loader();
        thread::scope(|scope| {
            let callers: Vec<_> = (0..33)
                .map(|_| {
                    let mut caller = server.connect();
                    caller.run("SET leaf.wait_timeout = '1h'");
                    scope.spawn(move || caller.reserve("orders", 10))
                })
                .collect();
            let mut observer = server.connect();
            wait_until("all of them wait", || {
                waiting_callers(&mut observer, "leaf_segment") == 33
            });
            signal(loader, Signal::SIGCONT);
            wait_until("the loader grants their blocks", || {
                waiting_loaders(&mut observer, "PgSleep") == 1
            });
            observer.run(
                "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
                  WHERE query LIKE '%leaf_segment_reserve%' AND pid <> pg_backend_pid()",
            );
            for caller in callers {
                caller
                    .join()
                    .expect("a session")
                    .expect_err("a cancelled call");
            }
        });
    }
    client.run("DROP TRIGGER slow ON leaf.alloc; SET leaf.wait_timeout = '20s'");
    client.reserve("orders", 10).expect("a block");
}
