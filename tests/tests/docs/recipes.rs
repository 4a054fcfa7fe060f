//! What docs/recipes.md promises, in several sessions at once.

use super::blocks;
use leaf_tests::page::Page;
use leaf_tests::postgres::{Client, Error};
use leaf_tests::{Draw, Server, wait_until};
use std::thread;

const PAGE: &str = "docs/recipes.md";
const SESSIONS: usize = 8;

/// A server whose database `recipes` has all that the page creates.
fn server() -> Server {
    let options = Server::options().set("max_prepared_transactions", "10");
    let server = options.bare().start();
    blocks::prepare(&server, "recipes", PAGE);
    server
}

/// Runs `work` in several sessions at once, each with its number.
fn in_sessions<R: Send>(server: &Server, work: impl Fn(usize, Client) -> R + Sync) -> Vec<R> {
    thread::scope(|scope| {
        let start = |number| {
            let work = &work;
            scope.spawn(move || work(number, server.connect_as("postgres", "recipes")))
        };
        let sessions: Vec<_> = (0..SESSIONS).map(start).collect();
        let ended = sessions
            .into_iter()
            .map(|session| session.join().expect("no panic"));
        ended.collect()
    })
}

#[test]
fn order_numbers_are_unique_and_sort_by_minute_and_sequence() {
    let server = server();
    let all = in_sessions(&server, |session, mut client| {
        let mut numbers = Vec::new();
        for n in 0..200 {
            let query = "INSERT INTO parcels (item) VALUES ('x') RETURNING number";
            // Some are rolled back: their numbers are gaps, and come no more.
            let is_undone = (n + session) % 5 == 0;
            client.run(if is_undone { "BEGIN" } else { "" });
            numbers.push(client.text(query));
            client.run(if is_undone { "ROLLBACK" } else { "" });
        }
        numbers
    });
    assert!(all.iter().all(|of_session| of_session.is_sorted()));
    let mut numbers = all.concat();
    let is_of_the_form = |number: &String| number.len() == 22 && &number[10..12] == "07";
    assert!(numbers.iter().all(is_of_the_form), "{numbers:?}");
    let digits = |number: &String| number.bytes().all(|byte| byte.is_ascii_digit());
    assert!(numbers.iter().all(digits), "{numbers:?}");
    numbers.sort();
    numbers.dedup();
    assert_eq!(numbers.len(), SESSIONS * 200);

    // Ten billion numbers later the sequence begins again.
    let mut client = server.connect_as("postgres", "recipes");
    client.run("SELECT leaf_tag_alter('order_numbers', advance_to => 9999999998)");
    let ends: Vec<String> = (0..4)
        .map(|_| client.text("SELECT order_number(99)")[10..].to_owned())
        .collect();
    let expected = [
        "999999999998",
        "999999999999",
        "990000000000",
        "990000000001",
    ];
    assert_eq!(ends, expected);
    client.fails("SELECT order_number(100)", "P0001");
}

#[test]
fn decimal_numbers_are_unique_and_ascend_as_the_ids_do() {
    let server = Server::options().bare().start();
    let mut admin = server.connect();
    admin.run("CREATE DATABASE decimal");
    admin.run(
        "ALTER DATABASE decimal SET leaf.snowflake_layout = 'decimal';
         ALTER DATABASE decimal SET leaf.worker_id = 7",
    );
    let mut client = server.connect_as("postgres", "decimal");
    client.run("CREATE EXTENSION leaf");
    let recipe = Page::read(PAGE);
    let code = recipe
        .blocks
        .iter()
        .find(|block| block.code.contains("decimal_number("));
    client.run(&code.expect("the recipe").code);
    assert_eq!(
        client.text("SELECT decimal_number(1792130405070000042)"),
        "2610160600070050000042"
    );
    let wrong = "SELECT count(*) FROM (
            SELECT id, decimal_number(id) AS number,
                   lag(decimal_number(id)) OVER (ORDER BY id) AS before
              FROM leaf_snowflake_batch(5000) AS id) AS t
          WHERE before >= number OR length(number) <> 22 OR substr(number, 11, 2) <> '07'";
    assert_eq!(client.number(wrong), 0);
}

#[test]
fn invoice_numbers_have_no_gap_though_transactions_are_rolled_back() {
    let server = server();
    let mut client = server.connect_as("postgres", "recipes");
    client.run("TRUNCATE invoices, invoice_counters");
    let pids = in_sessions(&server, |session, mut client| {
        for n in 0..60 {
            let year = 2026 + (n + session) % 2;
            client.run("BEGIN");
            // A savepoint that is undone gives its number back, too.
            client.run("SAVEPOINT s");
            client.run(&format!(
                "INSERT INTO invoices VALUES ({year}, next_invoice_number({year}), 1)"
            ));
            match (n + session) % 4 {
                0 => client.run("ROLLBACK"),
                1 => client.run("ROLLBACK TO s; COMMIT"),
                2 => {
                    client.fails(
                        &format!("INSERT INTO invoices VALUES ({year}, next_invoice_number({year}), NULL)"),
                        "23502",
                    );
                    client.run("ROLLBACK");
                }
                _ => client.run("COMMIT"),
            }
        }
        // The last transaction of some sessions never ends: their server processes do.
        let pid = client.number("SELECT pg_backend_pid()::bigint");
        client
            .run("BEGIN; INSERT INTO invoices VALUES (2026 + 5, next_invoice_number(2026 + 5), 1)");
        client.run(&format!("SELECT pg_advisory_lock_shared({session})"));
        client
            .batch_execute(&format!("SELECT pg_terminate_backend({pid})"))
            .expect_err("its end");
        pid
    });
    assert_eq!(pids.len(), SESSIONS);
    let gaps =
        "SELECT count(*) FROM (SELECT year, max(number) - count(*) AS missing, min(number) AS first
                                        FROM invoices GROUP BY year) AS t
                 WHERE missing <> 0 OR first <> 1";
    assert_eq!(client.number(gaps), 0);
    assert!(client.number("SELECT count(*) FROM invoices") > 50);
    assert_eq!(
        client.number("SELECT count(*) FROM invoices WHERE year = 2031"),
        0
    );
    client.run("INSERT INTO invoices VALUES (2031, next_invoice_number(2031), 1)");
    assert_eq!(
        client.number("SELECT number FROM invoices WHERE year = 2031"),
        1
    );
}

#[test]
fn a_role_that_may_mask_does_not_read_the_key() {
    let server = server();
    let mut client = server.connect_as("postgres", "recipes");
    client.run("SET ROLE seller");
    assert_eq!(client.number("SELECT order_unmask(order_mask(7))"), 7);
    client.fails("SELECT key FROM mask_keys", "42501");
}

/// The poller of the page.
fn poll(client: &mut Client, mut handle: impl FnMut(i64, &str)) -> Result<(), Error> {
    let mut transaction = client.transaction()?;
    let last = "SELECT xid::text, id FROM outbox_position FOR UPDATE";
    let last = transaction.query_one(last, &[])?;
    let (mut xid, mut id): (String, i64) = (last.get(0), last.get(1));
    let new = "SELECT o.xid::text, o.id, o.what FROM outbox AS o
                WHERE (o.xid, o.id) > ($1::text::xid8, $2)
                  AND o.xid < pg_snapshot_xmin(pg_current_snapshot())
                ORDER BY o.xid, o.id LIMIT 1000";
    for row in transaction.query(new, &[&xid, &id])? {
        (xid, id) = (row.get(0), row.get(1));
        handle(id, row.get(2));
    }
    let keep = "UPDATE outbox_position SET xid = $1::text::xid8, id = $2";
    transaction.execute(keep, &[&xid, &id])?;
    transaction.commit()
}

/// Writes 60 rows to the outbox in transactions that sleep, and that are committed, rolled back and
/// prepared.
fn write(client: &mut Client, writer: usize) {
    for n in 0..40 {
        client.run(
            "BEGIN; INSERT INTO outbox (what) VALUES ('x'), ('y'); SELECT pg_sleep(random() / 200)",
        );
        match n % 4 {
            0 => client.run("ROLLBACK"),
            1 => {
                client.run(&format!("PREPARE TRANSACTION '{writer} {n}'"));
                client.run(&format!("COMMIT PREPARED '{writer} {n}'"));
            }
            _ => client.run("COMMIT"),
        }
    }
}

/// Writers sleep, roll back and prepare. A reader by id alone loses rows of theirs.
#[test]
fn reader_of_the_outbox_misses_no_row() {
    let server = server();
    let page = Page::read(PAGE);
    let poller = page.blocks.iter().find(|block| block.language == "rust");
    let poller = &poller.expect("the poller").code;
    assert!(include_str!("recipes.rs").contains(poller), "{poller}");

    let mut reader = server.connect_as("postgres", "recipes");
    reader.run("TRUNCATE outbox");
    let mut by_id = Vec::new();
    let mut in_order = Vec::new();
    let mut read = |reader: &mut Client, by_id: &mut Vec<i64>| {
        let last = by_id.last().copied().unwrap_or(0);
        let new = format!("SELECT id FROM outbox WHERE id > {last} ORDER BY id");
        by_id.extend(reader.numbers(&new));
        poll(reader, |id, _| in_order.push(id)).expect("what is new");
        in_order.clone()
    };
    // One draws first and commits last.
    let mut late = server.connect_as("postgres", "recipes");
    late.run("BEGIN; INSERT INTO outbox (what) VALUES ('late')");
    let mut prepared = server.connect_as("postgres", "recipes");
    prepared
        .run("BEGIN; INSERT INTO outbox (what) VALUES ('prepared'); PREPARE TRANSACTION 'later'");
    let mut early = server.connect_as("postgres", "recipes");
    early.run("INSERT INTO outbox (what) VALUES ('early')");
    assert_eq!(read(&mut reader, &mut by_id).len(), 0);
    assert_eq!(by_id.len(), 1);
    late.run("COMMIT");
    assert_eq!(read(&mut reader, &mut by_id).len(), 1);
    prepared.run("COMMIT PREPARED 'later'");
    assert_eq!(read(&mut reader, &mut by_id).len(), 3);

    thread::scope(|scope| {
        let start = |writer| {
            let server = &server;
            scope.spawn(move || write(&mut server.connect_as("postgres", "recipes"), writer))
        };
        let writers: Vec<_> = (0..SESSIONS).map(start).collect();
        while !writers.iter().all(|writer| writer.is_finished()) {
            read(&mut reader, &mut by_id);
        }
    });
    let all = reader.numbers("SELECT id FROM outbox ORDER BY id");
    assert_eq!(all.len(), 3 + SESSIONS * 60);
    // The loader may be in a transaction.
    wait_until("all rows are read", || {
        let mut seen = read(&mut reader, &mut by_id);
        seen.sort_unstable();
        seen == all
    });
    assert!(by_id.len() < all.len(), "the late ones are missing");
}
