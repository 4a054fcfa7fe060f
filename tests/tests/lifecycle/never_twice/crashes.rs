//! Processes killed in the middle of drawing, again and again: over the whole
//! history of a tag no id comes twice.

use leaf_tests::postgres::{Client, Error};
use leaf_tests::{Draw, Load, Mode, Server, Signal, signal, wait_until};
use std::time::{Duration, Instant};

/// No error of leaf is bearable.
const NOTHING: &str = "";

/// All the ways to draw, in turn.
fn draw(client: &mut Client, call: usize) -> Result<Vec<i64>, Error> {
    match call % 4 {
        0 => client.next("orders").map(|id| vec![id]),
        1 => client.batch("orders", 700),
        2 => client.rows("orders", 2_500),
        _ => client
            .reserve("orders", 50)
            .map(|block| block.ids().collect()),
    }
}

/// Draws from several sessions, lets `break_it` do its worst in the middle, and
/// goes on, for some rounds with one ledger.
fn survive(settings: &[(&str, &str)], rounds: usize, break_it: impl Fn(&mut Server)) {
    let mut options = Server::options();
    for (name, value) in settings {
        options = options.set(name, value);
    }
    let mut server = options.start();
    server
        .connect()
        .run("SELECT leaf_tag_create('orders', step => 500)");
    let config = server.config("postgres", "postgres");
    Load::run(&config, 4, NOTHING, draw, |load| {
        for round in 0..rounds {
            let cache = [1, 7, 1024][round % 3];
            server.connect().run(&format!(
                "SELECT leaf_tag_alter('orders', cache => {cache})"
            ));
            load.goes_on(5_000);
            break_it(&mut server);
            server.wait_ready();
            load.goes_on(5_000);
        }
    });
}

/// The same with snowflake ids, while the clock is set back a little each time.
fn survive_with_snowflakes(rounds: usize, break_it: impl Fn(&mut Server)) {
    let mut server = Server::options()
        .clock()
        .set("leaf.clock_policy", "borrow")
        .start();
    let config = server.config("postgres", "postgres");
    Load::of_snowflakes(&config, 4, |load| {
        for round in 1..=rounds {
            load.goes_on(5_000);
            server
                .clock()
                .behind(Duration::from_millis(500 * round as u64));
            break_it(&mut server);
            server.wait_ready();
            load.goes_on(5_000);
        }
        assert_eq!(load.refusals(), 0);
    });
}

/// A backend of the drawing sessions, in the middle of whatever it does.
fn kill_backend(server: &mut Server) {
    let victim = server.connect().number(
        "SELECT max(pid)::bigint FROM pg_stat_activity
          WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()",
    );
    let mut observer = server.connect();
    signal(victim as i32, Signal::SIGKILL);
    wait_until("the server has noticed", || {
        observer.batch_execute("SELECT 1").is_err()
    });
}

/// The loader; drawing keeps one alive.
fn kill_loader(server: &mut Server) {
    let mut observer = server.connect();
    wait_until("a loader was there to be killed", || {
        let loaders = server.loaders("postgres");
        loaders.iter().for_each(|&pid| signal(pid, Signal::SIGKILL));
        !loaders.is_empty()
    });
    wait_until("the server has noticed", || {
        observer.batch_execute("SELECT 1").is_err()
    });
}

#[test]
fn killed_backend_never_repeats_an_id() {
    survive(&[], 6, kill_backend);
}

#[test]
fn killed_loader_never_repeats_an_id() {
    survive(&[], 6, kill_loader);
}

#[test]
fn killed_postmaster_never_repeats_an_id() {
    survive(&[], 6, |server| {
        server.kill_postmaster();
        server.start_again();
    });
}

#[test]
fn immediate_stop_never_repeats_an_id() {
    survive(&[], 6, |server| server.restart(Mode::Immediate));
}

#[test]
fn fast_stop_never_repeats_an_id() {
    survive(&[], 6, |server| server.restart(Mode::Fast));
}

#[test]
fn killed_backend_never_repeats_a_snowflake_id() {
    survive_with_snowflakes(5, kill_backend);
}

#[test]
fn killed_loader_never_repeats_a_snowflake_id() {
    survive_with_snowflakes(5, kill_loader);
}

#[test]
fn killed_postmaster_never_repeats_a_snowflake_id() {
    survive_with_snowflakes(5, |server| {
        server.kill_postmaster();
        server.start_again();
    });
}

#[test]
fn immediate_stop_never_repeats_a_snowflake_id() {
    survive_with_snowflakes(5, |server| server.restart(Mode::Immediate));
}

#[test]
fn fast_stop_never_repeats_a_snowflake_id() {
    survive_with_snowflakes(5, |server| server.restart(Mode::Fast));
}

#[test]
fn few_slots_and_crashes_never_repeat_an_id() {
    survive(&[("leaf.max_tags", "16")], 4, |server| {
        server
            .connect()
            .run("SELECT leaf_tag_create(format('t%s-%s', pg_postmaster_start_time(), n)) FROM generate_series(1, 40) n;
                  SELECT leaf_segment_next(biz_tag::text) FROM leaf.alloc");
        server.restart(Mode::Immediate);
    });
}

/// How long to go on: `make test-long` asks for more.
fn duration() -> Duration {
    let seconds = std::env::var("LEAF_TEST_SECONDS").ok();
    let seconds = seconds.map_or(10, |seconds| seconds.parse().expect("a number of seconds"));
    Duration::from_secs(seconds)
}

#[test]
fn any_process_killed_at_any_time_repeats_no_id() {
    let mut server = Server::start();
    server
        .connect()
        .run("SELECT leaf_tag_create('orders', step => 500)");
    let config = server.config("postgres", "postgres");
    // Any number will do, and the log of a failure has it.
    let mut random = std::process::id();
    eprintln!("victims are chosen from {random}");
    let until = Instant::now() + duration();
    Load::run(&config, 3, NOTHING, draw, |ids| {
        Load::of_snowflakes(&config, 2, |snowflakes| {
            while Instant::now() < until {
                ids.goes_on(1_000);
                snowflakes.goes_on(1_000);
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                server.connect().run(&format!(
                    "SELECT leaf_tag_alter('orders', cache => {})",
                    [1, 7, 1024][(random >> 8) as usize % 3]
                ));
                let processes = server.processes();
                let victim = processes[(random >> 16) as usize % processes.len()];
                if victim == server.postmaster_pid() {
                    server.kill_postmaster();
                    server.start_again();
                } else {
                    signal(victim, Signal::SIGKILL);
                    server.wait_ready();
                }
            }
            ids.goes_on(1_000);
            snowflakes.goes_on(1_000);
        });
    });
}
