//! No block twice: kills, rollbacks, and tags that change meanwhile.

use leaf_tests::postgres::Client;
use leaf_tests::{
    Block, Draw, INSTALLER, Ledger, Mode, Server, Snowflake, Stop, failed, pipe, refused,
    wait_until,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Blocks that were returned, with the tag's incarnation where it matters: none may have an id of
/// another.
#[derive(Default)]
struct Blocks(Mutex<Vec<(String, Block)>>);

impl Blocks {
    fn add(&self, block: Block) {
        self.add_of("", block);
    }

    fn add_of(&self, incarnation: &str, block: Block) {
        let mut blocks = self.0.lock().expect("no panic");
        blocks.push((incarnation.to_owned(), block));
    }

    /// How many ids they have; panics if one comes twice.
    fn assert_distinct(self) -> i64 {
        let mut blocks = self.0.into_inner().expect("no panic");
        blocks.sort_by_key(|(incarnation, block)| (incarnation.clone(), block.first));
        for pair in blocks.windows(2) {
            let [(one, before), (other, after)] = pair else {
                unreachable!("windows of two");
            };
            assert!(one != other || before.last < after.first, "{pair:?}");
        }
        blocks.iter().map(|(_, it)| it.last - it.first + 1).sum()
    }
}

/// Without the right to read its own sequence, the owner would see no value.
#[test]
fn owner_who_has_taken_rights_from_himself_repeats_nothing() {
    let server = Server::options().plain().start();
    let mut owner = server.connect_as(INSTALLER, "postgres");
    for taken in ["SELECT, USAGE", "UPDATE"] {
        owner.run(&format!(
            "ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO CURRENT_USER;
             ALTER DEFAULT PRIVILEGES REVOKE {taken} ON SEQUENCES FROM CURRENT_USER;
             SELECT leaf_tag_create('{taken}')"
        ));
        owner.run("BEGIN");
        let rolled_back = owner.reserve(taken, 10).expect("a block");
        owner.run("ROLLBACK");
        assert!(owner.reserve(taken, 10).expect("a block").first > rolled_back.last);
    }
}

/// What the original has fed since is known to shards only.
#[test]
fn copied_row_feeds_nothing_after_a_block_either() {
    let server = Server::options().plain().start();
    let mut owner = server.connect_as(INSTALLER, "postgres");
    owner.run(
        "UPDATE leaf.plain SET is_replicated = true;
         SELECT leaf_tag_create('orders');
         CREATE TABLE copied AS SELECT * FROM leaf.alloc;
         SELECT leaf_tag_drop('orders');
         INSERT INTO leaf.alloc SELECT * FROM copied",
    );
    assert_eq!(owner.feed("orders", 10), Err("55000".into()));
    owner.reserve("orders", 1).expect("a block");
    assert_eq!(owner.feed("orders", 10), Err("55000".into()));
    owner.run("SELECT leaf_tag_alter('orders', advance_to => 100000)");
    owner.feed("orders", 10).expect("numbers");
}

/// A shard's tag is attached if its own numbers lie below: what no row keeps does not count.
#[test]
fn position_is_that_of_the_row() {
    let (_server, mut owner) = Server::options().plain().start_with_orders(1000);
    owner.run("UPDATE leaf.plain SET is_replicated = true");
    owner.reserve("orders", 10).expect("a block");
    owner.run("SELECT leaf_new_history()");
    owner.run("BEGIN; SELECT leaf_segment_reserve('orders', 50); ROLLBACK");
    assert_eq!(owner.feed("orders", 0).expect("a position").last, 10);
}

/// Reserves until it is told to stop, and connects again after each end of the server.
fn reserve(
    server: &leaf_tests::postgres::Config,
    setting: &str,
    blocks: &Blocks,
    stop: &AtomicBool,
) {
    while !stop.load(Ordering::Relaxed) {
        let Ok(mut client) = server.connect(leaf_tests::postgres::NoTls) else {
            continue;
        };
        if client.batch_execute(setting).is_err() {
            continue;
        }
        while !stop.load(Ordering::Relaxed) {
            match client.reserve("orders", 20_000) {
                Ok(block) => blocks.add(block),
                Err(_) => break,
            }
        }
    }
}

#[test]
fn killed_again_and_again_no_id_comes_twice() {
    kill_again_and_again("SET synchronous_commit = on");
}

#[test]
fn killed_again_and_again_without_waiting_for_the_disk_no_id_comes_twice() {
    kill_again_and_again("SET synchronous_commit = off");
}

fn kill_again_and_again(setting: &str) {
    let mut server = Server::options().plain().start();
    server.connect().run("SELECT leaf_tag_create('orders')");
    let (blocks, stop) = (Blocks::default(), AtomicBool::new(false));
    let config = server.config("postgres", "postgres");
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        for _ in 0..4 {
            scope.spawn(|| reserve(&config, setting, &blocks, &stop));
        }
        for round in 1..=30 {
            wait_until("blocks are reserved", || {
                blocks.0.lock().expect("no panic").len() > round * 9
            });
            server.restart(Mode::Immediate);
        }
        stop.store(true, Ordering::Relaxed);
    });
    let ids = blocks.assert_distinct();
    assert!(ids > 5_000_000, "{ids} ids");
}

/// Half of the blocks are of transactions and savepoints that are rolled back: no other is like
/// them.
#[test]
fn rolled_back_blocks_are_not_granted_again() {
    let (server, mut client) = Server::options().plain().start_with_orders(1000);
    let (blocks, calls) = (Blocks::default(), 60);
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = server.connect();
                for call in 0..calls {
                    let (before, after) = match call % 4 {
                        0 => ("", ""),
                        1 => ("BEGIN", "ROLLBACK"),
                        2 => ("BEGIN; SAVEPOINT s", "ROLLBACK TO s; COMMIT"),
                        _ => ("BEGIN; SAVEPOINT s", "RELEASE s; COMMIT"),
                    };
                    client.run(before);
                    blocks.add(client.reserve("orders", 7).expect("a block"));
                    client.run(after);
                }
            });
        }
    });
    assert_eq!(blocks.assert_distinct(), 4 * calls * 7);
    let next = client.reserve("orders", 1).expect("a block");
    assert!(next.first > 4 * calls * 7);
}

/// While others rename, drop and create the tag, and change their minds.
#[test]
fn tags_that_change_meanwhile_repeat_nothing() {
    let (server, _) = Server::options().plain().start_with_orders(1000);
    let (blocks, stop) = (Blocks::default(), AtomicBool::new(false));
    thread::scope(|scope| {
        let _stop = Stop(&stop);
        let drawing: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut client = server.connect();
                    let mut drawn = 0;
                    while !stop.load(Ordering::Relaxed) {
                        let row = client.query_one(
                            "SELECT incarnation::text, lower(block), upper(block) - 1
                               FROM leaf_tag_incarnation('orders') AS incarnation,
                                    LATERAL leaf_segment_reserve('orders', 10, incarnation) AS block",
                            &[],
                        );
                        match row {
                            Ok(row) => {
                                let block = Block { first: row.get(1), last: row.get(2) };
                                blocks.add_of(row.get(0), block);
                                drawn += 1;
                            }
                            // It is gone for a moment, or another one.
                            Err(error) => assert!(
                                error.code().is_some_and(|code| {
                                    ["42704", "55000", "40P01"].contains(&code.code())
                                }),
                                "{error:?}"
                            ),
                        }
                    }
                    drawn
                })
            })
            .collect();
        let mut client = server.connect();
        for round in 0..100 {
            let (change, end) = match round % 5 {
                0 => (
                    "UPDATE leaf.alloc SET biz_tag = 'others' WHERE biz_tag = 'orders'",
                    "ROLLBACK",
                ),
                1 => (
                    "SELECT leaf_tag_drop('orders'), leaf_tag_create('orders')",
                    "COMMIT",
                ),
                2 => ("SELECT leaf_tag_drop('orders')", "ROLLBACK"),
                3 => (
                    "UPDATE leaf.alloc SET biz_tag = 'others' WHERE biz_tag = 'orders';
                     UPDATE leaf.alloc SET biz_tag = 'orders' WHERE biz_tag = 'others'",
                    "COMMIT",
                ),
                _ => (
                    "SELECT leaf_tag_alter('orders', advance_to => max_id + 100) FROM leaf.alloc",
                    "ROLLBACK",
                ),
            };
            client.run(&format!("BEGIN; {change}; {end}"));
        }
        stop.store(true, Ordering::Relaxed);
        for drawing in drawing {
            assert!(drawing.join().expect("no panic") > 10);
        }
    });
    assert!(blocks.assert_distinct() > 300);
}

/// A transaction that has reserved holds the row: others of the tag get 55P03, those of other tags
/// do not wait.
#[test]
fn open_transaction_holds_up_its_own_tag_alone() {
    let (server, mut client) = Server::options().plain().start_with_orders(1000);
    client.run("SELECT leaf_tag_create('parcels')");
    let mut open = server.connect();
    open.run("BEGIN");
    let held = open.reserve("orders", 10).expect("a block");
    client.reserve("parcels", 10).expect("a block");
    failed(client.reserve("orders", 10), "55P03");
    // It holds rows of other tags while it waits.
    failed(client.simple_query("SELECT leaf.fold()"), "55P03");
    open.run("ROLLBACK");
    let next = client.reserve("orders", 10).expect("a block");
    assert!(next.first > held.last);
}

/// Transactions that see one snapshot get an error that is worth another try, and read-only ones
/// and standbys none at all.
#[test]
fn kinds_of_transactions_and_servers() {
    let (server, mut client) = Server::options().plain().start_with_orders(1000);
    let mut other = server.connect();
    for level in ["REPEATABLE READ", "SERIALIZABLE"] {
        client.run(&format!("BEGIN ISOLATION LEVEL {level}; SELECT 1"));
        other.reserve("orders", 10).expect("a block");
        failed(client.reserve("orders", 10), "40001");
        client.run("ROLLBACK");
    }
    // A snapshot with a tag that was dropped, and another one of the name.
    client.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    other.run("SELECT leaf_tag_drop('orders')");
    client.run("SELECT leaf_tag_create('orders')");
    failed(client.reserve("orders", 10), "40001");
    client.run("ROLLBACK; SELECT leaf_tag_create('orders')");
    client.run("BEGIN READ ONLY");
    failed(client.reserve("orders", 10), "25006");
    client.run("ROLLBACK");
    let standby = Server::options().plain().start_standby_of(&server);
    let mut client = standby.connect();
    refused(client.reserve("orders", 10), "25006");
    refused(
        client.simple_query("SELECT leaf_worker_register('node')"),
        "25006",
    );
    let id = "SELECT leaf_id_parse(leaf_id_text(42))";
    assert_eq!(client.number(id), 42);
    // A session of the standby knows the history that a promotion begins.
    let history = "SELECT leaf.history()";
    assert!(client.text(history).starts_with("plain/?/"));
    let mut later = standby.promote();
    client.reserve("orders", 10).expect("a block");
    let present = later.text(history);
    assert!(present.starts_with("plain/00000002/"), "{present}");
    assert_eq!(client.text(history), present);
    assert_eq!(later.text("SELECT history FROM leaf.alloc"), present);
}

#[test]
fn ranges_at_the_ends_of_bigint_are_granted_to_the_last_number() {
    let server = Server::options().plain().start();
    let mut client = server.connect();
    client.run(
        "UPDATE leaf.plain SET is_replicated = true;
         SELECT leaf_tag_create('lowest', start => -9223372036854775808, max_value => -9223372036854775800),
                leaf_tag_create('middle', start => -5, max_value => 5),
                leaf_tag_create('highest', start => 9223372036854775800)",
    );
    let fed = |client: &mut Client, tag: &str, count: i64| {
        client.text(&format!(
            "SELECT concat_ws(' ', first, last, error_code) FROM leaf_segment_feed('{{{tag}}}', '{{{count}}}')"
        ))
    };
    for (tag, none, all) in [
        (
            "lowest",
            "-9223372036854775808 -9223372036854775808",
            "-9223372036854775808 -9223372036854775800",
        ),
        ("middle", "-5 -6", "-5 5"),
        (
            "highest",
            "9223372036854775800 9223372036854775799",
            "9223372036854775800 9223372036854775806",
        ),
    ] {
        assert_eq!(fed(&mut client, tag, 0), none);
        failed(client.reserve(tag, 12), "2200H");
        assert_eq!(fed(&mut client, tag, 1_000_000_000), all);
        assert_eq!(fed(&mut client, tag, 1), "2200H");
        failed(client.reserve(tag, 1), "2200H");
    }
}

/// Texts of leaf's own are not compared by a collation of the caller's, for which all histories could be equal.
#[test]
fn collations_of_callers_change_nothing() {
    let (server, mut client) = Server::options().plain().start_with_orders(1000);
    let mut superuser = server.connect();
    superuser.run("CREATE ROLE node LOGIN; GRANT EXECUTE ON FUNCTION leaf_worker_register TO node");
    let mut node = server.connect_as("node", "postgres");
    for name in ["a", "b"] {
        let argument = format!(r#"'{name}' COLLATE "POSIX""#);
        node.register(&argument).expect("a lease");
    }
    for call in [
        r#"leaf_tag_grant('orders' COLLATE "POSIX", 'node' COLLATE "POSIX")"#,
        r#"leaf_tag_revoke('orders' COLLATE "POSIX", 'node' COLLATE "POSIX")"#,
    ] {
        client.run(&format!("SELECT {call}"));
    }
    let collation = "CREATE COLLATION whatever_case (provider = icu, locale = 'und-u-ks-level2', deterministic = false)";
    let created = superuser.batch_execute(collation);
    if created.is_err() {
        // Without ICU, there is none for which different texts are equal.
        failed(created, "0A000");
        return;
    }
    superuser.run("UPDATE leaf.alloc SET history = upper(history)");
    let max_id = superuser.number("SELECT max_id FROM leaf.alloc");
    let first =
        client.number("SELECT lower(leaf_segment_reserve('orders' COLLATE whatever_case, 1))");
    assert!(first >= max_id + 1000, "{first} after {max_id}");
}

/// Also where the host hides the identity of the cluster, which pg_upgrade makes another one.
#[test]
fn server_of_another_version_grants_nothing_until_a_new_history_begins() {
    let server = Server::options().plain().start();
    let mut owner = server.connect_as(INSTALLER, "postgres");
    server
        .connect()
        .run("REVOKE EXECUTE ON FUNCTION pg_control_system FROM PUBLIC");
    owner.run("SELECT leaf_tag_create('orders')");
    refused(owner.reserve("orders", 1), "55000");
    owner.run("SELECT leaf_new_history()");
    owner.reserve("orders", 1).expect("a block");
    let earlier = "regexp_replace(place, '^[?] [0-9]+', '? 14')";
    owner.run(&format!("UPDATE leaf.plain SET place = {earlier}"));
    refused(owner.reserve("orders", 1), "55000");
    owner.run("SELECT leaf_new_history()");
    owner.reserve("orders", 1).expect("a block");
}

/// What a dump brings along is not enough to go on: somebody has to say that the original issues no
/// ids any more, or that the copy is to have others.
#[test]
fn restored_rows_grant_nothing_until_a_new_history_begins() {
    let (server, mut client) = Server::options().plain().start_with_orders(1000);
    let whole: &[&[&str]] = &[&[]];
    let in_parts: &[&[&str]] = &[&["--schema-only"], &["--data-only", "--disable-triggers"]];
    for (number, dumps) in [whole, in_parts, &in_parts[..1]].into_iter().enumerate() {
        let mut ids = Ledger::new();
        ids.add(client.reserve("orders", 500).expect("a block").ids());
        client.run(&format!("CREATE DATABASE copy{number}"));
        for arguments in dumps {
            pipe(
                server.program("pg_dump").args(*arguments).arg("postgres"),
                server
                    .program("psql")
                    .args(["-X", "-q", "-v", "ON_ERROR_STOP=1"])
                    .arg(format!("copy{number}")),
            );
        }
        let mut copy = server.connect_as("postgres", &format!("copy{number}"));
        let has_rows = dumps.len() != 1 || number == 0;
        match has_rows {
            true => drop(refused(copy.reserve("orders", 10), "55000")),
            false => drop(failed(
                copy.simple_query(
                    "SELECT leaf_tag_create('orders'); SELECT leaf_segment_reserve('orders', 1)",
                ),
                "55000",
            )),
        }
        failed(
            copy.simple_query("SELECT leaf_worker_register('node')"),
            "55000",
        );
        ids.add(client.reserve("orders", 500).expect("a block").ids());
        copy.run("SELECT leaf_new_history()");
        if has_rows {
            ids.add(copy.reserve("orders", 10).expect("a block").ids());
        } else {
            copy.run("SELECT leaf_tag_create('orders')");
            copy.reserve("orders", 10).expect("a block");
        }
        copy.simple_query("SELECT leaf_worker_register('node')")
            .expect("a lease");
    }
}

/// Of a new history, a tag skips as far as its owner says by now, not when the snapshot was taken.
#[test]
fn tag_skips_as_far_as_the_setting_of_now_says() {
    let server = Server::options().plain().start();
    let [mut owner, mut other] = [(); 2].map(|()| server.connect_as(INSTALLER, "postgres"));
    owner.run("SELECT leaf_tag_create('orders'); SELECT leaf_new_history()");
    other.run("BEGIN ISOLATION LEVEL REPEATABLE READ");
    other.number("SELECT count(*) FROM leaf.plain");
    owner.run("UPDATE leaf.plain SET history_skip = 1000");
    failed(
        other.simple_query("SELECT leaf_segment_reserve('orders', 1)"),
        "40001",
    );
}

/// Whatever a row says of earlier grants.
#[test]
fn tag_of_a_new_history_never_skips_backwards() {
    let server = Server::options().plain().start();
    let mut owner = server.connect_as(INSTALLER, "postgres");
    owner.run("SELECT leaf_tag_create('orders')");
    let mut last = owner.reserve("orders", 1000).expect("a block").last;
    for nonsense in ["largest_reserve = -5000", "last_grant = -5000"] {
        owner.run(&format!(
            "UPDATE leaf.alloc SET {nonsense}; SELECT leaf_new_history()"
        ));
        let block = owner.reserve("orders", 1000).expect("a block");
        assert!(block.first > last, "{} after {last}", block.first);
        last = block.last;
    }
}

/// Rows that do not see each other as well: two tags with one identity would share their high water.
#[test]
fn no_two_tags_have_one_high_water() {
    let server = Server::options().plain().start();
    let [mut owner, mut restorer] = [(); 2].map(|()| server.connect_as(INSTALLER, "postgres"));
    restorer.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1");
    owner.run("SELECT leaf_tag_create('orders')");
    owner.reserve("orders", 10).expect("a block");
    let incarnation = owner.text("SELECT incarnation::text FROM leaf.alloc");
    let row = format!(
        "INSERT INTO leaf.alloc (biz_tag, step, max_id, incarnation) VALUES ('mine', 1, 1, '{incarnation}')"
    );
    failed(restorer.simple_query(&row), "23505");
    restorer.run("ROLLBACK");
    // One that sees it gets another identity.
    restorer.run(&row);
    let two = "INSERT INTO leaf.alloc (biz_tag, step, max_id, incarnation)
               SELECT tag, 1, 1, '00000000-0000-0000-0000-000000000001' FROM unnest('{a,b}'::text[]) AS tag";
    failed(restorer.simple_query(two), "23505");
    let different = "SELECT count(DISTINCT incarnation) FROM leaf.alloc";
    assert_eq!(owner.number(different), 2);
}
