//! The client library's snowflake generator in a process whose clock is moved,
//! over restarts from its cache: no id twice, ascending while it lives.

use leaf_tests::{Clock, Ledger, Server, Service, Snowflake, wait_until};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A server with the right clock, and a service with another one.
struct Scene {
    server: Server,
    folder: TempDir,
    clock: Clock,
    ledger: Ledger,
}

impl Scene {
    fn new() -> Scene {
        let folder = tempfile::tempdir().expect("a folder");
        Scene {
            server: Server::start(),
            clock: Clock::new(folder.path()),
            ledger: Ledger::new(),
            folder,
        }
    }

    fn start(&self) -> Service {
        let mut command = Command::new(env!("CARGO_BIN_EXE_drawer"));
        command
            .arg(self.server.connection_string())
            .arg(self.folder.path().join("worker.json"));
        self.clock.drive(&mut command);
        Service::start(&mut command)
    }

    /// The service has written its cache since.
    fn draws(&self) {
        let file = self.folder.path().join("worker.json");
        let read = || std::fs::read_to_string(&file).unwrap_or_default();
        let before = read();
        wait_until("the service goes on", || read() != before);
    }

    fn end(&mut self, service: Service) {
        for ids in service.end() {
            assert!(ids.is_sorted_by(|a, b| a < b), "not ascending");
            self.ledger.add(ids);
        }
    }
}

#[test]
fn stepped_clock_repeats_no_id() {
    let mut scene = Scene::new();
    let service = scene.start();
    scene.draws();
    for by in [2, 50, 2_000] {
        scene.clock.behind(Duration::from_millis(by));
        // Up to the time of the last id it is refused; then it goes on.
        scene.draws();
        scene.clock.right();
        scene.draws();
    }
    scene.clock.ahead(Duration::from_secs(4));
    scene.draws();
    scene.end(service);
    assert!(scene.ledger.len() > 1_000);
    let mut client = scene.server.connect();
    scene.ledger.add(client.snowflakes(10_000).expect("ids"));
}

#[test]
fn clock_set_back_over_restarts_repeats_no_id() {
    let mut scene = Scene::new();
    for back in [0, 20, 1_000, 3_000, 0] {
        scene.clock.behind(Duration::from_millis(back));
        let service = scene.start();
        scene.draws();
        scene.end(service);
    }
    let mut client = scene.server.connect();
    scene.ledger.add(client.snowflakes(10_000).expect("ids"));
}
