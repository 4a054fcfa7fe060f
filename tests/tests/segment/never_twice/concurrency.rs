//! Many sessions at once: no id twice, ids ascend, and nobody is failed because
//! others draw as well.

use leaf_tests::{Draw, Ledger, Order, Server};
use std::thread;

const SESSIONS: usize = 16;

/// One session's part of the mix: all ways to draw, in transactions that roll
/// back, in savepoints, in statements that are cut off.
fn mix(server: &Server, session: usize, tags: &[(Tag, Order)]) -> Vec<(usize, Vec<i64>)> {
    let mut client = server.connect();
    let mut drawn = Vec::new();
    // With a cache, ids ascend within a session.
    let own: Vec<_> = tags.iter().map(|_| Order::new()).collect();
    for round in 0..60 {
        let which = (session + round) % tags.len();
        let ((tag, cache), order) = &tags[which];
        let order = if *cache == 1 { order } else { &own[which] };
        let ids = match (session + round * 7) % 6 {
            0 => order.ascending(|| client.next(tag).map(|id| vec![id])),
            1 => order.ascending(|| client.batch(tag, 1 + (round as i32 * 53) % 2_500)),
            2 => order.ascending(|| client.rows(tag, 300)),
            3 => order
                .above(|| client.reserve(tag, 1 + (round as i64 * 31) % 1_500))
                .map(|block| block.ids().collect()),
            4 => {
                client.run("BEGIN; SAVEPOINT before");
                let mut ids = order.ascending(|| client.rows(tag, 20)).expect("rows");
                client.run("ROLLBACK TO before");
                ids.extend(order.ascending(|| client.batch(tag, 20)).expect("a batch"));
                client.run("ROLLBACK");
                Ok(ids)
            }
            _ => {
                // Compiling it would take longer, and nothing would be drawn.
                let endless = format!(
                    "SET LOCAL jit = off; SET LOCAL statement_timeout = '3ms';
                     SELECT count(leaf_segment_next('{tag}')) FROM generate_series(1, 100000000)"
                );
                client.fails(&endless, "57014");
                order.ascending(|| client.batch(tag, 10))
            }
        };
        drawn.push((which, ids.expect("no caller fails")));
    }
    drawn
}

/// The name of a tag, and its cache.
type Tag = (&'static str, u32);

fn sixteen_sessions(tags: &[Tag]) {
    let server = Server::start();
    let mut client = server.connect();
    for (tag, cache) in tags {
        client.run(&format!(
            "SELECT leaf_tag_create('{tag}', step => 1000, cache => {cache})"
        ));
    }
    let tags: Vec<_> = tags.iter().map(|tag| (*tag, Order::new())).collect();
    let mut ledgers: Vec<_> = tags.iter().map(|_| Ledger::new()).collect();
    thread::scope(|scope| {
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|session| {
                scope.spawn({
                    let (server, tags) = (&server, &tags);
                    move || mix(server, session, tags)
                })
            })
            .collect();
        for session in sessions {
            for (which, ids) in session.join().expect("a session") {
                ledgers[which].add(ids);
            }
        }
    });
    for ledger in &ledgers {
        assert!(ledger.len() > 1_000, "the mix must draw from every tag");
    }
}

#[test]
fn sixteen_sessions_on_one_tag_never_share_an_id() {
    sixteen_sessions(&[("orders", 1)]);
}

#[test]
fn sixteen_sessions_on_several_tags_never_share_an_id() {
    sixteen_sessions(&[
        ("orders", 1),
        ("payments", 7),
        ("items", 1),
        ("messages", 1024),
    ]);
}

#[test]
fn more_tags_than_slots_never_repeat_an_id() {
    const TAGS: usize = 100;
    let server = Server::options().set("leaf.max_tags", "16").start();
    server.connect().run(&format!(
        "SELECT leaf_tag_create('tag' || n, step => 10, cache => 1 + n % 3) FROM generate_series(0, {}) AS n",
        TAGS - 1
    ));
    let orders: Vec<_> = (0..TAGS).map(|_| Order::new()).collect();
    let mut ledgers: Vec<_> = (0..TAGS).map(|_| Ledger::new()).collect();
    thread::scope(|scope| {
        let sessions: Vec<_> = (0..8)
            .map(|session| {
                let (server, orders) = (&server, &orders);
                scope.spawn(move || {
                    let mut client = server.connect();
                    let mut drawn = Vec::new();
                    for call in 0..400 {
                        // Each session walks the tags in its own way, and all meet.
                        let which = (call * (2 * session + 1)) % TAGS;
                        let tag = format!("tag{which}");
                        let ids = orders[which]
                            .ascending(|| client.batch(&tag, 3))
                            .expect("a slot is found for every tag");
                        drawn.push((which, ids));
                    }
                    drawn
                })
            })
            .collect();
        for session in sessions {
            for (which, ids) in session.join().expect("a session") {
                ledgers[which].add(ids);
            }
        }
    });
}

#[test]
fn cold_start_flat_out_fails_no_caller() {
    let server = Server::start();
    server
        .connect()
        .run("SELECT leaf_tag_create('cold', step => 1000)");
    let mut ledger = Ledger::new();
    thread::scope(|scope| {
        let sessions: Vec<_> = (0..SESSIONS)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = server.connect();
                    let mut ids = Vec::new();
                    for _ in 0..5 {
                        ids.extend(client.rows("cold", 10_000).expect("no caller fails"));
                    }
                    ids
                })
            })
            .collect();
        for session in sessions {
            ledger.add(session.join().expect("a session"));
        }
    });
    assert_eq!(ledger.len(), SESSIONS * 50_000);
}
