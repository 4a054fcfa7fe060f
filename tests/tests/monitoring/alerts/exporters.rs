//! Alerts about the monitoring itself.

use crate::{WATCHER, create_watcher, watch};
use leaf_tests::{Draw, Exporter, Mode, Prometheus, Server};

#[test]
fn exporter_that_is_stopped_fires_exporter_down_and_metrics_missing() {
    let server = Server::start();
    let (mut exporter, prometheus) = watch(&server);
    prometheus.query_until("leaf_snowflake_used_percent", |series| series.len() == 1);
    exporter.stop();
    let alerts = ["LeafExporterDown", "LeafMetricsMissing"];
    for alert in alerts {
        prometheus.fires(alert, || {});
    }
    exporter.start_again();
    for alert in alerts {
        prometheus.resolves(alert, || {});
    }
}

#[test]
fn server_that_is_down_fires_queries_failing_and_metrics_missing() {
    let mut server = Server::start();
    create_watcher(&server);
    let exporter = Exporter::of_postgres(&server, WATCHER);
    // The exporter takes a second to give up the connection.
    let prometheus = Prometheus::every("2s", &[&exporter]);
    prometheus.query_until("leaf_snowflake_used_percent", |series| series.len() == 1);
    server.stop(Mode::Fast);
    let alerts = ["LeafQueriesFailing", "LeafMetricsMissing"];
    for alert in alerts {
        prometheus.fires(alert, || {});
    }
    assert!(!prometheus.firing().contains("LeafExporterDown"));
    server.start_again();
    for alert in alerts {
        prometheus.resolves(alert, || {});
    }
}

#[test]
fn role_that_may_not_read_the_registry_fires_queries_failing_with_either_exporter() {
    let server = Server::start();
    create_watcher(&server);
    let mut admin = server.connect();
    let (revoke, grant) = (
        format!("REVOKE SELECT (leased_until) ON leaf.worker FROM {WATCHER}"),
        format!("GRANT SELECT (leased_until) ON leaf.worker TO {WATCHER}"),
    );
    for exporter in [Exporter::of_postgres, Exporter::of_sql] {
        let exporter = exporter(&server, WATCHER);
        let prometheus = Prometheus::start(&[&exporter]);
        prometheus.query_until("leaf_registry_leases", |series| series.len() == 1);
        admin.run(&revoke);
        prometheus.fires("LeafQueriesFailing", || {});
        admin.run(&grant);
        prometheus.resolves("LeafQueriesFailing", || {});
    }
}

#[test]
fn sql_exporter_keeps_old_values_of_a_server_that_is_down_and_fires_queries_failing() {
    let mut server = Server::start();
    create_watcher(&server);
    let exporter = Exporter::of_sql(&server, WATCHER);
    let prometheus = Prometheus::start(&[&exporter]);
    prometheus.query_until("leaf_snowflake_used_percent", |series| series.len() == 1);
    server.stop(Mode::Fast);
    prometheus.fires("LeafQueriesFailing", || {});
    let old = prometheus.query("leaf_snowflake_used_percent");
    assert_eq!(old.expect("series").len(), 1);
    server.start_again();
    prometheus.resolves("LeafQueriesFailing", || {});
}
