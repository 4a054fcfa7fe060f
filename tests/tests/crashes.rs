//! Processes killed in the middle of drawing, again and again: over the whole
//! history of a tag no id comes twice.

use leaf_tests::postgres::{Config, NoTls};
use leaf_tests::{Block, Draw, Ledger, Mode, Server, Signal, Stop, signal, wait_until};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Sessions that draw until they are told to stop, and take it as it comes when
/// the server goes away under them.
fn draw_until(config: &Config, session: usize, done: &AtomicBool, ledger: &Mutex<Ledger>) {
    while !done.load(Ordering::Relaxed) {
        let Ok(mut client) = config.connect(NoTls) else {
            thread::yield_now();
            continue;
        };
        for call in session.. {
            let ids = match call % 4 {
                0 => client.next("orders").map(|id| vec![id]),
                1 => client.batch("orders", 700),
                2 => client.rows("orders", 2_500),
                _ => client
                    .reserve("orders", 50)
                    .map(|block: Block| block.ids().collect()),
            };
            match ids {
                Ok(ids) => ledger.lock().expect("no panic").add(ids),
                Err(error) => {
                    // A lost connection, or the server's farewell; never an error of leaf.
                    let code = error.code().map_or("", |code| code.code()).to_owned();
                    assert!(
                        code.is_empty() || code.starts_with("57P"),
                        "a caller failed: {error:?}"
                    );
                    break;
                }
            }
            if done.load(Ordering::Relaxed) {
                break;
            }
        }
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
    let ledger = Mutex::new(Ledger::new());
    for _ in 0..rounds {
        let done = AtomicBool::new(false);
        let before = ledger.lock().expect("no panic").len();
        let config = server.config("postgres", "postgres");
        thread::scope(|scope| {
            let _stop = Stop(&done);
            for session in 0..4 {
                let (config, done, ledger) = (&config, &done, &ledger);
                scope.spawn(move || draw_until(config, session, done, ledger));
            }
            let drawn = |ids: usize| ledger.lock().expect("no panic").len() >= ids;
            wait_until("the sessions draw", || drawn(before + 5_000));
            break_it(&mut server);
            server.wait_ready();
            let after = ledger.lock().expect("no panic").len();
            wait_until("the sessions draw again", || drawn(after + 5_000));
        });
    }
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
fn few_slots_and_crashes_never_repeat_an_id() {
    survive(&[("leaf.max_tags", "16")], 4, |server| {
        server
            .connect()
            .run("SELECT leaf_tag_create(format('t%s-%s', pg_postmaster_start_time(), n)) FROM generate_series(1, 40) n;
                  SELECT leaf_segment_next(biz_tag::text) FROM leaf.alloc");
        server.restart(Mode::Immediate);
    });
}
