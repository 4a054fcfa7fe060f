//! Many sessions at once, and batches without end: waits end, and a call can be given up.

use leaf_tests::postgres::NoTls;
use leaf_tests::{Draw, Server, Stop, failed, slow_grants, wait_until};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Draws about a million ids a second while every grant takes `delay` longer,
/// until five grants in a row were made without anybody having to wait.
fn busy_under_slow_grants(delay: Duration) {
    let server = Server::start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('busy', step => 1000)");
    slow_grants(&mut client, delay.as_secs_f64());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let stop = Stop(&done);
        let sessions: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = server.connect();
                    let draw =
                        "SELECT count(leaf_segment_next('busy')) FROM generate_series(1, 5000)";
                    let mut due = Instant::now();
                    while !done.load(Ordering::Relaxed) {
                        assert_eq!(client.number(draw), 5_000);
                        // A pace of 250,000 a second; who was held up does not catch up.
                        due = (due + Duration::from_millis(20)).max(Instant::now());
                        thread::sleep(due - Instant::now());
                    }
                })
            })
            .collect();
        let mut settled_since = (0, 0);
        wait_until("five grants in a row made nobody wait", || {
            let (loads, waits) = (client.stat("busy", "loads"), client.stat("busy", "waits"));
            if waits != settled_since.1 {
                settled_since = (loads, waits);
            }
            loads >= settled_since.0 + 5 || sessions.iter().any(|session| session.is_finished())
        });
        drop(stop);
        for session in sessions {
            session.join().expect("no caller fails");
        }
    });
    assert_eq!(client.stat("busy", "timeouts"), 0);
}

#[test]
fn grants_of_5_ms_fail_no_caller_and_waits_end() {
    busy_under_slow_grants(Duration::from_millis(5));
}

#[test]
fn grants_of_20_ms_fail_no_caller_and_waits_end() {
    busy_under_slow_grants(Duration::from_millis(20));
}

#[test]
fn grants_of_50_ms_fail_no_caller_and_waits_end() {
    busy_under_slow_grants(Duration::from_millis(50));
}

#[test]
fn grants_of_200_ms_fail_no_caller_and_waits_end() {
    busy_under_slow_grants(Duration::from_millis(200));
}

#[test]
fn batch_can_be_cancelled() {
    let (server, mut client) = Server::with_orders(1000);
    let first = client.next("orders").expect("an id");
    let cancel = client.cancel_token();
    thread::scope(|scope| {
        let session = scope.spawn(|| {
            let all = "SELECT sum(leaf_segment_batch) FROM
                       (SELECT leaf_segment_batch('orders', 2147483647)) AS drawn";
            client.batch_execute(all)
        });
        let mut observer = server.connect();
        wait_until("the batch is under way", || {
            observer.stat("orders", "position") > first + 10_000
        });
        cancel.cancel_query(NoTls).expect("a cancel request");
        failed(session.join().expect("a session"), "57014");
    });
    client.next("orders").expect("the session goes on");
}
