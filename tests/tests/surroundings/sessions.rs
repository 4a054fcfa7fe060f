//! Sessions that live on while what they know goes away, and that are shared by
//! many clients.

use leaf_tests::postgres::{Client, NoTls, SimpleQueryMessage};
use leaf_tests::{Draw, Ledger, Pooler, Server, refused};
use std::sync::Mutex;
use std::thread;

/// The numbers that statements return, sent as text and prepared under no name.
fn simple(client: &mut Client, statements: &str) -> Result<Vec<i64>, leaf_tests::postgres::Error> {
    let messages = client.simple_query(statements)?;
    let numbers = messages.iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0)?.parse().ok(),
        _ => None,
    });
    Ok(numbers.collect())
}

#[test]
fn prepared_statements_follow_their_tag_and_the_extension() {
    let server = Server::start();
    let mut admin = server.connect();
    for plans in ["force_generic_plan", "force_custom_plan"] {
        let mut client = server.connect();
        client.run(&format!(
            "SET plan_cache_mode = {plans};
             PREPARE a (text) AS SELECT leaf_segment_next($1);
             PREPARE b AS SELECT leaf_segment_next('orders');
             CREATE OR REPLACE FUNCTION c() RETURNS bigint LANGUAGE plpgsql
                 AS $$ BEGIN RETURN leaf_segment_next('orders'); END $$"
        ));
        let calls = ["EXECUTE a ('orders')", "EXECUTE b", "SELECT c()"];
        let all_are = |client: &mut Client, first: i64| {
            for (n, call) in (0..).zip(calls) {
                assert_eq!(simple(client, call).expect(call), [first + n], "{plans}");
            }
        };
        let all_fail = |client: &mut Client, code: &str| {
            for call in calls {
                let error = simple(client, call).expect_err(call);
                assert_eq!(error.code().map(|code| code.code()), Some(code), "{call}");
            }
        };
        admin.run("SELECT leaf_tag_create('orders', start => 1)");
        all_are(&mut client, 1);
        admin.run("SELECT leaf_tag_drop('orders')");
        all_fail(&mut client, "42704");
        admin.run("SELECT leaf_tag_create('orders', start => 1000000)");
        all_are(&mut client, 1_000_000);
        admin.run("DROP EXTENSION leaf");
        all_fail(&mut client, "42883");
        admin.run("CREATE EXTENSION leaf");
        all_fail(&mut client, "42704");
        admin.run("SELECT leaf_tag_create('orders', start => 500)");
        all_are(&mut client, 500);
        admin.run("ALTER FUNCTION leaf_segment_next(text) RENAME TO hidden");
        all_fail(&mut client, "42883");
        admin.run("ALTER FUNCTION hidden(text) RENAME TO leaf_segment_next");
        all_are(&mut client, 503);
        client.run("DISCARD PLANS; DISCARD SEQUENCES");
        all_are(&mut client, 506);
        admin.run("SELECT leaf_tag_drop('orders')");
    }
}

#[test]
fn session_that_is_made_as_new_goes_on_above() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("CREATE ROLE stranger; SELECT leaf_tag_create('orders', step => 10)");
    let mut ids = Vec::new();
    let mut flakes = Vec::new();
    for _ in 0..30 {
        ids.extend(simple(&mut client, "SELECT leaf_segment_batch('orders', 7)").expect("ids"));
        flakes.extend(simple(&mut client, "SELECT leaf_snowflake_next()").expect("an id"));
        client.run("SET ROLE stranger; CREATE TEMPORARY TABLE alloc (biz_tag text)");
        client.run("DISCARD ALL");
    }
    assert_eq!(ids, (1..=210).collect::<Vec<_>>());
    assert!(flakes.is_sorted_by(|a, b| a < b), "{flakes:?}");
}

/// A session that holds no lock in between learns late that it is gone.
#[test]
fn extension_dropped_between_two_calls_of_a_transaction_is_told() {
    let server = Server::start();
    let (mut admin, mut client) = (server.connect(), server.connect());
    for call in [
        "leaf_segment_next('nosuch')",
        "leaf_segment_batch('nosuch', 5)",
        "leaf_segment_reserve('nosuch', 5)",
        "leaf_segment_return('nosuch', '[1,5]')",
        "leaf_tag_incarnation('nosuch')",
        "leaf_tag_alter('nosuch', step => 5)",
        "leaf_tag_grant('nosuch', 'postgres')",
        "leaf_tag_revoke('nosuch', 'postgres')",
        "leaf_tag_drop('nosuch')",
    ] {
        client.run("BEGIN; SAVEPOINT s");
        refused(simple(&mut client, &format!("SELECT {call}")), "42704");
        client.run("ROLLBACK TO s");
        admin.run("DROP EXTENSION leaf");
        // The catalog's table is missing, or the function already.
        let error = simple(&mut client, &format!("SELECT {call}")).expect_err(call);
        let code = error.code().map_or("", |code| code.code());
        assert!(["55000", "42883"].contains(&code), "{call}: {error:?}");
        client.run("ROLLBACK");
        admin.run("CREATE EXTENSION leaf");
    }
}

/// Every transaction of a client may run in another session, and every session
/// serves clients of several roles.
#[test]
fn clients_of_a_pooler_share_neither_ids_nor_rights() {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run(
        "CREATE ROLE drawer; CREATE ROLE stranger;
         SELECT leaf_tag_create('orders', step => 10); SELECT leaf_tag_grant('orders', 'drawer')",
    );
    let pooler = Pooler::start(&server, 2);
    let connect = || Client::connect(&pooler.connection_string(), NoTls).expect("a client");
    let (ids, flakes) = (Mutex::new(Ledger::new()), Mutex::new(Ledger::new()));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = connect();
                for _ in 0..100 {
                    let drawn = simple(
                        &mut client,
                        "BEGIN; SET LOCAL ROLE drawer; SELECT leaf_segment_batch('orders', 3);
                         SELECT leaf_segment_next('orders'); COMMIT",
                    );
                    let drawn = drawn.expect("a grantee draws");
                    assert!(drawn.is_sorted() && drawn.len() == 4, "{drawn:?}");
                    ids.lock().expect("no panic").add(drawn);
                    let drawn = simple(&mut client, "SELECT leaf_snowflake_batch(3)").expect("ids");
                    flakes.lock().expect("no panic").add(drawn);
                }
            });
            scope.spawn(|| {
                let mut client = connect();
                for _ in 0..100 {
                    let drawn = simple(
                        &mut client,
                        "BEGIN; SET LOCAL ROLE stranger; SELECT leaf_segment_next('orders')",
                    );
                    refused(drawn, "42501");
                    client.run("ROLLBACK");
                }
            });
        }
        for n in 0..2 {
            let connect = &connect;
            scope.spawn(move || {
                let mut client = connect();
                for round in 0..20 {
                    let mut ledger = Ledger::new();
                    let tag = format!("new{n}.{round}");
                    let draw = format!("SELECT leaf_segment_batch('{tag}', 5)");
                    let create = format!("BEGIN; SELECT leaf_tag_create('{tag}'); {draw}; COMMIT");
                    ledger.add(simple(&mut client, &create).expect("a new tag"));
                    ledger.add(simple(&mut client, &draw).expect("ids"));
                    client.run(&format!("SELECT leaf_tag_drop('{tag}')"));
                    refused(simple(&mut client, &draw), "42704");
                }
            });
        }
    });
    assert_eq!(ids.into_inner().expect("no panic").len(), 1_600);
    assert_eq!(flakes.into_inner().expect("no panic").len(), 1_200);
    let sessions = "SELECT count(*) FROM pg_stat_activity
                     WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()";
    assert_eq!(admin.number(sessions), 2);
}
