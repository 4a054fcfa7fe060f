//! What one does to databases works as it does without leaf.

use leaf_tests::postgres::Client;
use leaf_tests::{
    Draw, Ledger, Server, Snowflake, draw_many, failed, refused, slow_grants, wait_until,
    waiting_loaders,
};

/// A server with a database `work` whose loader is at work, and no session there.
pub fn at_work() -> (Server, Client) {
    let server = Server::options()
        .set("leaf.loader_idle_timeout", "1h")
        .start();
    let mut admin = server.connect();
    admin.run("CREATE DATABASE work");
    let mut client = server.connect_as("postgres", "work");
    client.run("CREATE EXTENSION leaf; SELECT leaf_tag_create('orders', step => 100)");
    draw_many(&mut client, "orders", 1_000);
    drop(client);
    wait_until("the session is gone", || {
        admin.number(
            "SELECT count(*) FROM pg_stat_activity
              WHERE datname = 'work' AND backend_type = 'client backend'",
        ) == 0
    });
    assert_eq!(server.loaders("work").len(), 1, "its loader is at work");
    (server, admin)
}

#[test]
fn database_with_a_loader_can_be_dropped() {
    let (_server, mut admin) = at_work();
    admin.run("DROP DATABASE work");
}

#[test]
fn database_with_a_loader_can_be_a_template() {
    let (server, mut admin) = at_work();
    admin.run("CREATE DATABASE copy TEMPLATE work");
    // The copy's tags are tags of their own.
    let mut copy = server.connect_as("postgres", "copy");
    let mut work = server.connect_as("postgres", "work");
    for client in [&mut copy, &mut work] {
        let mut ledger = Ledger::new();
        ledger.add(1..=1_000);
        ledger.add(draw_many(client, "orders", 1_000));
    }
}

#[test]
fn database_with_a_loader_can_be_renamed() {
    let (server, mut admin) = at_work();
    admin.run("ALTER DATABASE work RENAME TO office");
    let mut ledger = Ledger::new();
    ledger.add(1..=1_000);
    ledger.add(draw_many(
        &mut server.connect_as("postgres", "office"),
        "orders",
        1_000,
    ));
}

#[test]
fn database_made_again_under_its_name_is_another() {
    let (server, mut admin) = at_work();
    admin.run("DROP DATABASE work");
    admin.run("CREATE DATABASE work");
    let mut client = server.connect_as("postgres", "work");
    client.run("CREATE EXTENSION leaf; SELECT leaf_tag_create('orders', step => 100)");
    assert_eq!(client.next("orders").expect("an id"), 1);
}

/// Its slots would have the ids of its predecessor.
#[test]
fn database_made_again_with_the_same_oid_is_another() {
    let (server, mut admin) = Server::with_orders(1000);
    admin.run("CREATE DATABASE model");
    let mut model = server.connect_as("postgres", "model");
    model.run("CREATE EXTENSION leaf; SELECT leaf_tag_create('orders')");
    drop(model);
    admin.run("CREATE DATABASE work TEMPLATE model");
    let oid = admin.number("SELECT oid::bigint FROM pg_database WHERE datname = 'work'");
    for _ in 0..2 {
        let mut work = server.connect_as("postgres", "work");
        let ids = work.batch("orders", 3).expect("ids");
        assert_eq!(ids, [1, 2, 3]);
        work.snowflakes(3).expect("ids");
        drop(work);
        admin.run("DROP DATABASE work");
        admin.run(&format!("CREATE DATABASE work TEMPLATE model OID = {oid}"));
    }
}

#[test]
fn owner_of_a_database_can_drop_it_by_force() {
    let (_server, mut admin) = at_work();
    admin.run("CREATE ROLE joe CREATEDB; ALTER DATABASE work OWNER TO joe");
    // The loader learns of its new owner before its next second is over.
    admin.run("SET ROLE joe");
    wait_until("joe can drop his database", || {
        match admin.batch_execute("DROP DATABASE work WITH (FORCE)") {
            Ok(()) => true,
            Err(error) => {
                assert_eq!(
                    error.code().map(|code| code.code()),
                    Some("42501"),
                    "{error:?}"
                );
                false
            }
        }
    });
}

/// There are as many loaders as background workers can run.
#[test]
fn every_database_for_which_a_worker_can_run_draws() {
    const DATABASES: usize = 66;
    let server = Server::options()
        .set("max_worker_processes", "80")
        .set("max_connections", "120")
        .set("leaf.loader_idle_timeout", "1h")
        .set("fsync", "off")
        .start();
    let mut admin = server.connect();
    admin.run("CREATE DATABASE model");
    let mut model = server.connect_as("postgres", "model");
    model.run("CREATE EXTENSION leaf; SELECT leaf_tag_create('orders')");
    drop(model);
    let mut sessions = Vec::new();
    for number in 0..DATABASES {
        let name = format!("d{number}");
        admin.run(&format!(
            "CREATE DATABASE {name} TEMPLATE model STRATEGY file_copy"
        ));
        let mut session = server.connect_as("postgres", &name);
        assert_eq!(session.next("orders").expect("an id"), 1, "{name}");
        sessions.push(session);
    }
    let loaders = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'leaf loader'";
    // One that could not begin a transaction in time, on a busy machine, leaves its database, and
    // another one comes when it is needed.
    wait_until("all have loaders at once", || {
        for session in &mut sessions {
            session.reserve("orders", 1).expect("a block");
        }
        admin.number(loaders) >= DATABASES as i64
    });
}

#[test]
fn status_has_a_row_for_every_tag() {
    let (server, _admin) = at_work();
    let mut client = server.connect_as("postgres", "work");
    client.run("SELECT leaf_tag_create('untouched', step => 5)");
    assert_eq!(client.number("SELECT count(*) FROM leaf.stat_segment"), 2);
    let id = client.next("orders").expect("an id");
    assert!(client.stat("orders", "granted_up_to") >= id);
    assert!(client.stat("orders", "loads") >= 1);
}

/// Drops a database whose loader is in a grant that sleeps so many seconds, for
/// tags that nobody waits for any more.
fn drop_while_grants_sleep(seconds: f64, tags: &[&str]) {
    let (server, mut admin) = at_work();
    let mut client = server.connect_as("postgres", "work");
    for tag in tags {
        client.run(&format!("SELECT leaf_tag_create('{tag}')"));
    }
    slow_grants(&mut client, seconds);
    client.run("SET leaf.wait_timeout = '500ms'");
    for tag in tags {
        // A request for a block would go with its caller; this one stays.
        refused(client.next(tag), "55P03");
    }
    drop(client);
    wait_until("a grant is under way and nobody waits for it", || {
        admin.number(
            "SELECT (count(*) FILTER (WHERE backend_type = 'client backend') = 0
                     AND count(*) FILTER (WHERE wait_event = 'PgSleep') = 1)::int::bigint
               FROM pg_stat_activity WHERE datname = 'work'",
        ) == 1
    });
    admin.run("DROP DATABASE work");
}

#[test]
fn database_can_be_dropped_while_a_grant_is_slow() {
    drop_while_grants_sleep(2.0, &["fresh"]);
}

#[test]
fn database_can_be_dropped_while_grants_fail_one_after_the_other() {
    drop_while_grants_sleep(3_600.0, &["one", "two"]);
}

#[test]
fn database_with_a_loader_can_move_to_another_tablespace() {
    let (server, mut admin) = at_work();
    let place = server.make_folder("tablespace");
    admin.run(&format!(
        "CREATE TABLESPACE elsewhere LOCATION '{}'",
        place.display()
    ));
    admin.run("ALTER DATABASE work SET TABLESPACE elsewhere");
    let mut ledger = Ledger::new();
    ledger.add(1..=1_000);
    let mut client = server.connect_as("postgres", "work");
    ledger.add(draw_many(&mut client, "orders", 1_000));
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
        waiting_loaders(&mut admin, "SyncRep") == 1
    });
    admin.run("SET synchronous_commit = local; SET statement_timeout = '30s'");
    admin.run("DROP DATABASE work WITH (FORCE)");
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
fn tags_read_right_in_errors_and_views_of_any_encoding() {
    let server = Server::start();
    let mut admin = server.connect();
    for (database, encoding, tag, other) in [
        ("latin", "LATIN1", "müll", "Ärger"),
        ("kanji", "EUC_JP", "注文", "請求"),
        ("bytes", "SQL_ASCII", "注文", "ü"),
    ] {
        admin.run(&format!(
            "CREATE DATABASE {database} TEMPLATE template0 ENCODING '{encoding}' LOCALE 'C'"
        ));
        let mut client = server.connect_as("postgres", database);
        client.run(&format!(
            "CREATE EXTENSION leaf; SELECT leaf_tag_create('{tag}', max_value => 3)"
        ));
        let error = refused(client.next(other), "42704");
        assert_eq!(error.message(), format!("tag \"{other}\" does not exist"));
        assert_eq!(client.batch(tag, 3).expect("ids"), [1, 2, 3]);
        let error = refused(client.next(tag), "2200H");
        assert!(error.message().contains(&format!("\"{tag}\"")), "{error:?}");
        let error = refused(
            client.batch_execute(&format!("SELECT leaf_tag_grant('{tag}', '{other}')")),
            "42704",
        );
        assert!(
            error.message().contains(&format!("\"{other}\"")),
            "{error:?}"
        );
        // An error of PostgreSQL's own, too.
        failed(
            client.batch_execute(&format!(
                "UPDATE leaf.alloc SET step = 0 WHERE biz_tag = '{tag}'"
            )),
            "23514",
        );
        assert_eq!(
            client.text("SELECT biz_tag::text FROM leaf.stat_segment"),
            tag
        );
        // A node's name, which leaf reads and writes.
        let worker = |client: &mut Client| {
            let register = format!("SELECT worker_id FROM leaf_worker_register('{other}', 5)");
            client.batch_execute(&register)
        };
        worker(&mut client).expect("a lease");
        let error = refused(worker(&mut client), "55006");
        assert!(error.to_string().contains(other), "{error:?}");
        assert_eq!(
            client.text("SELECT node FROM leaf.worker WHERE worker_id = 5"),
            other
        );
        // The loader's error, which goes through shared memory.
        client.run(&format!(
            "SELECT leaf_tag_create('{other}'); SET leaf.wait_timeout = '200ms'"
        ));
        client.run(
            "CREATE FUNCTION stop() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RAISE EXCEPTION 'stopped %', new.biz_tag; END $$;
             CREATE TRIGGER stop BEFORE UPDATE ON leaf.alloc FOR EACH ROW EXECUTE FUNCTION stop()",
        );
        refused(client.next(other), "55P03");
        let error = client.text(&format!(
            "SELECT last_error FROM leaf.stat_segment WHERE biz_tag = '{other}'"
        ));
        assert!(error.starts_with("stopped "), "{error}");
        // An error while ids are drawn shows who may not.
        let error = client.batch_execute(&format!(
            "CREATE ROLE \"r{other}\"; SET ROLE \"r{other}\"; SELECT leaf_segment_next('{tag}')"
        ));
        let error = refused(error, "42501");
        let detail = error.detail().unwrap_or_default();
        assert!(detail.contains(&format!("\"r{other}\"")), "{error:?}");
        assert!(error.message().contains(&format!("\"{tag}\"")), "{error:?}");
    }
}
