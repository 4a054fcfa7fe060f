//! The order of the calls is the order of the ids, whichever worker id they have.

use crate::drawing::server;
use leaf_tests::{Draw, Load, Order, Server, Snowflake, wait_until};

#[test]
fn batch_larger_than_a_tick_ascends_and_is_never_ahead_of_the_clock() {
    let (_server, mut client) = server();
    let order = Order::new();
    let ids = order
        .ascending(|| client.snowflakes(100_000))
        .expect("a batch");
    let now = client.clock();
    assert_eq!(ids.len(), 100_000);
    let (first, last) = (client.parts(ids[0]), client.parts(ids[99_999]));
    // A millisecond has 4,096 ids.
    assert!(
        last.created_at >= first.created_at + 100_000 / 4_096,
        "{first:?} to {last:?}"
    );
    assert!(last.created_at <= now, "{last:?} was there at {now}");
    order
        .ascending(|| client.snowflake().map(|id| vec![id]))
        .expect("an id");
}

#[test]
fn reload_of_the_worker_id_takes_effect_and_keeps_the_order() {
    let server = Server::start();
    let mut client = server.connect();
    let order = Order::new();
    // Ids of a worker that was used before begin at its ceiling, ahead of the clock.
    let settings = [("-1", 0), ("7", 7), ("3", 3), ("7", 7), ("3", 3), ("7", 7)];
    for (setting, expected) in settings {
        server.reload("leaf.worker_id", setting);
        let mut ids = Vec::new();
        wait_until("the ids are those of the new worker", || {
            ids = order.ascending(|| client.snowflakes(100)).expect("ids");
            client.parts(ids[99]).worker_id == expected
        });
    }
    assert_eq!(client.snowflake_stat("worker_id"), Some(7));
    assert_eq!(client.number("SELECT count(*) FROM leaf.worker"), 3);
}

#[test]
fn reload_of_the_worker_id_under_load_keeps_the_order() {
    let server = Server::options().set("leaf.ceiling_ahead", "1s").start();
    Load::of_snowflakes(&server.config("postgres", "postgres"), 4, |load| {
        for round in 0..30 {
            server.reload("leaf.worker_id", ["9", "0", "5"][round % 3]);
            load.goes_on(2_000);
        }
        assert_eq!(load.refusals(), 0, "the clock was right all the time");
    });
}
