//! Who keeps dead versions of the rows of `leaf.alloc` from being removed.

use super::{findings, finds};
use leaf_tests::{Draw, Mode, Server, wait_until};
use postgres::Client;

/// So many tags that as many updates of all of them pass the bound.
const TAGS: &str = "SELECT leaf_tag_create('tag' || n) FROM generate_series(1, 500) AS n";
const UPDATES: &str = "DO $$ BEGIN
    FOR n IN 1 .. 210 LOOP
        UPDATE leaf.alloc SET description = n::text;
        COMMIT;
    END LOOP;
END $$";

/// Leaves dead versions, without leaf's triggers, which would make it take long, and waits until
/// the statistics have them.
fn leave_dead_versions(client: &mut Client) {
    client.run("ALTER TABLE leaf.alloc DISABLE TRIGGER USER");
    client.run(UPDATES);
    client.run(
        "ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_check, ENABLE ALWAYS TRIGGER leaf_changed,
                                ENABLE ALWAYS TRIGGER leaf_truncated",
    );
    wait_until("they are counted", || {
        client.number("SELECT count(*) FROM leaf.horizon()") == 1
    });
}

/// Makes the oldest transaction older.
fn go_on(client: &mut Client) {
    client.run(
        "DO $$ BEGIN FOR n IN 1 .. 150 LOOP PERFORM pg_current_xact_id(); COMMIT; END LOOP; END $$",
    );
}

const DEAD: &str = "warning table leaf.alloc: it has ";

fn finds_holder(server: &Server, client: &mut Client, holder: &str) {
    finds(server, DEAD);
    let (_, found) = findings(server);
    let because = format!("dead versions of its rows, which cannot be removed because of {holder}");
    assert!(found.iter().any(|it| it.contains(&because)), "{found:?}");
    let named = "SELECT holder FROM leaf.horizon()";
    assert!(client.text(named).starts_with(holder));
}

#[test]
fn holders_of_old_snapshots_are_found() {
    let server = Server::options()
        .set("max_prepared_transactions", "2")
        .set("autovacuum", "off")
        .start();
    let mut client = server.connect();
    client.run(TAGS);
    let mut holder = server.connect();
    holder.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM leaf.alloc");
    leave_dead_versions(&mut client);
    let pid = holder.number("SELECT pg_backend_pid()::bigint");
    finds_holder(
        &server,
        &mut client,
        &format!("process {pid} (postgres), in a transaction since 2"),
    );
    // Another transaction, which is not the oldest.
    let mut other = server.connect();
    other.run("BEGIN; SELECT pg_current_xact_id(); PREPARE TRANSACTION 'left'");
    finds_holder(&server, &mut client, &format!("process {pid} "));
    holder.run("ROLLBACK");
    go_on(&mut client);
    finds_holder(&server, &mut client, "prepared transaction 'left', since 2");
    client.run("ROLLBACK PREPARED 'left'");
    finds(&server, DEAD);
    let nobody = "SELECT coalesce(holder, 'nobody') FROM leaf.horizon()";
    assert_eq!(client.text(nobody), "nobody");
    client.run("VACUUM leaf.alloc");
    wait_until("none is left", || findings(&server) == (Some(0), vec![]));
}

#[test]
fn standbys_and_slots_that_hold_old_snapshots_are_found() {
    let primary = Server::options().set("autovacuum", "off").start();
    let mut client = primary.connect();
    client.run(TAGS);
    let mut standby = Server::options()
        .set("hot_standby_feedback", "on")
        .set("wal_receiver_status_interval", "1s")
        .start_standby_of(&primary);
    let mut reader = standby.connect();
    reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM leaf.alloc");
    wait_until("the primary knows of the snapshot", || {
        client.number("SELECT count(backend_xmin) FROM pg_stat_replication") == 1
    });
    leave_dead_versions(&mut client);
    finds_holder(&primary, &mut client, "standby ");
    drop(reader);
    client.run("SELECT pg_create_physical_replication_slot('theirs')");
    standby.reload("primary_slot_name", "theirs");
    let mut reader = standby.connect();
    reader.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT FROM leaf.alloc");
    wait_until("the slot has the snapshot", || {
        client.number("SELECT count(xmin) FROM pg_replication_slots") == 1
    });
    go_on(&mut client);
    finds_holder(&primary, &mut client, "replication slot theirs");
    standby.stop(Mode::Immediate);
    finds_holder(&primary, &mut client, "replication slot theirs");
}
