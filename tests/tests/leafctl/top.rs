//! `top` in a real terminal.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use leaf_tests::{
    Draw, Mode, Said, Server, Signal, Terminal, leafctl_in_terminal, leafctl_on, signal, wait_until,
};

/// `top` on a server, in a terminal of this size.
fn top(server: &Server, arguments: &str, width: u16, height: u16) -> Terminal {
    leafctl_in_terminal(server, &format!("top -n 0.1 {arguments}"), width, height)
}

/// The line that begins with a text.
fn line<'a>(screen: &'a str, beginning: &str) -> Option<&'a str> {
    screen.lines().find(|line| line.starts_with(beginning))
}

#[test]
fn top_follows_the_server_obeys_keys_and_leaves_the_terminal_as_it_was() {
    let (server, mut client) = Server::with_orders(1_000);
    client.run("SELECT leaf_tag_create('items'); SELECT leaf_snowflake_next()");
    let terminal = top(&server, "", 100, 12);
    terminal.wait_for("orders");
    let is_over = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                client.batch("orders", 1_000).expect("ids");
            }
        });
        wait_until("rate, bar, worker id and loader are shown", || {
            let screen = terminal.screen();
            let row = line(&screen, "orders").unwrap_or_default();
            let is_fast = |rate: &str| rate.ends_with(['k', 'M']);
            row.split_whitespace().nth(1).is_some_and(is_fast)
                && ["worker 0", "loader", "█"]
                    .iter()
                    .all(|word| screen.contains(word))
        });
        is_over.store(true, Ordering::Relaxed);
    });

    // Sorted by name, and filtered.
    terminal.keys(&["n"]);
    wait_until("items come first", || {
        let screen = terminal.screen();
        screen.find("items") < screen.find("orders")
    });
    terminal.keys(&["/", "o", "r", "d", "Enter"]);
    wait_until("items are left out", || {
        !terminal.screen().contains("items")
    });
    terminal.keys(&["Enter"]);
    terminal.wait_for("granted up to");
    terminal.keys(&["x", "Escape"]);
    terminal.wait_for("items");

    // Every size.
    for (width, height) in [(60, 8), (20, 4), (5, 2), (180, 40)] {
        terminal.resize(width, height);
        let begins = |screen: &str| {
            screen
                .lines()
                .next()
                .is_some_and(|line| line.starts_with("leaf"))
        };
        wait_until("the screen is drawn again", || begins(&terminal.screen()));
    }
    terminal.resize(100, 12);
    terminal.keys(&["q"]);
    let screen = terminal.wait_for("exit 0");
    assert!(
        !screen.contains("orders"),
        "the screen is as it was: {screen}"
    );
}

#[test]
fn top_shows_several_databases_and_an_outage_of_one() {
    let (one, mut client) = Server::with_orders(100);
    client.run("CREATE DATABASE bare");
    client.run("CREATE DATABASE second");
    let mut second = one.connect_as("postgres", "second");
    second.run("CREATE EXTENSION leaf; SELECT leaf_tag_create('seconds')");
    drop(second);
    let (mut two, _) = Server::with_orders(100);
    let all = top(&one, "-A", 120, 14);
    all.wait_for("seconds");
    let screen = all.wait_for("orders");
    assert!(!screen.contains("bare on"), "{screen}");

    let (a, b) = (one.connection_string(), two.connection_string());
    let both = top(&one, &format!("-d '{a}' -d '{b}'"), 160, 14);
    wait_until("both have their rows", || {
        both.screen()
            .lines()
            .filter(|line| line.starts_with("orders"))
            .count()
            == 2
    });
    two.stop(Mode::Immediate);
    both.wait_for("connection failed");
    two.start_again();
    wait_until("it is back", || {
        !both.screen().contains("connection failed")
    });
    both.keys(&["C-c"]);
    both.wait_for("exit 0");
}

#[test]
fn top_watches_the_others_while_one_server_cannot_be_reached_or_does_not_answer() {
    let (one, _client) = Server::with_orders(100);
    let (mut two, _client) = Server::with_orders(100);
    let (a, b) = (one.connection_string(), two.connection_string());
    two.stop(Mode::Immediate);
    let both = top(&one, &format!("-d '{b}' -d '{a}'"), 160, 14);
    both.wait_for("orders");
    both.wait_for("connection failed");
    two.start_again();
    let rows = || {
        let screen = both.screen();
        screen
            .lines()
            .filter(|line| line.starts_with("orders"))
            .count()
    };
    wait_until("both have their rows", || rows() == 2);
    let paused = two.pause();
    both.wait_for("no answer for");
    drop(paused);
    wait_until("it answers", || !both.screen().contains("no answer for"));
    both.keys(&["q"]);
    both.wait_for("exit 0");

    two.stop(Mode::Immediate);
    let none = top(&one, &format!("-d '{b}' -d '{b}'"), 160, 14);
    none.wait_for("exit 3");
}

#[test]
fn top_ends_orderly_when_it_is_told_to() {
    let (server, _client) = Server::with_orders(100);
    let terminal = top(&server, "", 80, 10);
    terminal.wait_for("orders");
    let children = format!("/proc/{0}/task/{0}/children", terminal.pid());
    let children = std::fs::read_to_string(children).expect("the shell's children");
    let pid = children
        .split_whitespace()
        .next()
        .expect("a child")
        .parse()
        .expect("a process");
    signal(pid, Signal::SIGTERM);
    terminal.wait_for("exit 0");
    let piped = Said::by(leafctl_on(&server).arg("top")).failed(2);
    assert!(piped.contains("leafctl status"), "{piped}");
}
