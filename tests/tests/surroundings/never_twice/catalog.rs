//! What administrators do to any table, done to leaf's.

use leaf_tests::{Draw, Ledger, Order, Server, Snowflake, Stop, wait_until};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

#[test]
fn maintenance_of_the_catalog_under_load_repeats_no_id() {
    let (server, mut admin) = Server::with_orders(10);
    admin.snowflake().expect("an id");
    let (ledger, order) = (Mutex::new(Ledger::new()), Order::new());
    let (flakes, flake_order) = (Mutex::new(Ledger::new()), Order::new());
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&done);
        let sessions: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = server.connect();
                    while !done.load(Ordering::SeqCst) {
                        let drawn = order.ascending(|| client.batch("orders", 500));
                        ledger.lock().expect("no panic").add(drawn.expect("ids"));
                        let block = order.above(|| client.reserve("orders", 10));
                        ledger
                            .lock()
                            .expect("no panic")
                            .add(block.expect("a block").ids());
                        let drawn = flake_order.ascending(|| client.snowflakes(50));
                        flakes.lock().expect("no panic").add(drawn.expect("ids"));
                    }
                })
            })
            .collect();
        for statement in [
            "VACUUM FULL leaf.alloc",
            "VACUUM FULL leaf.worker",
            "CLUSTER leaf.alloc USING alloc_pkey",
            "REINDEX TABLE leaf.alloc",
            "REINDEX TABLE CONCURRENTLY leaf.alloc",
            "REINDEX TABLE CONCURRENTLY leaf.worker",
            "VACUUM (FREEZE, ANALYZE) leaf.alloc, leaf.worker",
            "ALTER TABLE leaf.alloc SET (fillfactor = 50)",
            "ALTER TABLE leaf.alloc ADD COLUMN note text DEFAULT clock_timestamp()::text",
            "ALTER TABLE leaf.alloc ALTER COLUMN description TYPE text",
            "ALTER TABLE leaf.alloc SET UNLOGGED",
            "ALTER TABLE leaf.alloc SET LOGGED",
            "CREATE INDEX ON leaf.alloc (owner)",
            "CREATE STATISTICS leaf.s ON owner, step FROM leaf.alloc",
        ] {
            admin.run(statement);
            let before = ledger.lock().expect("no panic").len();
            wait_until("the sessions draw", || {
                sessions.iter().any(|session| session.is_finished())
                    || ledger.lock().expect("no panic").len() > before + 1_500
            });
        }
    });
    assert!(flakes.lock().expect("no panic").len() > 1_000);
    assert_eq!(admin.number("SELECT count(note) FROM leaf.alloc"), 1);
}
