//! Full disks, a loader that stands still, a row that nobody unlocks: callers are told, and
//! there are ids again once the cause is gone.

use crate::no_surprises::faults::{SMALL, options};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Load, Mode, Paused, Snowflake, draw_many, refused, wait_until};
use std::time::Duration;

#[test]
fn grants_on_a_full_disk_are_refused_and_mend_by_themselves() {
    let server = options().set("leaf.ceiling_ahead", "1s").disk().start();
    let mut client = server.connect();
    client.run(SMALL);
    let (mut ids, mut snowflakes) = (Ledger::new(), Ledger::new());
    ids.add(draw_many(&mut client, "orders", 1_000));
    snowflakes.add([client.snowflake().expect("an id")]);
    // Old versions of the rows stay, so that the tables must grow.
    let mut holder = server.connect();
    holder.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM leaf.alloc");
    server.disk().fill();

    let refusal = loop {
        match client.batch("orders", 50) {
            Ok(more) => ids.add(more),
            refusal => break refused(refusal, "55P03"),
        }
    };
    let names_the_cause = |detail: Option<&str>| {
        let detail = detail.expect("a DETAIL");
        assert!(detail.contains("No space left on device"), "{detail}");
    };
    names_the_cause(refusal.detail());
    // Snowflake ids end with the ceiling, which is a second ahead.
    let refusal = loop {
        match client.snowflake() {
            Ok(id) => snowflakes.add([id]),
            refusal => break refused(refusal, "55P03"),
        }
    };
    names_the_cause(refusal.detail());

    server.disk().free();
    wait_until("there are ids again", || client.next("orders").is_ok());
    ids.add(draw_many(&mut client, "orders", 1_000));
    wait_until("there are snowflake ids again", || {
        client.snowflake().is_ok()
    });
    snowflakes.add(client.snowflakes(1_000).expect("ids"));
}

#[test]
fn loader_that_stands_still_gives_bounded_waits() {
    let server = options().start();
    let mut observer = server.connect();
    observer.run(SMALL);
    let config = server.config("postgres", "postgres");
    let draw = |client: &mut Client, _: usize| client.batch("orders", 30);
    Load::run(&config, 4, "55P03", draw, |load| {
        for _ in 0..3 {
            load.goes_on(2_000);
            let loader = server.loaders("postgres")[0];
            // One that is stopped while it holds a lock of shared memory for a moment holds up
            // all others for as long, as each process of PostgreSQL does: it is stopped again.
            wait_until("callers are refused while the loader stands still", || {
                let _stopped = Paused::all(vec![loader]);
                load.is_refused_within(4, Duration::from_secs(5))
            });
            load.goes_on(2_000);
            assert_eq!(server.loaders("postgres"), [loader]);
        }
    });
}

#[test]
fn row_locked_by_a_prepared_transaction_gives_bounded_waits() {
    let mut server = options().set("max_prepared_transactions", "2").start();
    let mut client = server.connect();
    client.run(SMALL);
    client.run("SELECT leaf_tag_create('other')");
    let mut ledger = Ledger::new();
    client.run(
        "BEGIN; SELECT FROM leaf.alloc WHERE biz_tag = 'orders' FOR UPDATE;
         PREPARE TRANSACTION 'holder'",
    );
    drop(client);
    // It holds its locks through a crash, and through any number of sessions.
    for mode in [Mode::Fast, Mode::Immediate] {
        server.restart(mode);
        let mut client = server.connect();
        let refusal = loop {
            match client.next("orders") {
                Ok(id) => ledger.add([id]),
                refusal => break refusal,
            }
        };
        refused(refusal, "55P03");
        client.next("other").expect("others go on");
    }
    let mut client = server.connect();
    client.run("COMMIT PREPARED 'holder'");
    ledger.add(draw_many(&mut client, "orders", 1_000));
}
