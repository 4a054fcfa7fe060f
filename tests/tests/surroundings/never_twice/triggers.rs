//! Triggers of others on leaf's tables, and leaf's own where they are disabled.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Mode, Server, Signal, draw_many, refused, signal, wait_until};

/// Runs a statement that none of leaf's triggers sees, as `pg_restore
/// --disable-triggers` does.
fn past_the_triggers(admin: &mut Client, statement: &str) {
    admin.run(&format!(
        "BEGIN; ALTER TABLE leaf.alloc DISABLE TRIGGER ALL;
         {statement};
         ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_check;
         ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_changed;
         ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_truncated; COMMIT"
    ));
}

/// What no trigger has seen is found by the loader: it grants nothing from a row
/// that lies below what was handed out of it.
#[test]
fn row_lowered_behind_the_triggers_backs_repeats_no_id() {
    let (server, mut admin) = Server::with_orders(1000);
    let mut warm = server.connect();
    warm.next("orders").expect("an id");
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut warm, "orders", 2_500));
    past_the_triggers(
        &mut admin,
        "UPDATE leaf.alloc SET max_id = 1, step = 1, last_grant = 1",
    );
    warm.run("SET leaf.wait_timeout = '1s'");
    let error = loop {
        match warm.batch("orders", 100) {
            Ok(ids) => ledger.add(ids),
            refusal => break refused(refusal, "55P03"),
        }
    };
    let detail = error.detail().unwrap_or_default();
    assert!(detail.contains("below"), "{error:?}");
    // The way out that it names.
    // A grant that the change overtakes is thrown away.
    let loader = server.stop_sleeping_loader();
    admin.run("UPDATE leaf.alloc SET max_id = 10000000");
    signal(loader, Signal::SIGCONT);
    // Nobody knows what the row lacks, also after an update: it skips. (A session that does not
    // know yet that the tag has changed throws an id away.)
    let id = warm.next("orders").expect("an id");
    assert!(id >= 10_000_010, "{id}");
}

/// As `pg_restore --data-only --disable-triggers` brings back a row of the same cluster.
#[test]
fn row_written_behind_the_triggers_skips_whatever_changes_it_before() {
    let (_server, mut admin) = Server::with_orders(1000);
    admin.run(
        "CREATE ROLE app; CREATE TABLE orders (id bigint DEFAULT leaf_segment_next('orders'))",
    );
    for change in [
        "SELECT leaf_tag_grant('orders', 'app')",
        "SELECT leaf_tag_alter('orders', description => 'of the shop')",
        "INSERT INTO orders SELECT max_id FROM leaf.alloc; SELECT leaf_tag_align()",
        "UPDATE leaf.alloc SET update_time = now(), is_copy = false",
    ] {
        let granted = admin.number("SELECT max_id FROM leaf.alloc");
        past_the_triggers(
            &mut admin,
            "UPDATE leaf.alloc SET last_grant = 5000, largest_reserve = 0",
        );
        admin.run(change);
        let id = admin.reserve("orders", 1).expect("a block").first;
        assert!(id >= granted + 50_000, "{change}: {granted}, then {id}");
        let next = admin.reserve("orders", 1).expect("a block").first;
        assert_eq!(next, id + 1, "it skips once");
    }
}

#[test]
fn row_written_behind_the_triggers_feeds_nothing_whatever_changes_it_before() {
    let options = Server::options().set("leaf.allow_unreplicated_centre", "on");
    let (_server, mut admin) = options.start_with_orders(1000);
    admin.run("CREATE ROLE shard");
    admin.feed("orders", 10).expect("numbers");
    past_the_triggers(&mut admin, "UPDATE leaf.alloc SET max_id = max_id");
    // As if the tag of another node had been attached.
    admin.run(
        "SET session_replication_role = replica;
         UPDATE leaf.alloc SET upstream_tag = 'orders', upstream_incarnation = gen_random_uuid();
         RESET session_replication_role",
    );
    admin.run("SELECT leaf_tag_grant('orders', 'shard')");
    assert_eq!(admin.feed("orders", 10).expect_err("none"), "55000");
    admin.next("orders").expect("an id");
    assert_eq!(admin.feed("orders", 10).expect_err("none"), "55000");
    admin.run("SELECT leaf_tag_vouch('orders')");
    admin.feed("orders", 10).expect("numbers");
    // Its owner says it by a position, too.
    past_the_triggers(&mut admin, "UPDATE leaf.alloc SET max_id = max_id");
    assert_eq!(admin.feed("orders", 10).expect_err("none"), "55000");
    admin.run("SELECT leaf_tag_alter('orders', advance_to => 9000000)");
    assert!(admin.feed("orders", 10).expect("numbers").first >= 9_000_000);
}

#[test]
fn rows_restored_without_triggers_into_a_new_extension_are_served() {
    let (server, mut admin) = Server::with_orders(1000);
    let mut warm = server.connect();
    warm.next("orders").expect("an id");
    admin.run("DROP EXTENSION leaf; CREATE EXTENSION leaf");
    past_the_triggers(
        &mut admin,
        "INSERT INTO leaf.alloc (biz_tag, max_id, step) VALUES ('orders', 5000000, 1000)",
    );
    // Nobody knows how old the row is: it skips.
    assert_eq!(warm.next("orders").expect("an id"), 5_010_000);
}

/// `pg_restore --disable-triggers` ends like this. A subscription, for example, then
/// applies what it would not have without.
#[test]
fn row_that_ordinary_triggers_did_not_see_counts_as_written_elsewhere() {
    let (mut server, mut admin) = Server::with_orders(1000);
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut admin, "orders", 1_500));
    admin.run(
        "ALTER TABLE leaf.alloc DISABLE TRIGGER ALL; ALTER TABLE leaf.alloc ENABLE TRIGGER ALL;
         SET session_replication_role = replica; UPDATE leaf.alloc SET max_id = 1001",
    );
    drop(admin);
    server.restart(Mode::Immediate);
    ledger.add(draw_many(&mut server.connect(), "orders", 1_500));
}

/// What is published is what was committed.
#[test]
fn trigger_that_changes_a_granted_row_afterwards_is_an_error_before_ids_are_seen() {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run(
        "SET leaf.wait_timeout = '500ms';
         CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF pg_trigger_depth() = 1 THEN
                 UPDATE leaf.alloc SET max_id = max_id + 7 WHERE biz_tag = new.biz_tag;
             END IF;
             RETURN NULL;
         END $$",
    );
    for (number, (trigger, cause)) in [
        (
            "CREATE TRIGGER meddle AFTER UPDATE ON leaf.alloc",
            "was not stored",
        ),
        (
            "CREATE CONSTRAINT TRIGGER meddle AFTER UPDATE ON leaf.alloc DEFERRABLE INITIALLY DEFERRED",
            "cannot fire deferred trigger",
        ),
    ]
    .into_iter()
    .enumerate()
    {
        let tag = format!("tag{number}");
        admin.run(&format!("SELECT leaf_tag_create('{tag}', step => 100)"));
        admin.run(&format!("{trigger} FOR EACH ROW EXECUTE FUNCTION meddle()"));
        let error = refused(admin.next(&tag), "55P03");
        let detail = error.detail().unwrap_or_default();
        assert!(detail.contains(cause), "{error:?}");
        admin.run("DROP TRIGGER meddle ON leaf.alloc");
        assert_eq!(admin.next(&tag).expect("an id"), 1);
    }
}

/// A trigger that fires because of a grant changes another tag's row: that is a change
/// like any other.
#[test]
fn trigger_that_moves_another_tag_during_a_grant_is_obeyed() {
    let (_server, mut admin) = Server::with_orders(1000);
    admin.run(
        "SELECT leaf_tag_create('other', step => 1000); SELECT leaf_segment_next('other');
         CREATE FUNCTION meddle() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             UPDATE leaf.alloc SET max_id = 5000000 WHERE biz_tag = 'other' AND max_id < 5000000;
             RETURN NULL;
         END $$;
         CREATE TRIGGER meddle AFTER UPDATE ON leaf.alloc
             FOR EACH ROW WHEN (new.biz_tag = 'orders') EXECUTE FUNCTION meddle()",
    );
    admin.next("orders").expect("an id");
    assert_eq!(admin.next("other").expect("an id"), 5_000_000);
}

/// Buffers in memory are those of the row that is gone, and nobody knows whose the other one is.
#[test]
fn row_replaced_behind_the_triggers_backs_is_another_tag_for_which_somebody_vouches() {
    let (server, mut admin) = Server::with_orders(1000);
    let mut warm = server.connect();
    assert_eq!(warm.batch("orders", 100).expect("ids").last(), Some(&100));
    past_the_triggers(
        &mut admin,
        "DELETE FROM leaf.alloc;
         INSERT INTO leaf.alloc (biz_tag, max_id, step) VALUES ('orders', 5000000, 1000)",
    );
    refused(server.connect().next("orders"), "55000");
    refused(warm.next("orders"), "55000");
    admin.run("SELECT leaf_tag_vouch('orders')");
    let first = server.connect().next("orders").expect("an id");
    assert_eq!(first, 5_010_000);
    assert!(warm.next("orders").expect("an id") > first);

    // A session that still draws from the buffers learns it with the next load.
    past_the_triggers(
        &mut admin,
        "DELETE FROM leaf.alloc;
         INSERT INTO leaf.alloc (biz_tag, max_id, step) VALUES ('orders', 9000000, 1000)",
    );
    wait_until("the session is refused", || match warm.next("orders") {
        Ok(id) => id >= 9_000_000,
        refusal => {
            refused(refusal, "55000");
            true
        }
    });
    refused(warm.next("orders"), "55000");
}

#[test]
fn block_of_a_row_lowered_behind_the_triggers_backs_repeats_no_id() {
    let (server, mut admin) = Server::with_orders(1000);
    let mut warm = server.connect();
    warm.next("orders").expect("an id");
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut warm, "orders", 2_500));
    past_the_triggers(&mut admin, "UPDATE leaf.alloc SET max_id = 1");
    warm.run("SET leaf.wait_timeout = '1s'");
    match warm.reserve("orders", 100) {
        Ok(block) => ledger.add(block.ids()),
        refusal => drop(refused(refusal, "55P03")),
    }
}

/// The row of a new tag would stay where it was, and its first ids come twice.
#[test]
fn trigger_that_swallows_updates_is_an_error_before_ids_are_seen() {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run(
        "CREATE FUNCTION swallow() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN RETURN CASE tg_argv[0] WHEN 'nothing' THEN NULL ELSE old END; END $$",
    );
    for instead in ["nothing", "old"] {
        admin.run(&format!(
            "CREATE TRIGGER swallow BEFORE UPDATE ON leaf.alloc
                FOR EACH ROW EXECUTE FUNCTION swallow('{instead}')"
        ));
        admin.run("BEGIN; SELECT leaf_tag_create('new')");
        refused(admin.next("new"), "09000");
        admin.run("ROLLBACK");
        admin.run("SELECT leaf_tag_create('new'); SET leaf.wait_timeout = '300ms'");
        refused(admin.next("new"), "55P03");
        admin.run("DROP TRIGGER swallow ON leaf.alloc");
        assert_eq!(admin.next("new").expect("an id"), 1);
        admin.run("SELECT leaf_tag_drop('new')");
    }
}
