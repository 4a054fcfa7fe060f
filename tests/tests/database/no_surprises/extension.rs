//! `CREATE EXTENSION` and `DROP EXTENSION`, alone and under sessions that draw.

use crate::no_surprises::databases::at_work;
use leaf_tests::page::root;
use leaf_tests::postgres::{Error, NoTls};
use leaf_tests::{Draw, Server, Stop, refused, wait_until};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

#[test]
fn extension_works_in_schema_leaf() {
    let server = Server::options().bare().start();
    let mut admin = server.connect();
    admin.run(
        "CREATE SCHEMA leaf;
         CREATE FUNCTION leaf.take_back(bigint) RETURNS int LANGUAGE sql AS 'SELECT 1 / 0';
         CREATE FUNCTION leaf.take_back(regnamespace) RETURNS int LANGUAGE sql AS 'SELECT 1 / 0';
         CREATE FUNCTION leaf.take_back(VARIADIC oid[]) RETURNS int LANGUAGE sql AS 'SELECT 1 / 0';
         CREATE EXTENSION leaf SCHEMA leaf;
         SELECT leaf.leaf_tag_create('orders');
         CREATE TABLE orders (id bigint DEFAULT leaf.leaf_segment_next('orders'));
         INSERT INTO orders SELECT FROM generate_series(1, 10);
         SELECT leaf.leaf_snowflake_next()",
    );
    assert_eq!(admin.number("SELECT max(id) FROM orders"), 10);
    assert_eq!(admin.stat("orders", "position"), 11);
    let align = "SELECT highest FROM leaf.leaf_tag_align('orders')";
    assert_eq!(admin.number(align), 10);
    // The schema was there before, and stays.
    admin.run("DROP EXTENSION leaf CASCADE; CREATE TABLE leaf.other (id bigint)");
    admin.fails("CREATE EXTENSION leaf", "42P06");
}

/// It reads the catalog by OID and without SQL.
#[test]
fn loader_that_finds_a_view_in_place_of_a_table_fails_and_the_server_goes_on() {
    let (server, mut admin) = Server::with_orders(100);
    let mut witness = server.connect();
    admin.run(
        "BEGIN; CREATE TABLE alloc (LIKE leaf.alloc); CREATE TABLE worker (LIKE leaf.worker);
         DROP EXTENSION leaf CASCADE; CREATE SCHEMA leaf;
         CREATE VIEW leaf.alloc AS SELECT * FROM alloc;
         CREATE VIEW leaf.worker AS SELECT * FROM worker",
    );
    let caller = server.connect();
    let drawing = thread::spawn(move || {
        let mut caller = caller;
        caller.batch_execute("SELECT leaf_snowflake_next()")
    });
    let waits = "SELECT count(*) FROM pg_locks WHERE NOT granted";
    wait_until("somebody waits for the drop", || witness.number(waits) > 0);
    admin.run("COMMIT");
    drawing
        .join()
        .expect("no panic")
        .expect_err("there is no leaf");
    assert_eq!(witness.number("SELECT 1::bigint"), 1);
}

#[test]
fn settings_that_do_not_exist_are_refused() {
    let (_server, mut admin) = Server::with_orders(1000);
    admin.fails("SET leaf.wait_timout = '1s'", "42602");
}

#[test]
fn extension_may_be_dropped_by_the_transaction_that_drew() {
    let (_server, mut admin) = Server::with_orders(1000);
    admin.run(
        "BEGIN; SELECT leaf_tag_create('x'); SELECT leaf_segment_next('x'); DROP EXTENSION leaf; COMMIT;
         CREATE EXTENSION leaf; SELECT leaf_tag_create('x')",
    );
    assert_eq!(admin.next("x").expect("an id"), 1);
}

/// Drops the extension, several times, while sessions draw; then does what comes
/// `next`, and what is drawn after that must be of one new tag.
fn dropped_while_sessions_draw(next: &str) {
    let (server, _admin) = at_work();
    let mut client = server.connect_as("postgres", "work");
    let config = server.config("postgres", "work");
    for _ in 0..5 {
        let done = AtomicBool::new(false);
        let (drawn, refused) = (AtomicUsize::new(0), AtomicUsize::new(0));
        thread::scope(|scope| {
            let _stop = Stop(&done);
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut session = config.connect(NoTls).expect("a session");
                    while !done.load(Ordering::Relaxed) {
                        match session.batch("orders", 7) {
                            Ok(ids) => {
                                assert!(ids.is_sorted() && ids.len() == 7);
                                drawn.fetch_add(1, Ordering::Relaxed);
                            }
                            Err(error) => {
                                is_gone(&error);
                                refused.fetch_add(1, Ordering::Relaxed);
                            }
                        }
                    }
                });
            }
            let grows = |count: &AtomicUsize, what| {
                let enough = count.load(Ordering::Relaxed) + 200;
                wait_until(what, || count.load(Ordering::Relaxed) > enough);
            };
            grows(&drawn, "the sessions draw");
            client.run("DROP EXTENSION leaf");
            match next {
                "" => grows(&refused, "the sessions are refused"),
                next => {
                    client.run(next);
                    grows(&drawn, "the sessions draw of the new tag");
                }
            }
        });
        client.run(&format!("DROP EXTENSION IF EXISTS leaf; {CREATE}"));
        assert_eq!(client.next("orders").expect("an id"), 1);
    }
}

const CREATE: &str = "CREATE EXTENSION leaf; SELECT leaf_tag_create('orders', step => 100)";

/// The function, the catalog, or the tag is not there.
fn is_gone(error: &Error) {
    let error = error.as_db_error().expect("an answer of the server");
    match error.code().code() {
        "42883" | "55000" | "42704" => {}
        // PostgreSQL's own word for a function that goes while it is looked up.
        "XX000"
            if error
                .message()
                .starts_with("cache lookup failed for function") => {}
        _ => panic!("{error:?}"),
    }
}

#[test]
fn extension_can_be_dropped_while_sessions_draw() {
    dropped_while_sessions_draw("");
}

#[test]
fn extension_can_be_dropped_and_created_while_sessions_draw() {
    dropped_while_sessions_draw(CREATE);
}

#[test]
fn functions_are_found_after_the_session_has_created_the_extension_elsewhere() {
    let server = Server::start();
    let mut client = server.connect();
    for schema in ["public", "first", "second"] {
        client.run(&format!(
            "CREATE SCHEMA IF NOT EXISTS {schema};
             DROP EXTENSION IF EXISTS leaf CASCADE;
             CREATE EXTENSION leaf SCHEMA {schema};
             SELECT {schema}.leaf_tag_create('orders');
             CREATE TABLE of_{schema} (id bigint DEFAULT {schema}.leaf_segment_next('orders'), other serial);
             INSERT INTO of_{schema} VALUES (5000)"
        ));
        let aligned = format!("SELECT count(*) FROM {schema}.leaf_tag_align() WHERE moved");
        assert_eq!(client.number(&aligned), 1, "{schema}");
        let dropped = format!("SELECT {schema}.leaf_tag_drop('orders')");
        client.fails(&dropped, "2BP01");
        client.run(&format!(
            "SELECT {schema}.leaf_column_adopt('of_{schema}', 'other');
             INSERT INTO of_{schema} DEFAULT VALUES;
             SELECT {schema}.leaf_column_release('of_{schema}', 'other')"
        ));
    }
}

#[test]
fn extension_goes_only_with_the_defaults_that_need_it() {
    let server = Server::start();
    let mut client = server.connect();
    client.run(
        "SELECT leaf_tag_create('orders');
         CREATE TABLE t (id bigint DEFAULT leaf_segment_next('orders'), n int);
         INSERT INTO t (n) VALUES (1)",
    );
    client.fails("DROP EXTENSION leaf", "2BP01");
    client.run(
        "INSERT INTO t (n) VALUES (2); DROP EXTENSION leaf CASCADE; INSERT INTO t (n) VALUES (3)",
    );
    assert_eq!(client.number("SELECT count(id) FROM t"), 2);
}

#[test]
fn extension_is_not_created_among_what_is_postgresqls() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("DROP EXTENSION leaf");
    let create = "CREATE EXTENSION leaf SCHEMA pg_catalog";
    refused(client.batch_execute(create), "0A000");
    client.run("CREATE EXTENSION leaf");
}

#[test]
fn columns_are_where_the_library_reads_them() {
    let server = Server::start();
    let mut client = server.connect();
    for (file, table) in [("alloc_row", "leaf.alloc"), ("worker_row", "leaf.worker")] {
        let path = root().join(format!("src/catalog/{file}.rs"));
        let source = std::fs::read_to_string(path).expect("a source");
        let ordinals = source
            .lines()
            .filter_map(|line| line.trim().strip_prefix("pub const "))
            .filter_map(|constant| constant.strip_suffix(';')?.split_once(": i16 = "));
        let mut count = 0;
        for (name, ordinal) in ordinals {
            let attribute = format!(
                "SELECT attnum::bigint FROM pg_attribute
                  WHERE attrelid = '{table}'::regclass AND attname = lower('{name}')"
            );
            assert_eq!(
                client.number(&attribute).to_string(),
                ordinal,
                "{table}: {name}"
            );
            count += 1;
        }
        assert!(count > 1, "no ordinals in {file}");
    }
}
