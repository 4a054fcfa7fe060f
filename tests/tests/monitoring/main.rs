//! Watching a fleet: what `monitoring/` has for Prometheus and Grafana. Debian's exporters and
//! Prometheus run against real servers.

mod exporters;
mod rules;

use leaf_tests::{Draw, Server};

/// The role of the exporters, with the rights that `monitoring/README.md` gives it.
const WATCHER: &str = "leaf_monitor";

/// Creates the role.
fn create_watcher(server: &Server) {
    server.connect().run(&format!(
        "CREATE ROLE {WATCHER} LOGIN IN ROLE pg_monitor;
         GRANT SELECT (leased_until, clock_offset_ms, upstream_ceiling) ON leaf.worker TO {WATCHER}"
    ));
}
