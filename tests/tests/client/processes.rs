//! Many processes with the client library, through a pooler, while the server
//! goes down and comes back underneath: no id twice, ascending per source.

use leaf_tests::{Draw, Ledger, Mode, Pooler, Server, Service, wait_until};
use std::process::Command;

const PROCESSES: usize = 8;

fn start(connection: &str) -> Service {
    Service::start(Command::new(env!("CARGO_BIN_EXE_drawer")).arg(connection))
}

/// Services draw while `break_it` does its worst.
fn survive(break_it: impl FnOnce(&mut Server)) {
    let mut server = Server::start();
    server
        .connect()
        .run("SELECT leaf_tag_create('orders', step => 100)");
    let pooler = Pooler::start(&server, 4);
    let services: Vec<Service> = (0..PROCESSES)
        .map(|_| start(&pooler.connection_string()))
        .collect();
    goes_on(&server);
    break_it(&mut server);
    goes_on(&server);
    let mut ledger = Ledger::new();
    for ids in services.into_iter().flat_map(Service::end) {
        assert!(ids.is_sorted_by(|a, b| a < b), "not ascending");
        assert!(!ids.is_empty(), "a thread drew nothing");
        ledger.add(ids);
    }
    ledger.add(server.connect().batch("orders", 1_000).expect("a batch"));
}

/// Services fetch blocks.
fn goes_on(server: &Server) {
    let mut client = server.connect();
    let query = "SELECT max_id FROM leaf.alloc";
    let before = client.number(query);
    wait_until("many blocks were fetched", || {
        client.number(query) > before + 20_000
    });
}

#[test]
fn restarted_server_repeats_no_id() {
    survive(|server| server.restart(Mode::Fast));
}

#[test]
fn crashed_server_repeats_no_id() {
    survive(|server| {
        server.kill_postmaster();
        server.start_again();
    });
}

#[test]
fn paused_server_repeats_no_id() {
    survive(|server| {
        let _paused = server.pause();
        // Longer than the services wait for an answer.
        std::thread::sleep(std::time::Duration::from_secs(6));
    });
}

#[test]
fn terminated_connections_repeat_no_id() {
    survive(|server| {
        let terminated = server.connect().number(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
              WHERE application_name = 'leaf-sdk'",
        );
        assert!(terminated > 0);
    });
}

#[test]
fn parent_and_child_of_a_fork_never_draw_the_same_id() {
    let (server, mut client) = Server::with_orders(100);
    let mut forker = Command::new(env!("CARGO_BIN_EXE_forker"));
    let drawn = Service::start(forker.arg(server.connection_string())).end();
    assert_eq!(drawn.len(), 2, "the parent and the child");
    let mut ledger = Ledger::new();
    for ids in drawn {
        ledger.add(ids);
    }
    ledger.add(client.batch("orders", 1_000).expect("a batch"));
}
