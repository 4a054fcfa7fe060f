//! Patroni's configuration: that of the manual, changed for tests.

use std::fmt::Write;
use std::path::Path;

/// Seconds until a leader that is lost is replaced. A node needs more than one second
/// for a round of its own on a busy machine.
const TTL: u32 = 7;
const LOOP_WAIT: u32 = 1;
const RETRY_TIMEOUT: u32 = 3;

/// The settings of small servers on a busy machine.
const SMALL: [(&str, &str); 6] = [
    ("shared_buffers", "16MB"),
    ("max_wal_size", "256MB"),
    ("wal_retrieve_retry_interval", "500ms"),
    ("unix_socket_directories", "''"),
    ("log_line_prefix", "'%m [%p] %b '"),
    ("timezone", "UTC"),
];

/// The file of `examples/patroni` with short times, without passwords, without the
/// fail-safe mode (a test turns it on) and with these settings of the servers.
pub fn of_tests(settings: &[(String, String)]) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/patroni/patroni.yml");
    let example = std::fs::read_to_string(path).expect("the example");
    let mut text = String::new();
    for line in example.lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let changed = match line.trim().split_once(": ") {
            Some(("ttl", _)) => format!("ttl: {TTL}"),
            Some(("loop_wait", _)) => format!("loop_wait: {LOOP_WAIT}"),
            Some(("retry_timeout", _)) => format!("retry_timeout: {RETRY_TIMEOUT}"),
            Some(("failsafe_mode", _)) => "failsafe_mode: false".to_owned(),
            _ => line.trim().replace("scram-sha-256", "trust"),
        };
        writeln!(text, "{indent}{changed}").expect("a string");
        if changed.starts_with("shared_preload_libraries") {
            let small = SMALL.map(|(name, value)| (name.to_owned(), value.to_owned()));
            for (name, value) in small.iter().chain(settings) {
                writeln!(text, "{indent}{name}: {value}").expect("a string");
            }
        }
    }
    text
}
