//! Promises where several things come together: found by trying to break them.

use std::thread;

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Server, draw_many, refused, wait_until};

fn server_with_orders() -> (Server, Client) {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run("SELECT leaf_tag_create('orders')");
    (server, admin)
}

#[test]
fn requests_of_a_dropped_database_hold_no_slot() {
    let server = Server::options()
        .set("leaf.max_tags", "16")
        .set("max_worker_processes", "1")
        .set("max_logical_replication_workers", "0")
        .set("leaf.loader_idle_timeout", "500ms")
        .start();
    let mut admin = server.connect();
    admin.run("SELECT leaf_tag_create('orders')");
    admin.run("CREATE DATABASE other");
    let mut other = server.connect_as("postgres", "other");
    other.run("CREATE EXTENSION leaf; SET leaf.wait_timeout = '20ms'");
    admin.next("orders").expect("the only worker slot is taken");
    for i in 0..16 {
        let tag = format!("t{i}");
        other.run(&format!("SELECT leaf_tag_create('{tag}')"));
        refused(other.next(&tag), "53400");
    }
    drop(other);
    admin.run("DROP DATABASE other");
    for i in 0..20 {
        let tag = format!("u{i}");
        admin.run(&format!("SELECT leaf_tag_create('{tag}')"));
        assert_eq!(admin.next(&tag).expect("an id"), 1);
    }
}

#[test]
fn database_can_be_dropped_while_a_grant_waits_for_a_standby() {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run("CREATE DATABASE work");
    let mut work = server.connect_as("postgres", "work");
    work.run("CREATE EXTENSION leaf; SELECT leaf_tag_create('orders')");
    server.reload("synchronous_standby_names", "nobody");
    work.run("SET leaf.wait_timeout = '300ms'");
    refused(work.next("orders"), "55P03");
    drop(work);
    wait_until("the loader waits for the standby", || {
        admin.number(
            "SELECT count(*) FROM pg_stat_activity
              WHERE backend_type = 'leaf loader' AND wait_event = 'SyncRep'",
        ) == 1
    });
    admin.run("SET synchronous_commit = local; SET statement_timeout = '30s'");
    admin.run("DROP DATABASE work WITH (FORCE)");
}

#[test]
fn objects_in_the_target_schema_do_not_capture_the_extension() {
    let server = Server::options().bare().start();
    let mut admin = server.connect();
    admin.run(
        "CREATE TABLE captured (what text);
         CREATE FUNCTION public.not_equal(varchar, varchar) RETURNS boolean LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO public.captured VALUES ('<>'); RETURN true; END $$;
         CREATE FUNCTION public.equal(text, varchar) RETURNS boolean LANGUAGE plpgsql AS
             $$ BEGIN INSERT INTO public.captured VALUES ('='); RETURN true; END $$;
         CREATE OPERATOR public.<> (LEFTARG = varchar, RIGHTARG = varchar, FUNCTION = public.not_equal);
         CREATE OPERATOR public.= (LEFTARG = text, RIGHTARG = varchar, FUNCTION = public.equal);
         CREATE EXTENSION leaf;
         SELECT leaf_tag_create('orders')",
    );
    admin.next("orders").expect("an id");
    assert_eq!(admin.stat("orders", "position"), 2);
    assert_eq!(admin.number("SELECT count(*) FROM captured"), 0);
}

#[test]
fn revoke_reaches_a_parallel_plan_of_an_old_snapshot() {
    let (server, mut admin) = server_with_orders();
    admin.run(
        "CREATE ROLE joe LOGIN; SELECT leaf_tag_grant('orders', 'joe');
         CREATE TABLE big AS SELECT generate_series(1, 20000) AS i; GRANT SELECT ON big TO joe",
    );
    let mut joe = server.connect_as("joe", "postgres");
    joe.run(
        "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
         BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class",
    );
    admin.run("SELECT leaf_tag_revoke('orders', 'joe')");
    let drawn = joe.query_one("SELECT count(leaf_segment_next('orders')) FROM big", &[]);
    refused(drawn, "42501");
    joe.run("ROLLBACK");
    refused(joe.next("orders"), "42501");
}

#[test]
fn locked_catalog_gives_every_call_a_bounded_wait() {
    let (server, mut admin) = server_with_orders();
    for lock in [
        "LOCK TABLE leaf.alloc IN ACCESS EXCLUSIVE MODE",
        "REINDEX INDEX leaf.alloc_pkey",
    ] {
        admin.run(&format!("BEGIN; {lock}"));
        let mut client = server.connect();
        client.run("SET leaf.wait_timeout = '200ms'; SET statement_timeout = '60s'");
        for error in [
            refused(client.next("orders"), "55P03"),
            refused(client.batch("orders", 3).map(drop), "55P03"),
            refused(client.reserve("orders", 3).map(drop), "55P03"),
        ] {
            assert!(
                error
                    .detail()
                    .is_some_and(|detail| detail.contains("leaf.alloc")),
                "{error:?}"
            );
        }
        admin.run("ROLLBACK");
        client.next("orders").expect("an id once the lock is gone");
    }
}

#[test]
fn triggers_functions_refuse_to_be_used_elsewhere() {
    let (_server, mut admin) = server_with_orders();
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

#[test]
fn extension_may_be_dropped_by_the_transaction_that_drew() {
    let (_server, mut admin) = server_with_orders();
    admin.run(
        "BEGIN; SELECT leaf_tag_create('x'); SELECT leaf_segment_next('x'); DROP EXTENSION leaf; COMMIT;
         CREATE EXTENSION leaf; SELECT leaf_tag_create('x')",
    );
    assert_eq!(admin.next("x").expect("an id"), 1);
}

#[test]
fn database_in_another_encoding_works() {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run("CREATE DATABASE latin TEMPLATE template0 ENCODING 'LATIN1' LOCALE 'C'");
    let mut latin = server.connect_as("postgres", "latin");
    latin.run(
        "CREATE EXTENSION leaf; CREATE ROLE \"zoé\" LOGIN; CREATE ROLE \"noël\" LOGIN;
         GRANT EXECUTE ON FUNCTION leaf_tag_create TO \"zoé\";
         SET ROLE \"zoé\"; SELECT leaf_tag_create('müll'); SELECT leaf_tag_grant('müll', 'noël')",
    );
    assert_eq!(latin.next("müll").expect("the owner draws"), 1);
    latin.run("SET ROLE \"noël\"");
    assert_eq!(latin.next("müll").expect("the grantee draws"), 2);
    latin.run("RESET ROLE");
    assert_eq!(latin.stat("müll", "position"), 3);
}

#[test]
fn loader_of_an_exhausted_tag_goes_idle() {
    let server = Server::options()
        .set("leaf.loader_idle_timeout", "300ms")
        .start();
    let mut admin = server.connect();
    admin.run("SELECT leaf_tag_create('small', max_value => 100)");
    draw_many(&mut admin, "small", 20);
    wait_until("the loader has gone", || {
        server.loaders("postgres").is_empty()
    });
}

#[test]
fn former_owner_changes_nothing_after_the_change_of_owner() {
    let (server, mut admin) = server_with_orders();
    admin.run("CREATE ROLE a LOGIN; CREATE ROLE b LOGIN; UPDATE leaf.alloc SET owner = 'a'");
    for call in [
        "leaf_tag_grant('orders', 'a')",
        "leaf_tag_alter('orders', step => 5)",
        "leaf_tag_drop('orders')",
    ] {
        admin.run("UPDATE leaf.alloc SET owner = 'a'");
        admin.run("BEGIN; UPDATE leaf.alloc SET owner = 'b'");
        let mut former = server.connect_as("a", "postgres");
        let attempt = thread::spawn(move || former.batch_execute(&format!("SELECT {call}")));
        let mut observer = server.connect();
        wait_until("the former owner waits for the row", || {
            observer.number(
                "SELECT count(*) FROM pg_stat_activity WHERE usename = 'a' AND wait_event_type = 'Lock'",
            ) == 1
        });
        admin.run("COMMIT");
        refused(attempt.join().expect("a result"), "42501");
    }
    let mut former = server.connect_as("a", "postgres");
    refused(former.next("orders"), "42501");
    assert_eq!(admin.number("SELECT step::bigint FROM leaf.alloc"), 1000);
}

#[test]
fn new_owner_of_the_database_counts_at_once() {
    let (server, mut admin) = server_with_orders();
    admin.run("CREATE ROLE a LOGIN; CREATE ROLE b LOGIN");
    admin.run("CREATE DATABASE theirs OWNER a");
    let mut theirs = server.connect_as("postgres", "theirs");
    theirs.run(
        "CREATE EXTENSION leaf; SELECT leaf_tag_create('orders');
         SELECT leaf_tag_grant('orders', 'pg_database_owner')",
    );
    let mut a = server.connect_as("a", "theirs");
    a.next("orders").expect("the owner of the database draws");
    admin.run("ALTER DATABASE theirs OWNER TO b");
    refused(a.next("orders"), "42501");
    let mut b = server.connect_as("b", "theirs");
    b.next("orders").expect("the new owner draws");
}

#[test]
fn rolled_back_change_leaves_the_rest_of_the_transaction_as_it_was() {
    let (_server, mut admin) = server_with_orders();
    admin.run("SELECT leaf_tag_create('other')");
    let first = admin.next("orders").expect("an id");
    admin.run(
        "BEGIN; SAVEPOINT s; SELECT leaf_tag_alter('orders', advance_to => 500000); TRUNCATE leaf.alloc;
         ROLLBACK TO s",
    );
    for tag in ["orders", "other"] {
        admin.reserve(tag, 10).expect("a block");
        admin.next(tag).expect("an id");
    }
    admin.run("COMMIT");
    let next = admin.next("orders").expect("an id");
    assert!(first < next && next < 500_000, "{next}");
}

#[test]
fn open_batch_cursor_hands_out_nothing_of_a_tag_that_was_dropped() {
    let (server, mut admin) = server_with_orders();
    admin.run("CREATE ROLE joe LOGIN; SELECT leaf_tag_grant('orders', 'joe')");
    let mut joe = server.connect_as("joe", "postgres");
    joe.run("BEGIN; DECLARE c CURSOR FOR SELECT leaf_segment_batch('orders', 5000)");
    assert_eq!(joe.number("FETCH c"), 1);
    admin.run("SELECT leaf_tag_drop('orders'); SELECT leaf_tag_create('orders')");
    assert_eq!(admin.batch("orders", 3).expect("ids"), [1, 2, 3]);
    refused(joe.query_one("FETCH c", &[]), "42501");
}

#[test]
fn new_tag_in_a_parallel_plan_is_an_error_that_says_so() {
    let (_server, mut admin) = server_with_orders();
    admin.run(
        "CREATE TABLE big AS SELECT generate_series(1, 20000) AS i;
         SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
         BEGIN; SELECT leaf_tag_create('fresh')",
    );
    let drawn = admin.query_one("SELECT count(leaf_segment_next('fresh')) FROM big", &[]);
    refused(drawn, "0A000");
}

#[test]
fn nothing_of_a_row_is_shown_to_who_may_only_draw() {
    let (server, mut admin) = server_with_orders();
    admin.run(
        "CREATE ROLE joe LOGIN; SELECT leaf_tag_grant('orders', 'joe');
         ALTER TABLE leaf.alloc ADD CONSTRAINT broken CHECK (max_id < 2) NOT VALID",
    );
    let mut joe = server.connect_as("joe", "postgres");
    joe.run("SET leaf.wait_timeout = '500ms'");
    let error = refused(joe.next("orders"), "55P03");
    let detail = error.detail().expect("the cause");
    assert!(detail.contains("broken"), "{detail}");
    assert!(!detail.contains("postgres"), "{detail}");
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
    let (server, mut admin) = server_with_orders();
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
    let (server, mut admin) = server_with_orders();
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
    let (server, mut admin) = server_with_orders();
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
