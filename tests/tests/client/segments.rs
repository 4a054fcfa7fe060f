//! The client library's buffered sources: through outages, nothing twice.

use crate::{HASTE, PATIENCE, config};
use leaf_sdk::{Config, Error, IdSource, Leaf, SegmentId, SegmentSource, SnowflakeConfig};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Mode, Server, Signal, Stop, signal, wait_until};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A server with the tag `orders`.
fn server() -> Server {
    let server = Server::start();
    server
        .connect()
        .run("SELECT leaf_tag_create('orders', step => 100)");
    server
}

fn handle(server: &Server, timeout: Duration) -> Leaf {
    Leaf::new(config(server, timeout).steps(1_000, 1_000)).expect("a handle")
}

fn leaf(server: &Server) -> Leaf {
    handle(server, PATIENCE)
}

fn numbers(ids: Vec<SegmentId>) -> impl Iterator<Item = i64> {
    ids.into_iter().map(SegmentId::get)
}

/// `count` ids, however long it takes.
fn draw(orders: &SegmentSource, count: usize) -> Vec<SegmentId> {
    let mut ids = Vec::with_capacity(count);
    wait_until("there are so many ids", || {
        while ids.len() < count
            && let Some(id) = orders.try_next()
        {
            ids.push(id);
        }
        ids.len() == count
    });
    ids
}

/// Draws from `leaf` until both buffers are used up and the server does not
/// answer; the error that this ends with.
fn use_up(leaf: &Leaf, ledger: &mut Ledger) -> Error {
    let orders = leaf.segment("orders");
    loop {
        match orders.next() {
            Ok(id) => ledger.add([id.get()]),
            Err(error) => return error,
        }
    }
}

#[test]
fn ids_ascend_per_source_and_nobody_gets_one_twice() {
    let server = server();
    let ledger = Mutex::new(Ledger::new());
    thread::scope(|scope| {
        for _ in 0..2 {
            let orders = leaf(&server).segment("orders");
            for session in 0..4 {
                let (orders, ledger) = (orders.clone(), &ledger);
                scope.spawn(move || {
                    let mut last = i64::MIN;
                    for round in 0..2_000 {
                        let ids = match (round + session) % 4 {
                            0 => orders.next_n(17).expect("ids"),
                            _ => vec![orders.next().expect("an id")],
                        };
                        for id in &ids {
                            assert!(id.get() > last, "{id} after {last}");
                            last = id.get();
                        }
                        ledger.lock().expect("no panic").add(numbers(ids));
                    }
                });
            }
        }
        let mut client = server.connect();
        for _ in 0..50 {
            let ids = client.batch("orders", 50).expect("a batch");
            ledger.lock().expect("no panic").add(ids);
        }
    });
}

#[test]
fn outage_is_not_noticed_while_ids_are_at_hand() {
    let mut server = server();
    let leaf = handle(&server, HASTE);
    let orders = leaf.segment("orders");
    let mut ledger = Ledger::new();
    wait_until("both buffers are full", || {
        ledger.add(orders.try_next().map(SegmentId::get));
        leaf.stats()["orders"].buffered > 1_000
    });
    let buffered = leaf.stats()["orders"].buffered;
    server.stop(Mode::Immediate);
    ledger.add(numbers(
        orders.next_n(buffered as usize).expect("buffered ids"),
    ));

    let began = Instant::now();
    let error = use_up(&leaf, &mut ledger);
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    assert!(error.is_retryable());
    let stats = &leaf.stats()["orders"];
    assert!(stats.last_error.is_some(), "{stats:?}");
    assert!(began.elapsed() >= HASTE);

    server.start_again();
    wait_until("the source has found the server again", || {
        orders.next().map(|id| ledger.add([id.get()])).is_ok()
    });
    ledger.add(numbers(draw(&orders, 5_000)));
    ledger.add(server.connect().batch("orders", 1_000).expect("a batch"));
}

#[test]
fn call_for_more_than_is_at_hand_gets_all_or_takes_none() {
    let mut server = server();
    let leaf = handle(&server, HASTE);
    let orders = leaf.segment("orders");
    let mut ledger = Ledger::new();
    let mut last = 0;
    for count in [1, 10_000, 1, 2_500, 1] {
        let mut ids = Vec::new();
        wait_until("there are so many ids", || {
            ids = orders.next_n(count).unwrap_or_default();
            !ids.is_empty()
        });
        assert!(ids.len() == count && ids.is_sorted() && ids[0].get() > last);
        last = ids[count - 1].get();
        ledger.add(numbers(ids));
    }
    server.stop(Mode::Immediate);
    orders.next_n(1_000_000).expect_err("there are fewer");
    let at_hand = orders.stats().buffered;
    assert!(at_hand > 0);
    let count = at_hand as usize + 1;
    let error = orders.next_n(count).expect_err("there are fewer");
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().build().expect("a runtime");
    let cancelled = runtime.block_on(async {
        tokio::time::timeout(Duration::from_millis(50), orders.next_n_async(count)).await
    });
    assert!(cancelled.is_err());
    assert_eq!(orders.stats().buffered, at_hand);
    ledger.add(numbers(orders.next_n(count - 1).expect("ids")));
    assert_eq!(orders.try_next(), None);
}

#[test]
fn server_that_does_not_answer_is_an_error_within_the_timeout() {
    let server = server();
    let leaf = handle(&server, HASTE);
    let mut ledger = Ledger::new();
    let orders = leaf.segment("orders");
    ledger.add(numbers(draw(&orders, 100)));
    let pid = |kind: &str| {
        let query = format!(
            "SELECT coalesce(max(pid), 0)::bigint FROM pg_stat_activity WHERE application_name = '{kind}'"
        );
        server.connect().number(&query) as i32
    };
    let session = pid("leaf-sdk");
    assert_ne!(session, 0);
    signal(session, Signal::SIGSTOP);
    let error = use_up(&leaf, &mut ledger);
    signal(session, Signal::SIGCONT);
    assert!(matches!(error, Error::Timeout { .. }), "{error:?}");
    // It takes another connection, whatever became of the first.
    wait_until("ids come again", || {
        orders.try_next().map(|id| ledger.add([id.get()])).is_some()
    });
    ledger.add(numbers(draw(&orders, 5_000)));
}

#[test]
fn what_the_server_refuses_is_told_apart() {
    let server = server();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('few', step => 1, max_value => 10)");
    let leaf = leaf(&server);
    let began = Instant::now();
    let unknown = leaf.segment("nothing").next().expect_err("no such tag");
    assert!(matches!(unknown, Error::UnknownTag(_)), "{unknown:?}");
    assert!(unknown.to_string().contains("nothing"), "{unknown}");
    assert!(
        began.elapsed() < Duration::from_secs(60),
        "it waited for the timeout"
    );

    // It ends with its last id, however many are asked for at once.
    let few = leaf.segment("few");
    let ids = few.next_n(10).expect("ten ids");
    assert_eq!(ids.last(), Some(&SegmentId::new(10)));
    let exhausted = few.next().expect_err("no more ids");
    assert!(matches!(exhausted, Error::Exhausted(_)), "{exhausted:?}");

    // A source that was refused goes on once the reason is gone.
    client.run("SELECT leaf_tag_create('nothing')");
    leaf.segment("nothing").next().expect("the tag exists now");
}

#[test]
fn blocking_call_inside_a_runtime_is_an_error() {
    let server = server();
    let orders = leaf(&server).segment("orders");
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let error = orders.next().expect_err("it would have to wait");
        assert!(matches!(error, Error::WouldBlockRuntime), "{error:?}");
        let first = orders.next_async().await.expect("an id");
        // What is at hand needs no waiting.
        let second = orders.next().expect("an id at hand");
        assert!(second > first);
        let more = orders.next_n_async(5_000).await.expect("ids");
        assert!(more[0] > second && more.is_sorted());
        // A thread for blocking may wait with the async call.
        let blocking = tokio::task::spawn_blocking(move || {
            let here = tokio::runtime::Handle::current();
            here.block_on(orders.next_n_async(5_000)).expect("ids")
        });
        let last = blocking.await.expect("no panic");
        assert!(last[0] > more[4_999]);
    });
}

#[test]
fn close_hands_back_what_was_not_used() {
    let server = server();
    let mut client = server.connect();
    let leaf = leaf(&server);
    let orders = leaf.segment("orders");
    let last = orders.next_n(500).expect("ids")[499].get();
    wait_until("there are two buffers", || orders.stats().buffered > 1_000);
    leaf.close().expect("the server answers");
    assert_eq!(
        client.number("SELECT max_id FROM leaf.alloc WHERE biz_tag = 'orders'"),
        last + 1
    );
    let error = orders.next().expect_err("it is closed");
    assert!(matches!(error, Error::Closed), "{error:?}");
    assert_eq!(client.next("orders").expect("an id"), last + 1);
}

/// How far ids of `orders` are granted.
fn granted(client: &mut Client) -> i64 {
    client.number("SELECT max_id FROM leaf.alloc WHERE biz_tag = 'orders'")
}

#[test]
fn block_on_its_way_during_close_is_returned_and_not_drawn() {
    let server = Server::options().set("leaf.wait_timeout", "10min").start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders')");
    let config = config(&server, PATIENCE).query_timeout(PATIENCE * 10);
    let leaf = Leaf::new(config.steps(1_000, 1_000)).expect("a handle");
    let orders = leaf.segment("orders");
    let mut last = orders.next().expect("an id");
    let mut holder = server.connect();
    holder.run("BEGIN; SELECT * FROM leaf.alloc FOR UPDATE");
    // The threshold is crossed, and the next block has to wait.
    last = last.max(*orders.next_n(200).expect("ids").last().expect("ids"));
    wait_until("a block is on its way", || {
        client.number(
            "SELECT count(*) FROM pg_stat_activity
              WHERE application_name = 'leaf-sdk' AND state = 'active'",
        ) == 1
    });
    thread::scope(|scope| {
        let close = scope.spawn(|| leaf.close());
        wait_until("the source is closed", || match orders.next() {
            Ok(id) => {
                last = id;
                false
            }
            Err(error) => matches!(error, Error::Closed),
        });
        holder.run("COMMIT");
        close.join().expect("no panic").expect("the server answers");
    });
    assert!(orders.try_next().is_none());
    assert_eq!(granted(&mut client), last.get() + 1);
}

#[test]
fn after_close_every_call_says_closed() {
    let server = server();
    let leaf = leaf(&server);
    let (used, unused) = (leaf.segment("orders"), leaf.segment("unused"));
    let config = || SnowflakeConfig::new("node");
    let generator = leaf.snowflake(config()).expect("a generator");
    used.next().expect("an id");
    generator.next().expect("an id");
    leaf.close().expect("the server answers");
    let mut client = server.connect();
    wait_until("the connections are closed", || {
        client.number("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leaf-sdk'")
            == 0
    });
    for source in [used, unused, leaf.segment("orders"), leaf.segment("new")] {
        assert!(source.try_next().is_none());
        assert!(matches!(source.next(), Err(Error::Closed)));
        assert!(matches!(source.next_n(10), Err(Error::Closed)));
    }
    assert!(matches!(generator.next(), Err(Error::Closed)));
    assert!(matches!(leaf.snowflake(config()), Err(Error::Closed)));
    leaf.close().expect("there is nothing left to do");
    assert!(matches!(leaf.connect(), Err(Error::Closed)));
}

#[test]
fn close_hands_back_the_ids_of_a_thousand_tags() {
    let server = server();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('t' || n) FROM generate_series(1, 1000) AS n");
    let leaf = leaf(&server);
    let names: Vec<_> = (1..=1_000).map(|n| format!("t{n}")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    leaf.prefill(&names).expect("ids");
    assert_eq!(leaf.segment("t500").next().expect("an id").get(), 1);
    client.run("SELECT leaf_tag_drop('t1'), leaf_segment_reserve('t2', 1)");
    leaf.close().expect("the server answers");
    let positions = "SELECT string_agg(biz_tag || ' ' || max_id, ', ' ORDER BY biz_tag)
                       FROM leaf.alloc WHERE biz_tag <> 'orders' AND max_id <> 1";
    assert_eq!(client.text(positions), "t2 1002, t500 2");
}

#[test]
fn missing_tag_is_asked_for_with_backoff() {
    let server = server();
    let shortest = Duration::from_millis(50);
    let config = config(&server, PATIENCE).retry_between(shortest, PATIENCE);
    let leaf = Leaf::new(config).expect("a handle");
    let missing = leaf.segment("missing");
    let attempts = || {
        let log = server.log();
        log.matches("ERROR:  tag \"missing\" does not exist")
            .count()
    };
    let began = Instant::now();
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        let _stop = Stop(&is_over);
        let (is_over, missing) = (&is_over, &missing);
        for _ in 0..2 {
            scope.spawn(move || {
                while !is_over.load(Ordering::SeqCst) {
                    let error = missing.next().expect_err("no such tag");
                    assert!(matches!(error, Error::UnknownTag(_)), "{error:?}");
                }
            });
        }
        wait_until("it was asked for often", || attempts() >= 5);
    });
    // Before the fifth attempt, there were four pauses, each twice as long.
    let attempts = attempts();
    assert!(began.elapsed() >= shortest * 15, "{attempts} attempts");
    server.connect().run("SELECT leaf_tag_create('missing')");
    missing.next().expect("the tag exists now");
}

/// A new tag of the same name, whose ids are far above those of the first.
fn create_again(client: &mut Client) {
    client.run("SELECT leaf_tag_drop('orders')");
    client.run("SELECT leaf_tag_create('orders', start => 1000000000)");
}

const NEW_LIFE: i64 = 1_000_000_000;

#[test]
fn block_of_a_tag_created_again_ends_the_earlier_ids() {
    let server = server();
    let leaf = leaf(&server);
    let orders = leaf.segment("orders");
    assert!(orders.next().expect("an id").get() < NEW_LIFE);
    create_again(&mut server.connect());
    // What is left of the first block is of the earlier life until the next one comes.
    orders.next_n(200).expect("ids");
    wait_until("the next block has come", || orders.stats().refills == 2);
    assert_eq!(orders.next().expect("an id").get(), NEW_LIFE);
}

#[test]
fn ids_do_not_outlive_their_tag_by_more_than_the_age_of_buffers() {
    let server = server();
    let config = config(&server, PATIENCE)
        .steps(1_000_000, 1_000_000)
        .max_buffer_age(Duration::from_millis(200));
    let leaf = Leaf::new(config).expect("a handle");
    let orders = leaf.segment("orders");
    // The source alone keeps all that it needs.
    drop(leaf);
    assert!(orders.next().expect("an id").get() < NEW_LIFE);
    create_again(&mut server.connect());
    wait_until("ids are those of the new tag", || {
        orders.next().expect("an id").get() >= NEW_LIFE
    });
}

#[test]
fn ids_that_cannot_be_confirmed_are_discarded() {
    let mut server = server();
    let config = config(&server, HASTE).max_buffer_age(Duration::from_millis(200));
    let leaf = Leaf::new(config).expect("a handle");
    let orders = leaf.segment("orders");
    let last = orders.next_n(10).expect("ids")[9];
    server.stop(Mode::Immediate);
    wait_until("they are discarded", || orders.stats().buffered == 0);
    assert!(matches!(orders.next(), Err(Error::Timeout { .. })));
    server.start_again();
    wait_until("there are others", || {
        orders.next().is_ok_and(|id| id > last)
    });
}

#[test]
fn close_keeps_what_others_have_gone_beyond() {
    let server = server();
    let mut client = server.connect();
    let mut ledger = Ledger::new();
    let leaf = leaf(&server);
    ledger.add(numbers(leaf.segment("orders").next_n(10).expect("ids")));
    ledger.add(client.reserve("orders", 10).expect("a block").ids());
    leaf.close().expect("the server answers");
    ledger.add(client.batch("orders", 5_000).expect("a batch"));
}

#[test]
fn block_of_another_session_cannot_be_returned() {
    let server = server();
    let block = server.connect().reserve("orders", 100).expect("a block");
    let mut thief = server.connect();
    let query = format!(
        "SELECT leaf_segment_return('orders', int8range({}, {}, '[]'))::int::bigint",
        block.first, block.last
    );
    assert_eq!(thief.number(&query), 0);
}

/// What others have made in a schema of the search path matches better than what PostgreSQL has.
#[test]
fn strangers_functions_are_not_called_by_a_service() {
    let (server, mut client) = Server::with_orders(1000);
    client.run("CREATE ROLE stranger LOGIN; GRANT CREATE ON SCHEMA public TO stranger; CREATE SEQUENCE runs; GRANT ALL ON runs TO PUBLIC");
    let mut stranger = server.connect_as("stranger", "postgres");
    let body = "LANGUAGE plpgsql AS $$BEGIN PERFORM nextval('public.runs'); RETURN NULL; END$$";
    for name in ["lower", "upper"] {
        stranger.run(&format!(
            "CREATE FUNCTION public.{name}(int8range) RETURNS bigint {body}"
        ));
    }
    for (operator, left, right, result) in [
        ("*", "numeric", "integer", "numeric"),
        ("*", "bigint", "interval", "interval"),
        ("*", "integer", "interval", "interval"),
    ] {
        stranger.run(&format!(
            "CREATE FUNCTION public.times({left}, {right}) RETURNS {result} {body};
             CREATE OPERATOR public.{operator} (LEFTARG = {left}, RIGHTARG = {right}, FUNCTION = public.times)"
        ));
    }
    let config = Config::new(&server.connection_string()).expect("a connection string");
    let leaf = Leaf::new(config).expect("a handle");
    assert_eq!(leaf.segment("orders").next().expect("an id").get(), 1);
    let events = leaf
        .snowflake(SnowflakeConfig::new("here"))
        .expect("a generator");
    events.next().expect("an id");
    leaf.close().expect("the server answers");
    assert_eq!(client.number("SELECT is_called::int::bigint FROM runs"), 0);
}
