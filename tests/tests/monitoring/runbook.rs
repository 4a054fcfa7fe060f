//! The runbook has what the alerts point to. Its SQL is run with that of the manual.

use leaf_tests::page::root;
use std::collections::BTreeSet;
use std::fs;

const PAGE: &str = "docs/operations/runbooks.md";

/// Where those who get an alert find the page.
const MAIN: &str = "https://github.com/leaf-pg/leaf/blob/main";

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).expect(name)
}

/// What follows `start` in the lines that begin with it.
fn after(text: &str, start: &str) -> Vec<String> {
    let lines = text
        .lines()
        .filter_map(|line| line.trim_start().strip_prefix(start));
    lines.map(|rest| rest.trim().to_owned()).collect()
}

#[test]
fn each_alert_has_a_runbook_and_each_runbook_an_alert() {
    let (rules, page) = (read("monitoring/alerts.yaml"), read(PAGE));
    let alerts = after(&rules, "- alert: ");
    assert!(alerts.len() >= 15, "{alerts:?}");
    let urls = after(&rules, "runbook_url: ");
    let expected: Vec<_> = alerts
        .iter()
        .map(|alert| format!("{MAIN}/{PAGE}#{}", alert.to_lowercase()))
        .collect();
    assert_eq!(urls, expected, "in the order of the alerts");
    assert_eq!(
        after(&page, "## "),
        alerts,
        "the headings, in the same order"
    );
    for part in page.split("\n## ").skip(1) {
        let name = part.lines().next().unwrap_or_default();
        for said in ["**Meaning.**", "**Look.**", "**Do.**", "**Silence**"] {
            assert!(part.contains(said), "{name} does not say {said}");
        }
    }
}

#[test]
fn table_of_alerts_has_each_with_its_severity() {
    let (rules, page) = (read("monitoring/alerts.yaml"), read(PAGE));
    let severities = after(&rules, "labels: {severity: ");
    let expected: BTreeSet<_> = after(&rules, "- alert: ")
        .iter()
        .zip(severities)
        .map(|(alert, severity)| {
            let severity = severity.trim_end_matches('}');
            format!("[{alert}](#{}) | {severity} |", alert.to_lowercase())
        })
        .collect();
    let rows = after(&page, "| [Leaf");
    assert_eq!(rows.len(), expected.len());
    for row in expected {
        assert!(page.contains(&row), "no row {row}");
    }
}
