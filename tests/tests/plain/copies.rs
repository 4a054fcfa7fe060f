//! Copies: a failover, restored dumps, and files that were copied. Each tag skips once, and leases of
//! before wait, without anybody's call where SQL can tell.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Mode, Server, pipe, refused, reserve_by_call};

use crate::registry::{lease, renew};
use crate::reserve;

const CALLS: i64 = 5;

/// A few blocks and a lease; the worker id and the ids are noted.
fn use_of(client: &mut Client, ids: &mut Ledger) {
    for _ in 0..CALLS {
        reserve(client, "orders", 1000, ids);
    }
}

/// A server with a system identifier of its own, and a tag.
fn original() -> (Server, Client) {
    Server::options()
        .plain()
        .set("wal_level", "replica")
        .start_with_orders(1000)
}

/// An asynchronous standby lacks the last grants and renewals when it becomes the primary.
#[test]
fn promoted_standby_repeats_no_block_and_gives_no_lease_away() {
    let (mut primary, mut client) = original();
    let standby = Server::options().plain().start_standby_of(&primary);
    let mut ids = Ledger::new();
    use_of(&mut client, &mut ids);
    client.run("SELECT leaf_tag_create('new')");
    let mut known = lease(&mut client, "'known'").expect("a lease");
    let mut renewed = lease(&mut client, "'renewed'").expect("a lease");
    standby.catch_up_with(&primary);
    standby.reload("primary_conninfo", "");
    // What it never gets.
    use_of(&mut client, &mut ids);
    let mut of_new = Ledger::new();
    reserve(&mut client, "new", 1000, &mut of_new);
    renew(&mut client, &mut renewed).expect("a renewal");
    lease(&mut client, "'lost'").expect("a lease");
    primary.stop(Mode::Immediate);

    standby.promote();
    let mut client = standby.connect();
    use_of(&mut client, &mut ids);
    reserve(&mut client, "new", 1000, &mut of_new);
    renew(&mut client, &mut known).expect("it is the same registry");
    refused(renew(&mut client, &mut renewed), "55000");
    // "lost" is not known here: new nodes get any worker ids, and hardly its own, which is the lowest.
    let others = (0..2).map(|_| lease(&mut client, "'another'").expect("a lease").worker_id);
    assert_ne!(
        others.collect::<Vec<_>>(),
        [renewed.worker_id + 1, renewed.worker_id + 2]
    );
    // Until worker_reuse_after, the lease that was renewed elsewhere is nobody else's.
    client.run("UPDATE leaf.worker SET leased_until = now() - interval '1 h', ceiling = now() - interval '1 h' WHERE node = 'renewed'");
    let this_one = format!("'next', {}", renewed.worker_id);
    refused(lease(&mut client, &this_one), "55006");
    client.run("UPDATE leaf.plain SET worker_reuse_after = '30 min'");
    lease(&mut client, &this_one).expect("a lease");
    // It has skipped once.
    let before = client.number("SELECT max_id FROM leaf.alloc WHERE biz_tag = 'orders'");
    assert_eq!(reserve(&mut client, "orders", 10, &mut ids), before);
}

/// Dumps and restores a database as its owner would.
fn restore(from: &Server, to: &Server, database: &str) {
    let mut dump = from.program("pg_dump");
    let mut psql = to.program("psql");
    psql.args(["-q", "-1", "-v", "ON_ERROR_STOP=1", "-d", database]);
    pipe(&mut dump, &mut psql);
}

#[test]
fn restored_dump_beside_its_original_repeats_no_block_and_no_lease() {
    let (server, mut client) = original();
    let other = Server::options().plain().bare().fresh().start();
    for (number, target) in [&server, &other].into_iter().enumerate() {
        let mut ids = Ledger::new();
        use_of(&mut client, &mut ids);
        let mut leases: Vec<_> = (0..4)
            .map(|_| lease(&mut client, "'node'").expect("a lease"))
            .collect();
        let roles = "DO $$ BEGIN IF to_regrole('installer') IS NULL THEN CREATE ROLE installer; END IF; END $$";
        target.connect().run(roles);
        target
            .connect()
            .run(&format!("CREATE DATABASE copy{number} TEMPLATE template0"));
        restore(&server, target, &format!("copy{number}"));
        let mut copy = target.connect_as("postgres", &format!("copy{number}"));
        for client in [&mut client, &mut copy] {
            use_of(client, &mut ids);
        }
        let mut of_before = leases[0].clone();
        refused(renew(&mut copy, &mut of_before), "55000");
        renew(&mut client, &mut leases[0]).expect("the original");
        // Both give worker ids to new nodes, of 1,024; those in use there are not free here.
        let used: Vec<_> = leases.iter().map(|lease| lease.worker_id).collect();
        copy.run("UPDATE leaf.worker SET leased_until = now() - interval '1 d', ceiling = now() - interval '1 d'");
        let of_copy: Vec<_> = (0..4)
            .map(|_| lease(&mut copy, "'node'").expect("a lease").worker_id)
            .collect();
        assert!(of_copy.iter().all(|id| !used.contains(id)), "{of_copy:?}");
        let lowest: Vec<_> = (used[3] + 1..used[3] + 5).collect();
        assert_ne!(of_copy, lowest);
        assert_ne!(
            copy.text("SELECT history FROM leaf.alloc"),
            client.text("SELECT history FROM leaf.alloc")
        );
    }
}

/// An older dump takes the place of what is there.
#[test]
fn dump_restored_in_place_skips_what_was_granted_since() {
    let (server, mut client) = original();
    let mut ids = Ledger::new();
    use_of(&mut client, &mut ids);
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, arguments: &[&str]| {
        let dump = server
            .program("pg_dump")
            .args(arguments)
            .output()
            .expect("a dump");
        let path = folder.path().join(name);
        std::fs::write(&path, dump.stdout).expect("a file");
        path
    };
    let load = |path: &std::path::Path| {
        let mut psql = server.program("psql");
        let done = psql
            .args(["-q", "-1", "-v", "ON_ERROR_STOP=1", "-f"])
            .arg(path)
            .output()
            .expect("psql");
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    };
    let whole = write(
        "whole.sql",
        &["--clean", "--if-exists", "-n", "leaf", "-n", "public"],
    );
    use_of(&mut client, &mut ids);
    load(&whole);
    let mut client = server.connect();
    use_of(&mut client, &mut ids);
    // Of the same table, rows bring a history along, or leave its trigger as an ordinary one.
    for option in ["--inserts", "--disable-triggers", "--disable-triggers"] {
        let rows = write("rows.sql", &["--data-only", "-t", "leaf.alloc", option]);
        use_of(&mut client, &mut ids);
        client.run("DELETE FROM leaf.alloc");
        load(&rows);
        use_of(&mut client, &mut ids);
    }
}

/// Of files, SQL cannot tell the copy.
#[test]
fn copy_of_files_is_another_database_once_it_was_told() {
    let (mut server, mut client) = original();
    let mut ids = Ledger::new();
    use_of(&mut client, &mut ids);
    let mut held = lease(&mut client, "'node'").expect("a lease");
    server.stop(Mode::Fast);
    let mut copy = server.copy();
    server.start_again();
    copy.start_again();
    let (mut client, mut copied) = (server.connect(), copy.connect());
    copied.run("SELECT leaf_new_history()");
    for client in [&mut client, &mut copied] {
        use_of(client, &mut ids);
    }
    let mut of_before = held.clone();
    refused(renew(&mut copied, &mut of_before), "55000");
    renew(&mut client, &mut held).expect("the original");
}

/// With the largest block, not with the step alone; and by as much as is set.
#[test]
fn skip_is_a_multiple_of_the_largest_block() {
    let (_server, mut client) = original();
    let mut ids = Ledger::new();
    reserve(&mut client, "orders", 5000, &mut ids);
    reserve(&mut client, "orders", 10, &mut ids);
    client.run("UPDATE leaf.plain SET history_skip = 3; SELECT leaf_new_history()");
    assert_eq!(
        reserve(&mut client, "orders", 10, &mut ids),
        5011 + 3 * 5000
    );
    client.run("SELECT leaf_tag_create('small', max_value => 9000), leaf_new_history()");
    refused(
        reserve_by_call(&mut client, "small", 10).and_then(|_| {
            client.run("SELECT leaf_new_history()");
            reserve_by_call(&mut client, "small", 6000)
        }),
        "2200H",
    );
}
