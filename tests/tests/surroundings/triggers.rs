//! Triggers: those of others on leaf's tables, event triggers that draw, and leaf's
//! own where they are disabled or used elsewhere.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Server, draw_many, refused};

#[test]
fn triggers_functions_refuse_to_be_used_elsewhere() {
    let (_server, mut admin) = Server::with_orders(1000);
    admin.run("CREATE TABLE mine (i int)");
    for statement in [
        "CREATE TRIGGER t AFTER UPDATE ON leaf.alloc FOR EACH STATEMENT EXECUTE FUNCTION leaf_alloc_changed();
         UPDATE leaf.alloc SET description = 'x'",
        "CREATE TRIGGER t BEFORE INSERT ON mine FOR EACH ROW EXECUTE FUNCTION leaf_alloc_changed();
         INSERT INTO mine VALUES (1)",
        "CREATE TRIGGER t BEFORE UPDATE ON leaf.alloc FOR EACH STATEMENT EXECUTE FUNCTION leaf_alloc_check();
         UPDATE leaf.alloc SET description = 'x'",
    ] {
        admin.run("BEGIN");
        admin.batch_execute(statement).expect_err(statement);
        admin.run("ROLLBACK");
    }
    admin.next("orders").expect("the server is alive");
}

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
    past_the_triggers(&mut admin, "UPDATE leaf.alloc SET max_id = 1");
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
    admin.run("UPDATE leaf.alloc SET max_id = 10000000");
    assert_eq!(warm.next("orders").expect("an id"), 10_000_000);
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
    assert_eq!(warm.next("orders").expect("an id"), 5_000_000);
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

/// Also while the extension itself is made, where leaf leases for the session
/// alone.
#[test]
fn event_triggers_may_draw() {
    let server = Server::options().bare().start();
    let mut admin = server.connect();
    admin.run(
        "CREATE TABLE log (flake bigint, id bigint, what text);
         CREATE FUNCTION note(what text) RETURNS void LANGUAGE plpgsql AS $$
         DECLARE flake bigint; id bigint;
         BEGIN
             BEGIN
                 flake := leaf_snowflake_next();
                 id := leaf_segment_next('log');
             EXCEPTION WHEN undefined_function OR undefined_object THEN NULL;
             END;
             INSERT INTO log VALUES (flake, id, what);
         END $$;
         CREATE FUNCTION changed() RETURNS event_trigger LANGUAGE plpgsql AS $$
         BEGIN PERFORM note(object_identity) FROM pg_event_trigger_ddl_commands(); END $$;
         CREATE FUNCTION dropped() RETURNS event_trigger LANGUAGE plpgsql AS $$
         BEGIN PERFORM note(object_identity) FROM pg_event_trigger_dropped_objects(); END $$;
         CREATE EVENT TRIGGER changed ON ddl_command_end EXECUTE FUNCTION changed();
         CREATE EVENT TRIGGER dropped ON sql_drop EXECUTE FUNCTION dropped()",
    );
    let ddl = "CREATE TABLE t (i int); ALTER TABLE t ADD COLUMN j int; DROP TABLE t;
               CREATE FUNCTION f() RETURNS int LANGUAGE sql AS 'SELECT 1'; DROP FUNCTION f()";
    for _ in 0..2 {
        admin.run("CREATE EXTENSION leaf; SELECT leaf_tag_create('log')");
        admin.run(ddl);
        admin.run(&format!("BEGIN; {ddl}; COMMIT"));
        admin.run("DROP EXTENSION leaf");
    }
    let all = admin.number("SELECT count(flake) FROM log");
    assert!(all > 100, "{all} snowflake ids");
    assert_eq!(admin.number("SELECT count(DISTINCT flake) FROM log"), all);
    let numbered = "SELECT count(DISTINCT id) FROM log WHERE what LIKE 'public.%'";
    assert!(admin.number(numbered) >= 5);
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

#[test]
fn trigger_functions_called_as_others_say_what_they_are_for() {
    let server = Server::start();
    let mut admin = server.connect();
    for function in [
        "leaf_alloc_check",
        "leaf_alloc_changed",
        "leaf_worker_check",
    ] {
        let call = format!("SELECT {function}()");
        refused(admin.batch_execute(&call), "39P01");
    }
}
