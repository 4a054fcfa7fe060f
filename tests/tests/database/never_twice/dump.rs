//! Dumps that are restored: nothing goes back.

use crate::no_surprises::databases::at_work;
use crate::no_surprises::dump::PSQL;
use leaf_tests::{Draw, Ledger, draw_many};

/// Into the cluster that it is from, where its history is the current one.
#[test]
fn dump_restored_in_place_repeats_none_of_the_last_grants() {
    for options in [
        &["--data-only", "--table=leaf.alloc"][..],
        &["--data-only", "--table=leaf.alloc", "--disable-triggers"],
    ] {
        let (server, _admin) = at_work();
        server.reload("leaf.max_step", "1000");
        let mut work = server.connect_as("postgres", "work");
        work.run("SELECT leaf_tag_create('unused', step => 500)");
        let mut ledger = Ledger::new();
        ledger.add(1..=1_000);
        let mut dump = server.program("pg_dump");
        dump.args(options).arg("work");
        let dump = dump.output().expect("a dump");
        assert!(dump.status.success());
        // At most as many grants as leaf.history_skip covers.
        ledger.add(draw_many(&mut work, "orders", 2_000));
        let mut of_unused = Ledger::new();
        of_unused.add(draw_many(&mut work, "unused", 100));
        work.run("DELETE FROM leaf.alloc");
        let mut restore = server.program("psql");
        restore.args(PSQL).args(["-d", "work"]);
        leaf_tests::feed(&mut restore, &dump.stdout);
        ledger.add(draw_many(&mut work, "orders", 2_000));
        of_unused.add(draw_many(&mut work, "unused", 100));
        // It skips once.
        let last = work.next("unused").expect("an id");
        work.run("SELECT leaf_tag_alter('unused', description => 'x')");
        assert_eq!(work.next("unused").expect("an id"), last + 1);
    }
}

#[test]
fn dump_and_restore_never_rewinds() {
    let (server, mut admin) = at_work();
    let mut work = server.connect_as("postgres", "work");
    work.run("UPDATE leaf.alloc SET description = 'kept', owner = 'ghost'");
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut work, "orders", 3_333));
    admin.run("CREATE DATABASE restored");
    server.dump_and_restore("work", "restored");
    let mut restored = server.connect_as("postgres", "restored");
    assert_eq!(
        restored.text("SELECT description::text FROM leaf.alloc"),
        "kept"
    );
    ledger.add(draw_many(&mut restored, "orders", 3_000));
}
