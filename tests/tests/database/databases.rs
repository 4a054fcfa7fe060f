//! What one does to databases works as it does without leaf.

use leaf_tests::postgres::{Client, Error, NoTls};
use leaf_tests::{
    Draw, Ledger, Mode, Order, Server, Signal, Snowflake, Stop, draw_many, refused, signal,
    wait_until,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

/// A server with a database `work` whose loader is at work, and no session there.
fn at_work() -> (Server, Client) {
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

#[test]
fn loader_of_one_database_is_not_in_the_way_of_another() {
    let (server, mut admin) = at_work();
    // Dropping makes every process of the cluster answer a barrier.
    admin.run("CREATE DATABASE other");
    admin.run("DROP DATABASE other");
    assert_eq!(server.loaders("work").len(), 1);
}

#[test]
fn terminated_loader_goes_and_comes_back() {
    let (server, mut admin) = at_work();
    let mut client = server.connect_as("postgres", "work");
    let mut ledger = Ledger::new();
    for _ in 0..5 {
        for loader in server.loaders("work") {
            admin.run(&format!("SELECT pg_terminate_backend({loader})"));
            wait_until("the loader is gone", || {
                !server.loaders("work").contains(&loader)
            });
        }
        ledger.add(draw_many(&mut client, "orders", 10_000));
    }
    // It ignores what Ctrl-C would send.
    let loader = server.loaders("work")[0];
    signal(loader, Signal::SIGINT);
    ledger.add(draw_many(&mut client, "orders", 100_000));
    assert_eq!(server.loaders("work"), [loader]);
}

#[test]
fn idle_loader_goes_and_comes_back() {
    let server = Server::options()
        .set("leaf.loader_idle_timeout", "1s")
        .start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders', step => 100)");
    let mut ledger = Ledger::new();
    for _ in 0..2 {
        ledger.add(draw_many(&mut client, "orders", 1_000));
        wait_until("the idle loader is gone", || {
            server.loaders("postgres").is_empty()
        });
    }
    ledger.add(draw_many(&mut client, "orders", 1_000));
}

#[test]
fn reload_reaches_the_loader() {
    let server = Server::options()
        .set("leaf.loader_idle_timeout", "1h")
        .start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders', step => 100)");
    client.next("orders").expect("an id");
    assert_eq!(server.loaders("postgres").len(), 1);
    server.reload("leaf.loader_idle_timeout", "1s");
    wait_until("the idle loader is gone", || {
        server.loaders("postgres").is_empty()
    });
}

#[test]
fn dump_and_restore_never_rewinds() {
    let (server, mut admin) = at_work();
    let mut work = server.connect_as("postgres", "work");
    work.run("UPDATE leaf.alloc SET description = 'kept', owner = 'ghost'");
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut work, "orders", 3_333));
    admin.run("CREATE DATABASE restored");
    server.dump_and_restore("work", "restored");
    let mut restored = server.connect_as("postgres", "restored");
    assert_eq!(
        restored.text("SELECT description::text FROM leaf.alloc"),
        "kept"
    );
    ledger.add(draw_many(&mut restored, "orders", 3_000));
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
fn drop_while_grants_sleep(seconds: u32, tags: &[&str]) {
    let (server, mut admin) = at_work();
    let mut client = server.connect_as("postgres", "work");
    for tag in tags {
        client.run(&format!("SELECT leaf_tag_create('{tag}')"));
    }
    client.run(&format!(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN PERFORM pg_sleep({seconds}); RETURN new; END $$;
         CREATE TRIGGER slow BEFORE UPDATE ON leaf.alloc
            FOR EACH ROW EXECUTE FUNCTION slow();
         SET leaf.wait_timeout = '500ms'"
    ));
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
    drop_while_grants_sleep(2, &["fresh"]);
}

#[test]
fn database_can_be_dropped_while_grants_fail_one_after_the_other() {
    drop_while_grants_sleep(3600, &["one", "two"]);
}

/// The ids that a statement in single-user mode has returned.
fn returned(output: &str, function: &str) -> Vec<i64> {
    let ids = output.lines().filter_map(|line| {
        let (_, value) = line.split_once(&format!("{function} = \""))?;
        value.split('"').next()?.parse().ok()
    });
    ids.collect()
}

#[test]
fn single_user_mode_draws_and_never_repeats_a_snowflake_id() {
    let mut server = Server::options().clock().start();
    let order = Order::new();
    order
        .ascending(|| server.connect().snowflakes(1_000))
        .expect("ids");
    for round in 1..=3 {
        server.stop(Mode::Fast);
        let ids = order.ascending(|| {
            let statement = "SELECT leaf_snowflake_next() FROM generate_series(1, 55)";
            let output = server.single_user(statement);
            let ids = returned(&output, "leaf_snowflake_next");
            (ids.len() == 55).then_some(ids).ok_or(output)
        });
        ids.expect("55 ids");
        server.clock().behind(Duration::from_secs(round));
        server.start_again();
        let mut client = server.connect();
        let ids = order.ascending(|| client.snowflakes(1_000)).expect("ids");
        assert_eq!(client.parts(ids[0]).worker, 0, "it kept its lease");
    }
}

#[test]
fn single_user_mode_draws_and_never_repeats_an_id() {
    let mut server = Server::start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders', step => 10)");
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut client, "orders", 100));
    drop(client);
    server.stop(Mode::Fast);
    let output =
        server.single_user("SELECT leaf_segment_next('orders') FROM generate_series(1, 55)");
    ledger.add(returned(&output, "leaf_segment_next"));
    assert_eq!(ledger.len(), 155, "{output}");
    server.start_again();
    ledger.add(draw_many(&mut server.connect(), "orders", 100));
}

#[test]
fn block_asked_of_a_loader_that_ended_comes_from_the_next() {
    let server = Server::start();
    let (mut admin, mut client) = (server.connect(), server.connect());
    admin.run(
        "SELECT leaf_tag_create('orders');
         CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN PERFORM pg_sleep(2.5); RETURN new; END $$;
         CREATE TRIGGER slow BEFORE UPDATE ON leaf.alloc
            FOR EACH ROW EXECUTE FUNCTION slow()",
    );
    client.run("SET leaf.wait_timeout = '30s'");
    thread::scope(|scope| {
        let session = scope.spawn(|| client.reserve("orders", 10));
        wait_until("the loader grants the block", || {
            admin.number(
                "SELECT count(*) FROM pg_stat_activity
                  WHERE backend_type = 'leaf loader' AND wait_event = 'PgSleep'",
            ) == 1
        });
        admin.run(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
              WHERE backend_type = 'leaf loader'",
        );
        session.join().expect("a session").expect("a block");
    });
}

#[test]
fn segment_that_was_due_when_the_loader_ended_is_fetched_by_the_next() {
    let server = Server::start();
    let (mut admin, mut client) = (server.connect(), server.connect());
    admin.run("SELECT leaf_tag_create('orders', step => 1000); SELECT leaf_tag_create('other')");
    client.next("orders").expect("an id");
    let mut holder = server.connect();
    holder.run("BEGIN; SELECT * FROM leaf.alloc WHERE biz_tag = 'orders' FOR UPDATE");
    client.batch("orders", 200).expect("what is in memory");
    wait_until("the loader has tried in vain", || {
        admin.number(
            "SELECT count(*) FROM leaf.stat_segment
              WHERE biz_tag = 'orders' AND last_error IS NOT NULL",
        ) == 1
    });
    let loader = server.loaders("postgres")[0];
    admin.run(&format!("SELECT pg_terminate_backend({loader})"));
    wait_until("that loader is gone", || {
        !server.loaders("postgres").contains(&loader)
    });
    holder.run("ROLLBACK");
    // Only the other tag asks for a loader.
    client.next("other").expect("an id");
    wait_until("the next segment is ready", || {
        admin.stat("orders", "next_left") > 0
    });
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
