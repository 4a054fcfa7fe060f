//! Sessions that wait for ids cost none.

use crate::bounded_waits::waiters::sixteen_waiters;
use crate::bounded_waits::waits::impatient;
use leaf_tests::{Draw, Ledger, Server, slow_grants, wait_until};
use std::thread;

#[test]
fn waiters_burn_no_ids() {
    let (server, _client) = impatient();
    let mut holder = server.connect();
    holder.run("BEGIN; SELECT * FROM leaf.alloc WHERE biz_tag = 'orders' FOR UPDATE");
    let mut ids: Vec<i64> = sixteen_waiters(&server, "1h", |_| holder.run("ROLLBACK"))
        .into_iter()
        .map(|result| result.expect("an id"))
        .collect();
    ids.sort_unstable();
    // The one grant that came served them all, from its first id on.
    assert_eq!(ids, (1..=16).collect::<Vec<_>>());
}

#[test]
fn cancelled_callers_burn_no_ids() {
    let (server, mut client) = impatient();
    let mut holder = server.connect();
    holder.run("BEGIN; SELECT * FROM leaf.alloc WHERE biz_tag = 'orders' FOR UPDATE");
    for result in sixteen_waiters(&server, "1h", |observer| {
        observer.run(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
              WHERE query LIKE '%leaf_segment_next%' AND pid <> pg_backend_pid()",
        );
    }) {
        result.expect_err("a cancelled call");
    }
    holder.run("ROLLBACK");
    assert_eq!(client.next("orders").expect("an id"), 1);
}

/// Slots pass from one tag to the next all the time. No id is lost over that, because
/// nothing is granted behind the ids that an evicted tag has not used.
#[test]
fn more_waiting_tags_than_slots_waste_no_ids_and_all_get_their_turn() {
    const SESSIONS: usize = 24;
    let server = Server::options()
        .set("leaf.max_tags", "16")
        .set("leaf.loader_idle_timeout", "1h")
        .start();
    let mut admin = server.connect();
    admin.run(&format!(
        "SELECT leaf_tag_create('tag' || n) FROM generate_series(1, {SESSIONS}) AS n"
    ));
    slow_grants(&mut admin, 0.005);
    let ids = thread::scope(|scope| {
        let sessions: Vec<_> = (1..=SESSIONS)
            .map(|number| {
                let mut client = server.connect();
                scope.spawn(move || {
                    let tag = format!("tag{number}");
                    client.run("SET leaf.wait_timeout = '30s'");
                    let mut ledger = Ledger::new();
                    for _ in 0..20 {
                        ledger.add([client.next(&tag).expect("an id")]);
                    }
                    ledger.len()
                })
            })
            .collect();
        let sessions = sessions.into_iter();
        sessions
            .map(|session| session.join().expect("no panic"))
            .sum::<usize>()
    });
    assert_eq!(ids, SESSIONS * 20);
    let wasted =
        "SELECT sum(granted_up_to - coalesce(current_left, 0) - coalesce(next_left, 0))::bigint
                    FROM leaf.stat_segment";
    let mut seen = 0;
    wait_until("unused ids are in memory or back in their rows", || {
        seen = admin.number(wasted);
        seen <= ids as i64
    });
    assert_eq!(seen, ids as i64);
}
