//! The rules and the configuration as `promtool` sees them.

use leaf_tests::page::root;
use std::process::Command;

fn promtool(arguments: &[&str], file: &str) {
    let output = Command::new("promtool")
        .args(arguments)
        .arg(root().join(file))
        .output()
        .expect("promtool; `make setup` installs it");
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{file}: {said}");
}

#[test]
fn rules_and_configuration_are_valid() {
    promtool(
        &["check", "rules", "--lint-fatal"],
        "monitoring/alerts.yaml",
    );
    promtool(&["check", "config"], "monitoring/prometheus.yaml");
}

#[test]
fn rules_fire_for_the_series_they_are_about_and_for_no_others() {
    promtool(
        &["test", "rules"],
        "tests/tests/monitoring/alerts_test.yaml",
    );
}
