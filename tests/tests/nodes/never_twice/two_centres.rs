//! A shard whose `leaf.upstream` is changed from one centre to another: it issues no id with the
//! worker id of a centre that the setting does not name any more.

use leaf_tests::{Centre, Draw, Ledger, Signal, Snowflake, Stop, signal, wait_until};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

#[test]
fn former_centre_confirms_no_lease_for_a_process_that_has_read_the_setting_alone() {
    let (former, centre) = (Centre::start(), Centre::start());
    let (shard, other) = (former.shard(), centre.shard());
    for server in [&shard, &other] {
        server.connect().snowflakes(1).expect("an id");
    }
    let mut client = shard.connect();
    let before =
        client.text("SELECT upstream_setting FROM leaf.worker WHERE upstream_setting IS NOT NULL");
    let others = format!("SELECT count(*) FROM leaf.worker WHERE upstream_setting <> '{before}'");
    shard.configure(&format!("leaf.upstream = '{}'\n", centre.upstream()));
    let loader = "SELECT pid::bigint FROM pg_stat_activity WHERE backend_type = 'leaf loader'";
    signal(client.number(loader) as i32, Signal::SIGHUP);
    wait_until("the lease is one of the new setting", || {
        client.number(&others) == 1
    });
    let address = "SELECT upstream_address FROM leaf.worker WHERE upstream_nonce IS NOT NULL";
    assert!(client.text(address).contains(&centre.0.host()));
    let worker_id = "SELECT worker_id::bigint FROM leaf.stat_snowflake";
    assert_eq!(
        [&shard, &other].map(|server| server.connect().number(worker_id)),
        [1, 0]
    );
}

#[test]
fn ids_drawn_while_the_setting_changes_are_of_the_centre_that_it_names() {
    let centres = [Centre::start(), Centre::start()];
    let others = centres.each_ref().map(Centre::shard);
    let shard = centres[0].shard();
    // What the shards of each centre have issued.
    let ledgers = [0, 1].map(|_| Mutex::new(Ledger::new()));
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&is_over);
        for (other, ledger) in others.iter().zip(&ledgers) {
            let is_over = &is_over;
            scope.spawn(move || {
                let mut client = other.connect();
                while !is_over.load(Ordering::SeqCst) {
                    let ids = client.snowflakes(500).expect("ids");
                    ledger.lock().unwrap().add(ids);
                }
            });
        }
        for round in 0..30 {
            let now = (round + 1) % 2;
            shard.reload("leaf.upstream", &centres[now].upstream());
            let mut client = shard.connect();
            for _ in 0..5 {
                let ids = client.snowflakes(500).expect("ids");
                ledgers[now].lock().unwrap().add(ids);
            }
        }
    });
}
