//! Watching a fleet: what `monitoring/` has for Prometheus and Grafana. Debian's exporters and
//! Prometheus run against real servers: each alert fires when what it is about breaks, and each
//! panel of the dashboard shows something, and the runbook has what the alerts point to;
//! Alertmanager keeps back what is needless.

mod alertmanager;
mod alerts;
mod dashboard;
mod exporters;
mod healthy;
mod rules;
mod runbook;

use leaf_tests::page::Page;
use leaf_tests::{Draw, Exporter, Prometheus, Server};

/// The role of the exporters.
const WATCHER: &str = "leaf_monitor";

/// Creates the role, as the manual says.
fn create_watcher(server: &Server) {
    let page = Page::read("docs/operations/monitoring.md");
    let mut blocks = page.blocks.iter();
    let block = blocks.find(|block| block.code.contains("CREATE ROLE"));
    server.connect().run(&block.expect("a block").code);
}

/// Starts an exporter for a server, and Prometheus.
fn watch(server: &Server) -> (Exporter, Prometheus) {
    create_watcher(server);
    let exporter = Exporter::of_postgres(server, WATCHER);
    let prometheus = Prometheus::start(&[&exporter]);
    (exporter, prometheus)
}
