//! The rules and the configurations as `promtool` and `amtool` see them.

use leaf_tests::page::root;
use std::process::Command;

/// Runs a program that checks a file.
fn check(program: &str, arguments: &[&str], file: &str) {
    let output = Command::new(program)
        .args(arguments)
        .arg(root().join(file))
        .output()
        .unwrap_or_else(|error| panic!("{program}: {error}; `make setup` installs it"));
    let said = String::from_utf8_lossy(&output.stderr) + String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{file}: {said}");
}

#[test]
fn rules_and_configurations_are_valid() {
    let rules = "monitoring/alerts.yaml";
    check("promtool", &["check", "rules", "--lint-fatal"], rules);
    let configuration = "monitoring/prometheus.yaml";
    check("promtool", &["check", "config"], configuration);
    check("amtool", &["check-config"], "monitoring/alertmanager.yaml");
}

#[test]
fn rules_fire_for_the_series_they_are_about_and_for_no_others() {
    let tests = "tests/tests/monitoring/alerts_test.yaml";
    check("promtool", &["test", "rules"], tests);
}
