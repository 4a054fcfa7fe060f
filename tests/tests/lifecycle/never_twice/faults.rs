//! Full disks, more tags than there is room for, and callers that are cut off.

use crate::no_surprises::faults::{SMALL, options};
use leaf_tests::postgres::{Client, NoTls};
use leaf_tests::{Draw, Ledger, Load, Server, Snowflake, draw_many, slow_grants, wait_until};
use std::sync::Mutex;
use std::thread;

#[test]
fn full_disk_that_takes_the_server_down_repeats_no_id() {
    let mut server = options().disk().start();
    server.connect().run(SMALL);
    let config = server.config("postgres", "postgres");
    let snowflakes = Mutex::new(Ledger::new());
    let draw = |client: &mut Client, call: usize| match call % 3 {
        0 => client.batch("orders", 30),
        1 => client
            .reserve("orders", 20)
            .map(|block| block.ids().collect()),
        _ => {
            let ids = client.snowflakes(20)?;
            snowflakes.lock().expect("no panic").add(ids);
            Ok(vec![])
        }
    };
    Load::run(&config, 4, "55P03", draw, |load| {
        for _ in 0..3 {
            load.goes_on(2_000);
            server.disk().fill();
            let lost = load.lost();
            // The write-ahead log needs a new file sooner or later, and gets none.
            wait_until("the server is down", || {
                if let Ok(mut client) = config.connect(NoTls) {
                    let _ = client.batch_execute("SELECT txid_current(); SELECT pg_switch_wal()");
                }
                load.lost() > lost
            });
            server.disk().free();
            server.wait_up();
            load.goes_on(2_000);
        }
    });
}

#[test]
fn ten_thousand_tags_share_the_slots() {
    const TAGS: usize = 10_000;
    let server = Server::options().set("leaf.max_tags", "1024").start();
    server.connect().run(&format!(
        "SELECT leaf_tag_create('tag' || n, step => 2) FROM generate_series(1, {TAGS}) AS n"
    ));
    // Three groups of sessions, each of which meets all tags in an order of its
    // own, so that each tag is drawn from when others have long taken its place.
    let drawn: Vec<Mutex<Ledger>> = (0..TAGS).map(|_| Mutex::new(Ledger::new())).collect();
    thread::scope(|scope| {
        for (stride, part) in [1, 3, 7]
            .into_iter()
            .flat_map(|s| (0..4).map(move |p| (s, p)))
        {
            let (server, drawn) = (&server, &drawn);
            scope.spawn(move || {
                let mut client = server.connect();
                for n in (part..TAGS).step_by(4) {
                    let tag = n * stride % TAGS;
                    let id = client.next(&format!("tag{}", tag + 1)).expect("an id");
                    drawn[tag].lock().expect("no panic").add([id]);
                }
            });
        }
    });
    let mut client = server.connect();
    assert!(client.number("SELECT count(*) FROM leaf_segment_slots()") <= 1_024);
    for tag in drawn {
        assert_eq!(tag.into_inner().expect("no panic").len(), 3);
    }
}

#[test]
fn callers_cut_off_by_their_timeout_repeat_no_id() {
    let server = options().start();
    let mut client = server.connect();
    client.run(SMALL);
    slow_grants(&mut client, 0.003);
    let (ledger, cut_off) = (Mutex::new(Ledger::new()), Mutex::new(0));
    thread::scope(|scope| {
        for session in 1..=4 {
            let (server, ledger, cut_off) = (&server, &ledger, &cut_off);
            scope.spawn(move || {
                let mut client = server.connect();
                for call in 0..200 {
                    let set = format!("SET statement_timeout = {}", 1 + (call + session) % 8);
                    // On a busy machine the timeout before cuts this off, too.
                    while let Err(error) = client.batch_execute(&set) {
                        assert_eq!(error.code().map(|code| code.code()), Some("57014"));
                    }
                    let drawn = match call % 3 {
                        0 => client.next("orders").map(|id| vec![id]),
                        1 => client.batch("orders", 40),
                        _ => client
                            .reserve("orders", 20)
                            .map(|block| block.ids().collect()),
                    };
                    match drawn {
                        Ok(ids) => ledger.lock().expect("no panic").add(ids),
                        Err(error) => {
                            let code = error.code().map(|code| code.code());
                            assert_eq!(code, Some("57014"), "{error:?}");
                            *cut_off.lock().expect("no panic") += 1;
                        }
                    }
                }
            });
        }
    });
    assert!(*cut_off.lock().expect("no panic") > 0, "none was cut off");
    let mut ledger = ledger.into_inner().expect("no panic");
    assert!(!ledger.is_empty(), "all were cut off");
    ledger.add(draw_many(&mut client, "orders", 1_000));
}
