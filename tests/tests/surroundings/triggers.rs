//! Triggers that draw, what they see, and leaf's own where they are used elsewhere.

use leaf_tests::{Draw, Server, refused};

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

/// The loader cannot wait for itself.
#[test]
fn trigger_that_draws_during_a_grant_fails_at_once_with_the_cause() {
    let (_server, mut admin) = Server::with_orders(1000);
    admin.run(
        "SET leaf.wait_timeout = '2s';
         SELECT leaf_tag_create('audit', step => 1);
         CREATE FUNCTION audit() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN PERFORM public.leaf_segment_next('audit'); RETURN NULL; END $$;
         CREATE TRIGGER audit AFTER UPDATE ON leaf.alloc
             FOR EACH ROW EXECUTE FUNCTION audit()",
    );
    let error = refused(admin.next("orders"), "55P03");
    let detail = error.detail().unwrap_or_default();
    assert!(detail.contains("during a grant"), "{error:?}");
    admin.run("DROP TRIGGER audit ON leaf.alloc");
    assert_eq!(admin.next("orders").expect("an id"), 1);
}

#[test]
fn now_in_a_trigger_is_the_time_of_the_grant() {
    let (_server, mut admin) = Server::with_orders(1000);
    admin.run(
        "CREATE TABLE seen (at timestamptz);
         CREATE FUNCTION note() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO public.seen VALUES (now()); RETURN NULL; END $$;
         CREATE TRIGGER note AFTER UPDATE ON leaf.alloc
             FOR EACH ROW EXECUTE FUNCTION note()",
    );
    admin.next("orders").expect("an id");
    for _ in 0..3 {
        // Later grants of the same loader.
        admin.run("CREATE TEMP TABLE IF NOT EXISTS mark AS SELECT now() AS at; UPDATE mark SET at = clock_timestamp()");
        admin.reserve("orders", 1).expect("a block");
        let is_later = "SELECT ((SELECT max(at) FROM seen) >= (SELECT at FROM mark))::int::bigint";
        assert_eq!(admin.number(is_later), 1);
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
