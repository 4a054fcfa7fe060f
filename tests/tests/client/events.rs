//! What the client library tells `tracing`.
//!
//! The events of a process end up in one place, so that those of other tests are
//! there, too. Each handle has a thread of its own, which tells them apart.

use leaf_sdk::{Config, IdSource, Leaf, SnowflakeConfig};
use leaf_tests::{Draw, Mode, Server, wait_until};
use std::io;
use std::sync::{Mutex, Once};
use std::time::Duration;
use tracing_subscriber::fmt::MakeWriter;

/// The lines of this process's events.
static EVENTS: Mutex<Vec<u8>> = Mutex::new(Vec::new());

struct Events;

impl io::Write for Events {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        EVENTS.lock().expect("no panic").extend_from_slice(line);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct ToEvents;

impl MakeWriter<'_> for ToEvents {
    type Writer = Events;

    fn make_writer(&self) -> Events {
        Events
    }
}

fn leaf(server: &Server) -> Leaf {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let level = tracing_subscriber::filter::LevelFilter::DEBUG;
        tracing_subscriber::fmt()
            .with_max_level(level)
            .with_ansi(false)
            .with_thread_ids(true)
            .with_writer(ToEvents)
            .init();
    });
    let config = Config::new(&server.connection_string())
        .expect("a connection string")
        .steps(10, 10)
        .timeout(Duration::from_secs(60))
        .retry_between(Duration::from_millis(10), Duration::from_millis(50));
    Leaf::new(config).expect("a handle")
}

/// Waits for an event of the library with all these words; the thread it is of.
fn event(words: &[&str]) -> String {
    let mut thread = None;
    wait_until(&format!("there is an event with {words:?}"), || {
        let events = EVENTS.lock().expect("no panic");
        let events = String::from_utf8_lossy(&events);
        let mut ours = events.lines().filter(|line| line.contains("leaf_sdk: "));
        let event = ours.find(|line| words.iter().all(|word| line.contains(word)));
        let mut words = event.unwrap_or_default().split_whitespace();
        let found = words.find(|word| word.starts_with("ThreadId("));
        thread = found.map(str::to_owned);
        thread.is_some()
    });
    thread.expect("an event has a thread")
}

#[test]
fn refills_retries_and_what_is_handed_back_are_told() {
    let mut server = Server::start();
    server
        .connect()
        .run("SELECT leaf_tag_create('told', step => 10)");
    let leaf = leaf(&server);
    let ids = leaf.segment("told");
    ids.next().expect("an id");
    let thread = event(&["DEBUG", "refilled", "tag=\"told\"", "first=1 last=10"]);
    event(&["DEBUG", &thread, "connected"]);
    server.stop(Mode::Fast);
    wait_until("the buffers are empty", || ids.try_next().is_none());
    event(&["WARN", "refill failed", "tag=\"told\"", "is_retryable=true"]);
    event(&["DEBUG", "refill failed again", "tag=\"told\""]);
    server.start_again();
    ids.next().expect("an id");
    leaf.close().expect("the server answers");
    event(&["DEBUG", "handed back", "tag=\"told\""]);

    let unknown = self::leaf(&server);
    unknown.segment("missing").next().expect_err("unknown");
    event(&[
        "WARN",
        "refill failed",
        "tag=\"missing\"",
        "is_retryable=false",
    ]);
}

#[test]
fn leases_are_told() {
    let server = Server::start();
    let mut client = server.connect();
    let config = SnowflakeConfig::new("teller").lease(Duration::from_secs(1));
    let ids = leaf(&server).snowflake(config).expect("a generator");
    ids.next().expect("an id");
    let thread = event(&["INFO", "registered", "node=\"teller\""]);
    wait_until("the lease is renewed", || {
        ids.next().expect("an id");
        ids.stats().renewals > 1
    });
    event(&["DEBUG", &thread, "lease renewed"]);
    client.run("UPDATE leaf.worker SET token = token + 1");
    let before = ids.worker_id();
    wait_until("there is another lease", || {
        ids.next().expect("an id");
        ids.worker_id() != before
    });
    event(&["WARN", &thread, "lease lost"]);
    ids.close().expect("the server answers");
    event(&["INFO", &thread, "released"]);
}
