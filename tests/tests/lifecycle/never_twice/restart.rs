//! Ranges saved at a stop are handed out at most once.

use leaf_tests::{Draw, Ledger, Mode, Server, draw_many, wait_until};
use std::fs;
use std::path::PathBuf;

/// A server with the tag `orders`, from which ids were drawn, and its last id.
pub fn drawn() -> (Server, i64) {
    let (server, mut client) = Server::with_orders(1000);
    let last = client.batch("orders", 250).expect("ids")[249];
    wait_until("the next segment is ready", || {
        client.stat("orders", "next_left") > 0
    });
    (server, last)
}

/// The first number of `orders` that was not granted.
fn granted(server: &Server) -> i64 {
    server
        .connect()
        .number("SELECT max_id FROM leaf.alloc WHERE biz_tag = 'orders'")
}

fn saved(server: &Server) -> PathBuf {
    server.data().join("pg_stat_tmp/leaf.ranges")
}

/// Puts a file of saved ranges where the next start looks for it.
fn put_saved(server: &Server, content: &[u8]) {
    server.write("pg_stat_tmp/leaf.ranges", content);
}

#[test]
fn saved_ranges_are_deleted_before_anything_is_drawn() {
    let (mut server, _) = drawn();
    server.stop(Mode::Fast);
    assert!(saved(&server).exists(), "a clean stop saves the ranges");
    server.start_again();
    assert!(!saved(&server).exists());
}

#[test]
fn immediate_stop_saves_nothing() {
    let (mut server, _) = drawn();
    server.stop(Mode::Immediate);
    assert!(!saved(&server).exists());
}

#[test]
fn saved_ranges_of_an_earlier_stop_are_ignored() {
    let (mut server, _) = drawn();
    let mut ledger = Ledger::new();
    server.stop(Mode::Fast);
    let old = fs::read(saved(&server)).expect("saved ranges");
    server.start_again();
    ledger.add(server.connect().batch("orders", 100).expect("ids"));

    // After a crash …
    server.stop(Mode::Immediate);
    put_saved(&server, &old);
    server.start_again();
    assert!(!saved(&server).exists());
    ledger.add(draw_many(&mut server.connect(), "orders", 5_000));

    // … and after another clean stop.
    server.stop(Mode::Fast);
    put_saved(&server, &old);
    server.start_again();
    assert!(!saved(&server).exists());
    ledger.add(draw_many(&mut server.connect(), "orders", 5_000));
}

#[test]
fn saved_ranges_of_another_history_are_ignored() {
    let (mut server, _) = drawn();
    let history = "SELECT split_part(history, '/', 3) FROM leaf.alloc WHERE biz_tag = 'orders'";
    let history = server.connect().text(history);
    let granted = granted(&server);
    server.stop(Mode::Fast);
    // The same file but for whose it is.
    let own = fs::read_to_string(saved(&server)).expect("saved ranges");
    let last = if history.ends_with('1') { "2" } else { "1" };
    let foreign = own.replace(
        &history,
        &format!("{}{last}", &history[..history.len() - 1]),
    );
    assert_ne!(own, foreign, "the file says whose it is");
    put_saved(&server, foreign.as_bytes());
    server.start_again();
    assert!(!saved(&server).exists());
    assert!(server.connect().next("orders").expect("an id") >= granted);
}

#[test]
fn damaged_saved_ranges_are_ignored() {
    let (mut server, mut last) = drawn();
    server.stop(Mode::Fast);
    let whole = fs::read(saved(&server)).expect("saved ranges");
    let mut flipped = whole.clone();
    let middle = flipped.len() * 2 / 3;
    flipped[middle] ^= 0x55;
    let damaged: [&[u8]; 4] = [b"", b"garbage", &whole[..whole.len() - 3], &flipped];
    for content in damaged {
        put_saved(&server, content);
        server.start_again();
        let id = server.connect().next("orders").expect("an id");
        assert!(id > last, "{last}, then {id}");
        last = id;
        assert!(!saved(&server).exists());
        server.stop(Mode::Fast);
    }
}

#[test]
fn saved_ranges_are_not_used_by_a_standby_made_of_the_data() {
    let (mut server, mut last) = drawn();
    let granted = granted(&server);
    server.stop(Mode::Fast);
    server.write("standby.signal", b"");
    server.start_again();
    assert!(!saved(&server).exists());
    server.promote();
    for _ in 0..3 {
        let id = server.connect().next("orders").expect("an id");
        assert!(id > last && id >= granted, "{last}, then {id}");
        last = id;
    }
}

#[test]
fn saved_ranges_are_not_used_by_a_recovery_from_an_archive() {
    let (mut server, _) = drawn();
    let granted = granted(&server);
    server.stop(Mode::Fast);
    server.configure("restore_command = 'false'\n");
    server.write("recovery.signal", b"");
    server.start_again();
    server.ends_recovery();
    assert!(!saved(&server).exists());
    assert!(server.connect().next("orders").expect("an id") >= granted);
}

#[test]
fn saved_ranges_are_not_used_beside_a_backup_label() {
    let (mut server, _) = drawn();
    // The recovery that the label asks for begins at the backup's start.
    server.reload("wal_keep_size", "1GB");
    let mut client = server.connect();
    client.run("SELECT pg_backup_start('by hand', fast => true)");
    let label = client.text("SELECT labelfile FROM pg_backup_stop(wait_for_archive => false)");
    drop(client);
    let granted = granted(&server);
    // Of all that tells a backup from its original, only the label is there.
    server.stop(Mode::Fast);
    server.write("backup_label", label.as_bytes());
    server.start_again();
    assert!(!saved(&server).exists());
    assert!(server.connect().next("orders").expect("an id") >= granted);
}

#[test]
fn saved_ranges_are_not_in_a_base_backup() {
    let (mut server, _) = drawn();
    server.restart(Mode::Fast);
    let copy = Server::options().start_standby_of(&server);
    assert!(!saved(&copy).exists());
}

#[test]
fn changes_outlive_a_restart_with_saved_ranges() {
    let (mut server, _) = drawn();
    let mut client = server.connect();
    client.run(
        "SELECT leaf_tag_create('dropped'); SELECT leaf_segment_next('dropped');
         SELECT leaf_tag_create('advanced'); SELECT leaf_segment_next('advanced');
         SELECT leaf_tag_drop('dropped');
         SELECT leaf_tag_alter('advanced', advance_to => 700000)",
    );
    drop(client);
    server.restart(Mode::Fast);
    let mut client = server.connect();
    leaf_tests::refused(client.next("dropped"), "42704");
    assert_eq!(client.next("advanced").expect("an id"), 700_000);
    client.run("SELECT leaf_tag_create('dropped', start => 3)");
    assert_eq!(client.next("dropped").expect("an id"), 3);
}

#[test]
fn ranges_of_a_table_changed_without_leaf_are_not_served() {
    let (mut server, _) = drawn();
    server.stop(Mode::Fast);
    let kept = fs::read(saved(&server)).expect("saved ranges");
    // A start without leaf writes a new checkpoint; the file is then out of date.
    server.configure("shared_preload_libraries = ''\n");
    server.start_again();
    server.connect().run("SELECT 1");
    server.stop(Mode::Fast);
    put_saved(&server, &kept);
    server.configure("shared_preload_libraries = 'leaf'\n");
    server.start_again();
    let granted = granted(&server);
    assert!(server.connect().next("orders").expect("an id") >= granted);
}

#[test]
fn fewer_slots_than_saved_ranges_is_fine() {
    let mut server = Server::start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('t' || n, step => 10) FROM generate_series(1, 60) n");
    let mut ledgers: Vec<_> = (0..60).map(|_| Ledger::new()).collect();
    for restart in 0..3 {
        let mut client = server.connect();
        for (n, ledger) in ledgers.iter_mut().enumerate() {
            ledger.add(client.batch(&format!("t{}", n + 1), 3).expect("ids"));
        }
        drop(client);
        server.configure(["leaf.max_tags = 16\n", "leaf.max_tags = 1024\n"][restart % 2]);
        server.restart(Mode::Fast);
    }
}

#[test]
fn saved_ranges_are_ignored_by_a_restored_backup() {
    let (mut server, _) = drawn();
    server.stop(Mode::Fast);
    let ranges = fs::read(saved(&server)).expect("saved ranges");
    server.start_again();

    // A backup taken by hand, with the file that a careless one would contain.
    let mut client = server.connect();
    client.run("SELECT pg_backup_start('by hand', fast => true)");
    let mut copy = server.copy();
    let label = client.text("SELECT labelfile FROM pg_backup_stop(wait_for_archive => false)");
    server.copy_wal_to(&copy);
    copy.write("backup_label", label.as_bytes());
    put_saved(&copy, &ranges);
    let granted = granted(&server);
    copy.start_again();
    assert!(!saved(&copy).exists());
    assert!(copy.connect().next("orders").expect("an id") >= granted);
}
