//! The server that is measured.

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Options, Server};

use crate::runs::Runs;

/// The server's settings that differ from PostgreSQL's defaults, in addition to
/// `shared_preload_libraries`: values that a careful administrator would use on such a
/// machine, and that keep plans the same from run to run.
pub const SETTINGS: [(&str, &str); 7] = [
    ("fsync", "on"),
    ("synchronous_commit", "on"),
    ("shared_buffers", "256MB"),
    ("max_wal_size", "4GB"),
    ("checkpoint_timeout", "30min"),
    ("jit", "off"),
    ("max_parallel_workers_per_gather", "0"),
];

/// The tag that the workloads draw from.
pub const TAG: &str = "t";

/// The same, of which sessions take 1,000 ids at once.
pub const CACHED: &str = "t_cached";

/// A server with these settings.
pub fn options() -> Options {
    SETTINGS
        .iter()
        .fold(Server::options(), |options, (name, value)| {
            options.set(name, value)
        })
}

/// The server, and how much is measured.
pub struct Bench {
    pub server: Server,
    pub runs: Runs,
}

impl Bench {
    /// Starts the server and creates tags and sequences. When this returns, all have
    /// been used, and the steps of the tags have stopped growing.
    pub fn start(runs: Runs) -> Self {
        let bench = Bench {
            server: options().start(),
            runs,
        };
        let mut client = bench.server.connect();
        client.run(&format!("SELECT leaf_tag_create('{TAG}')"));
        client.run("CREATE SEQUENCE s");
        client.run("CREATE SEQUENCE s_cached CACHE 1000");
        client.run(&format!(
            "SELECT leaf_tag_create('{CACHED}', cache => 1000)"
        ));
        for tag in [TAG, CACHED] {
            client.run(&format!(
                "SELECT count(leaf_segment_next('{tag}')) FROM generate_series(1, 5000000)"
            ));
        }
        bench
    }

    /// How often callers of the tag have waited for a segment so far.
    pub fn waits(&self) -> i64 {
        self.server.connect().stat(TAG, "waits")
    }

    /// Runs `work` in several sessions at once. Returns how long the slowest one took,
    /// from the moment when all were connected.
    pub fn in_sessions(&self, sessions: usize, work: impl Fn(&mut Client) + Sync) -> Duration {
        let connected = Barrier::new(sessions + 1);
        thread::scope(|scope| {
            let threads: Vec<_> = (0..sessions)
                .map(|_| {
                    scope.spawn(|| {
                        let mut client = self.server.connect();
                        connected.wait();
                        work(&mut client);
                    })
                })
                .collect();
            connected.wait();
            let start = Instant::now();
            for thread in threads {
                thread.join().expect("a session that failed said why");
            }
            start.elapsed()
        })
    }
}
