//! Watching a fleet: what `monitoring/` has for Prometheus and Grafana. Debian's exporters and
//! Prometheus run against real servers: each alert fires when what it is about breaks, and each
//! panel of the dashboard shows something.

mod alerts;
mod dashboard;
mod exporters;
mod healthy;
mod rules;

use leaf_tests::{Draw, Exporter, Prometheus, Server};

/// The role of the exporters, with the rights that `monitoring/README.md` gives it.
const WATCHER: &str = "leaf_monitor";

/// Creates the role.
fn create_watcher(server: &Server) {
    server.connect().run(&format!(
        "CREATE ROLE {WATCHER} LOGIN IN ROLE pg_monitor;
         GRANT SELECT (leased_until, clock_offset_ms, upstream_ceiling) ON leaf.worker TO {WATCHER}"
    ));
}

/// Starts an exporter for a server, and Prometheus.
fn watch(server: &Server) -> (Exporter, Prometheus) {
    create_watcher(server);
    let exporter = Exporter::of_postgres(server, WATCHER);
    let prometheus = Prometheus::start(&[&exporter]);
    (exporter, prometheus)
}
