//! The loader of a database: it comes when it is needed, goes when it is idle or
//! told to, and what it leaves undone the next one does.

use crate::no_surprises::databases::at_work;
use leaf_tests::{
    Draw, Ledger, Server, Signal, draw_many, signal, slow_grants, wait_until, waiting_loaders,
};
use std::thread;
use std::time::Duration;

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
    let mut loader = 0;
    wait_until("there is one loader", || {
        let loaders = server.loaders("work");
        loader = loaders.first().copied().unwrap_or(0);
        loaders.len() == 1
    });
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
fn failed_start_of_a_loader_and_a_clock_that_goes_back_stop_nobody() {
    let server = Server::options()
        .clock()
        .set("leaf.loader_idle_timeout", "100ms")
        .start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders'), leaf_tag_create('other')");
    // This session has the library from here on; a new loader does not find it.
    client.next("other").expect("an id");
    wait_until("the idle loader is gone", || {
        server.loaders("postgres").is_empty()
    });
    server.reload("dynamic_library_path", "/nowhere");
    client.run("SET leaf.wait_timeout = '500ms'");
    client.fails("SELECT leaf_segment_next('orders')", "55P03");
    server.reload("dynamic_library_path", "$libdir");
    server.clock().behind(Duration::from_secs(3600));
    client.run("SET leaf.wait_timeout = '30s'");
    assert_eq!(client.next("orders").expect("an id"), 1);
}

#[test]
fn block_asked_of_a_loader_that_ended_comes_from_the_next() {
    let server = Server::start();
    let (mut admin, mut client) = (server.connect(), server.connect());
    admin.run("SELECT leaf_tag_create('orders')");
    slow_grants(&mut admin, 2.5);
    client.run("SET leaf.wait_timeout = '30s'");
    thread::scope(|scope| {
        let session = scope.spawn(|| client.reserve("orders", 10));
        wait_until("the loader grants the block", || {
            waiting_loaders(&mut admin, "PgSleep") == 1
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
