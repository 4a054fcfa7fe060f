//! The clock is another one after a restart or a crash: issuing starts above what
//! may have been issued, or not at all.

use leaf_tests::{Draw, Load, Mode, Order, Server, Snowflake, refused};
use std::fs;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3_600);

/// The ways a server ends.
const ENDS: [fn(&mut Server); 3] = [
    |server| server.stop(Mode::Fast),
    |server| server.stop(Mode::Immediate),
    |server| server.kill_postmaster(),
];

/// Draws in a new session.
pub fn draw(server: &Server, order: &Order) {
    let mut client = server.connect();
    order
        .ascending(|| client.snowflakes(10_000))
        .expect("a batch");
    order
        .ascending(|| client.snowflake().map(|id| vec![id]))
        .expect("an id");
}

/// Draws, ends the server right after, and starts it with the clock so far behind.
fn set_back_over_a_restart(by: Duration) {
    for end in ENDS {
        let mut server = Server::options().clock().start();
        let order = Order::new();
        for _ in 0..3 {
            draw(&server, &order);
            end(&mut server);
            server.clock().behind(by);
            server.start_again();
            draw(&server, &order);
            server.clock().right();
        }
        let mut client = server.connect();
        let id = client.snowflake().expect("an id");
        assert_eq!(client.parts(id).worker_id, 0, "it kept its lease");
    }
}

#[test]
fn restart_with_the_same_clock_never_repeats_an_id() {
    set_back_over_a_restart(Duration::ZERO);
}

#[test]
fn restart_with_the_clock_50_ms_back_never_repeats_an_id() {
    set_back_over_a_restart(Duration::from_millis(50));
}

#[test]
fn restart_with_the_clock_2_s_back_never_repeats_an_id() {
    set_back_over_a_restart(Duration::from_secs(2));
}

#[test]
fn restart_with_the_clock_an_hour_back_refuses_snowflake_ids_alone() {
    for end in ENDS {
        let mut server = Server::options().clock().start();
        let order = Order::new();
        server.connect().run("SELECT leaf_tag_create('orders')");
        draw(&server, &order);
        end(&mut server);
        server.clock().behind(HOUR);
        server.start_again();

        let mut client = server.connect();
        for policy in ["error", "wait", "borrow"] {
            client.run(&format!("SET leaf.clock_policy = '{policy}'"));
            client.run("SET leaf.wait_timeout = '500ms'");
            refused(client.snowflake(), "58000");
            refused(client.snowflakes(5), "58000");
        }
        client.run("RESET ALL");
        client.batch("orders", 5_000).expect("segment ids");
        let seen = client.snowflake_stat::<String>("last_error");
        assert!(seen.is_some_and(|text| !text.is_empty()));

        server.clock().right();
        draw(&server, &order);
    }
}

#[test]
fn clock_that_was_ahead_before_a_restart_is_behind_after_it() {
    let mut server = Server::options().clock().start();
    let order = Order::new();
    server.clock().ahead(HOUR);
    draw(&server, &order);
    for mode in [Mode::Fast, Mode::Immediate] {
        server.stop(mode);
        server.clock().right();
        server.start_again();
        refused(server.connect().snowflake(), "58000");
        // Neither does the refusal lift the ceiling, nor a second start.
        server.restart(mode);
        refused(server.connect().snowflake(), "58000");
        server.clock().ahead(HOUR);
        draw(&server, &order);
    }
}

#[test]
fn immediate_stops_in_a_row_never_repeat_an_id() {
    let mut server = Server::options().clock().start();
    let config = server.config("postgres", "postgres");
    Load::of_snowflakes(&config, 4, |load| {
        for round in 0..6 {
            load.goes_on(20_000);
            server.stop(Mode::Immediate);
            // Now a little back, now right again.
            match round % 2 {
                0 => server.clock().behind(Duration::from_millis(800)),
                _ => server.clock().right(),
            }
            server.start_again();
        }
        load.goes_on(20_000);
        assert_eq!(load.refusals(), 0, "at most 31 s of 60 are borrowed");
    });
}

/// A server that has drawn, stopped at once; and its file of ceilings.
fn stopped(order: &Order) -> (Server, String) {
    let mut server = Server::options().clock().start();
    draw(&server, order);
    let database = server
        .connect()
        .number("SELECT oid::bigint FROM pg_database WHERE datname = 'postgres'");
    server.stop(Mode::Immediate);
    server.clock().behind(Duration::from_secs(2));
    (server, format!("leaf/snowflake.{database}"))
}

#[test]
fn lost_file_of_ceilings_never_repeats_an_id() {
    let order = Order::new();
    let (mut server, name) = stopped(&order);
    fs::remove_file(server.data().join(name)).expect("it was there");
    server.start_again();
    // The row of the registry has the ceiling too.
    draw(&server, &order);
}

#[test]
fn damaged_file_of_ceilings_is_named_and_stops_snowflake_ids_alone() {
    let order = Order::new();
    let (mut server, name) = stopped(&order);
    let whole = fs::read(server.data().join(&name)).expect("the file of ceilings");
    let damages: [&[u8]; 3] = [b"", b"garbage", &whole[..whole.len() / 2]];
    for damage in damages {
        server.write(&name, damage);
        server.start_again();
        let mut client = server.connect();
        client.run("SELECT leaf_tag_create('orders'); SET leaf.wait_timeout = '500ms'");
        let error = refused(client.snowflake(), "55P03");
        let detail = error.detail().unwrap_or_default();
        assert!(detail.contains(&name), "{error:?}");
        client.next("orders").expect("a segment id");
        client.run("SELECT leaf_tag_drop('orders')");
        fs::remove_file(server.data().join(&name)).expect("the way out");
        draw(&server, &order);
        drop(client);
        server.stop(Mode::Immediate);
    }
}
