//! Standbys, promotion, and data folders that go on without their original.

use leaf_tests::{
    Draw, Ledger, Mode, Server, Snowflake, draw_many, failed, refused, wait_until, waiting_callers,
};
use std::fs;
use std::thread;

/// A primary with the tag `orders` whose step stays 1000.
pub fn primary() -> Server {
    let server = Server::options().set("leaf.max_step", "1000").start();
    server
        .connect()
        .run("SELECT leaf_tag_create('orders', step => 1000)");
    server
}

#[test]
fn promoted_standby_goes_on_above_what_it_missed() {
    let mut primary = primary();
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut primary.connect(), "orders", 500));
    ledger.add(
        primary
            .connect()
            .reserve("orders", 3_000)
            .expect("a block")
            .ids(),
    );
    let mut standby = Server::options().start_standby_of(&primary);
    standby.catch_up_with(&primary);
    standby.stop(Mode::Fast);
    // These grants are lost with the primary.
    ledger.add(draw_many(&mut primary.connect(), "orders", 3_000));
    ledger.add(
        primary
            .connect()
            .reserve("orders", 3_000)
            .expect("a block")
            .ids(),
    );
    primary.kill_postmaster();

    standby.start_again();
    let mut client = standby.promote();
    ledger.add(draw_many(&mut client, "orders", 5_000));
    ledger.add(client.reserve("orders", 3_000).expect("a block").ids());
    // It skips once, not at every restart.
    let last = client.next("orders").expect("an id");
    drop(client);
    standby.restart(Mode::Fast);
    assert_eq!(standby.connect().next("orders").expect("an id"), last + 1);
}

/// Neither its row nor its only grant reached the standby's memory: it skips by its step.
#[test]
fn tag_whose_only_grant_the_standby_missed_skips_by_its_step() {
    let mut primary = primary();
    primary
        .connect()
        .run("SELECT leaf_tag_create('new', step => 700)");
    let mut standby = Server::options().start_standby_of(&primary);
    standby.catch_up_with(&primary);
    standby.stop(Mode::Fast);
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut primary.connect(), "new", 500));
    primary.kill_postmaster();

    standby.start_again();
    let mut client = standby.promote();
    ledger.add(draw_many(&mut client, "new", 500));
    assert_eq!(ledger.highest(), 7_500);
    // A plain new row starts where it says.
    client.run("INSERT INTO leaf.alloc (biz_tag, max_id, step) VALUES ('plain', 5, 700)");
    assert_eq!(client.next("plain").expect("an id"), 5);
}

#[test]
fn standby_whose_signal_file_was_removed_is_another_history() {
    let primary = primary();
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut primary.connect(), "orders", 500));
    let mut standby = Server::options().start_standby_of(&primary);
    standby.catch_up_with(&primary);
    let nonce = |server: &Server| fs::read(server.data().join("leaf/history")).ok();
    let before = nonce(&standby);
    standby.stop(Mode::Fast);
    ledger.add(draw_many(&mut primary.connect(), "orders", 3_000));

    fs::remove_file(standby.data().join("standby.signal")).expect("standby.signal");
    standby.start_again();
    // It goes on in the same timeline, as if nothing had happened.
    let timeline = "SELECT timeline_id::bigint FROM pg_control_checkpoint()";
    assert_eq!(
        standby.connect().number(timeline),
        primary.connect().number(timeline)
    );
    ledger.add(draw_many(&mut standby.connect(), "orders", 500));
    assert_ne!(nonce(&standby), before);
    assert_ne!(nonce(&standby), nonce(&primary));
}

#[test]
fn skip_is_configurable() {
    let primary = primary();
    let last = primary.connect().next("orders").expect("an id");
    let granted = primary.connect().number("SELECT max_id FROM leaf.alloc");
    let standby = Server::options()
        .set("leaf.history_skip", "50")
        .start_standby_of(&primary);
    standby.catch_up_with(&primary);
    drop(primary);
    let id = standby.promote().next("orders").expect("an id");
    assert!(
        id > last && id >= granted + 50 * 1_000,
        "{granted}, then {id}"
    );
}

/// The loader ends after it has committed the return and before it has said so. The next one
/// finds the same ids at the end of another block.
#[test]
fn block_whose_return_was_not_confirmed_is_not_returned_again() {
    let server = primary();
    let mut observer = server.connect();
    observer.run("CREATE DATABASE other");
    let mut other = server.connect_as("postgres", "other");
    other.run("CREATE EXTENSION leaf; SELECT leaf_tag_create('held')");
    other.run("BEGIN; SELECT FROM leaf.alloc FOR UPDATE");
    let reserving = "SELECT count(*) FROM pg_stat_activity
                      WHERE datname = 'other' AND state = 'active' AND wait_event IS NOT NULL
                        AND query LIKE '%reserve%' AND pid <> pg_backend_pid()";
    let mut first = server.connect();
    let block = first.reserve("orders", 100).expect("a block");
    thread::scope(|scope| {
        // Occupies the first place of the mailbox, which is then free for the second block.
        let holder = scope.spawn(|| {
            let mut client = server.connect_as("postgres", "other");
            client.run("SET leaf.wait_timeout = '1min'");
            client.reserve("held", 1)
        });
        wait_until("the first place is taken", || {
            observer.number(reserving) == 1
        });
        server.reload("synchronous_standby_names", "nobody");
        let returning = scope.spawn(|| {
            first.number(&format!(
                "SELECT leaf_segment_return('orders', '[{},{}]')::int::bigint",
                block.first, block.last
            ))
        });
        let mut loader = 0;
        wait_until("the return waits for the standby", || {
            loader = observer.number(
                "SELECT coalesce(max(pid), 0)::bigint FROM pg_stat_activity
                  WHERE backend_type = 'leaf loader' AND wait_event = 'SyncRep'",
            );
            loader != 0
        });
        observer.run(
            "SELECT pg_cancel_backend(pid) FROM pg_stat_activity
              WHERE datname = 'other' AND query LIKE '%reserve%'",
        );
        failed(holder.join().expect("a session"), "57014");
        let second = scope.spawn(|| server.connect().reserve("orders", 100));
        wait_until("the second block is asked for", || {
            waiting_callers(&mut observer, "leaf_segment_reserve") == 1
        });
        observer.run(&format!("SELECT pg_terminate_backend({loader})"));
        server.reload("synchronous_standby_names", "");
        let _ = returning.join().expect("an answer");
        let mut ledger = Ledger::new();
        ledger.add(second.join().expect("a session").expect("a block").ids());
        let third = server.connect().reserve("orders", 100);
        ledger.add(third.expect("a block").ids());
    });
}

#[test]
fn promoted_synchronous_standby_never_repeats_an_id() {
    let mut primary = primary();
    let standby = Server::options()
        .set("synchronous_standby_names", "")
        .set("leaf.history_skip", "0")
        .start_standby_of(&primary);
    standby.catch_up_with(&primary);
    primary.reload("synchronous_standby_names", "*");
    let mut ledger = Ledger::new();
    let mut client = primary.connect();
    // The session's own carelessness changes nothing.
    client.run("SET synchronous_commit = off");
    ledger.add(draw_many(&mut client, "orders", 10_000));
    ledger.add(client.reserve("orders", 500).expect("a block").ids());
    primary.kill_postmaster();
    // With no skip at all, only what the primary had confirmed protects.
    ledger.add(draw_many(&mut standby.promote(), "orders", 10_000));
}

/// Starts a server without leaf for a moment, as when somebody looks whether a backup is good.
fn run_without_leaf(server: &mut Server, end: Mode) {
    server.configure("shared_preload_libraries = ''\n");
    server.start_again();
    server
        .connect()
        .run("CREATE TABLE IF NOT EXISTS looked_at (); CHECKPOINT");
    server.stop(end);
    server.unconfigure("shared_preload_libraries");
    server.configure("shared_preload_libraries = 'leaf'\n");
}

#[test]
fn copy_that_ran_without_leaf_first_is_another_history() {
    for end in [Mode::Fast, Mode::Immediate] {
        let mut primary = primary();
        let mut ledger = Ledger::new();
        ledger.add(draw_many(&mut primary.connect(), "orders", 500));
        let mut snowflakes = Ledger::new();
        snowflakes.add(primary.connect().snowflakes(10).expect("ids"));
        let mut copy = Server::options().start_backup_of(&primary);
        ledger.add(draw_many(&mut primary.connect(), "orders", 3_000));
        run_without_leaf(&mut copy, end);
        copy.start_again();
        for server in [&primary, &copy] {
            snowflakes.add(server.connect().snowflakes(2_000).expect("ids"));
        }
        primary.kill_postmaster();
        ledger.add(draw_many(&mut copy.connect(), "orders", 3_000));
    }
}

#[test]
fn server_that_ran_without_leaf_is_another_history() {
    let mut server = primary();
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut server.connect(), "orders", 500));
    server.stop(Mode::Fast);
    run_without_leaf(&mut server, Mode::Fast);
    server.start_again();
    let ids = draw_many(&mut server.connect(), "orders", 500);
    assert!(ids[0] > 10_000, "{}", ids[0]);
    ledger.add(ids);
}

#[test]
fn new_history_that_cannot_be_stored_grants_nothing() {
    let primary = primary();
    primary.connect().next("orders").expect("an id");
    let mut copy = Server::options().start_backup_of(&primary);
    let folder = copy.data().join("leaf");
    let kept = copy.data().join("kept");
    // In the way of a new file is a folder of the same name.
    fs::rename(folder.join("history"), &kept).expect("a file");
    fs::create_dir(folder.join("history")).expect("a folder");
    copy.start_again();
    let mut client = copy.connect();
    client.run("SET leaf.wait_timeout = '300ms'");
    let error = refused(client.next("orders"), "55P03");
    assert!(
        error.detail().is_some_and(|it| it.contains("leaf/history")),
        "{error:?}"
    );
    refused(
        client.batch_execute("SELECT leaf_tag_create('new')"),
        "58030",
    );
    // It goes on as soon as it can be stored, in a history of its own.
    fs::remove_dir(folder.join("history")).expect("a folder");
    client.run("RESET leaf.wait_timeout");
    assert!(client.next("orders").expect("an id") > 10_000);
    client.run("SELECT leaf_tag_create('new')");
}

#[test]
fn files_of_leaf_that_are_none_hold_up_nothing() {
    let mut server = primary();
    server.connect().snowflake().expect("an id");
    let mut last = server.connect().next("orders").expect("an id");
    for name in [
        "leaf/history".to_owned(),
        "pg_stat_tmp/leaf.ranges".to_owned(),
    ] {
        server.stop(Mode::Fast);
        let path = server.data().join(&name);
        fs::remove_file(&path).unwrap_or_default();
        assert!(
            std::process::Command::new("mkfifo")
                .arg(&path)
                .status()
                .expect("mkfifo")
                .success()
        );
        server.start_again();
        let id = server.connect().next("orders").expect("an id");
        assert!(id > last, "{name}");
        last = id;
    }
    let database = server
        .connect()
        .number("SELECT oid::bigint FROM pg_database WHERE datname = 'postgres'");
    let path = server.data().join(format!("leaf/snowflake.{database}"));
    fs::remove_file(&path).expect("ceilings");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&path)
            .status()
            .expect("mkfifo")
            .success()
    );
    let mut client = server.connect();
    client.run("SET leaf.wait_timeout = '1s'");
    refused(client.snowflake(), "55P03");
    draw_many(&mut client, "orders", 5_000);
}
