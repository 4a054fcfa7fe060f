//! The client library `leaf-sdk` against real servers: its calls, its buffered
//! sources of both kinds of ids, outages, TLS, its events and its examples.
//!
//! What it does without a server is tested in `sdk/tests`.

mod cache;
mod calls;
mod clock;
mod connections;
mod errors;
mod events;
mod everyday;
mod examples;
mod hosts;
mod masks;
mod panics;
mod processes;
mod registries;
mod segments;
mod services;
mod snowflake;
mod tls;

use leaf_sdk::Config;
use leaf_tests::Server;
use std::time::Duration;

/// How long a caller waits for ids: longer than any healthy machine needs.
const PATIENCE: Duration = Duration::from_secs(60);

/// The same for outages, in which callers are to be told soon.
const HASTE: Duration = Duration::from_millis(500);

/// A configuration that tries again soon, and notices within a second that the
/// server does not answer.
fn config(server: &Server, timeout: Duration) -> Config {
    Config::new(&server.connection_string())
        .expect("a connection string")
        .timeout(timeout)
        .retry_between(Duration::from_millis(10), Duration::from_millis(100))
        .query_timeout(Duration::from_secs(5))
}
