//! The dashboard's queries against a server that has all it shows.

use crate::watch;
use leaf_tests::page::root;
use leaf_tests::postgres::{Client, Error};
use leaf_tests::{Centre, Draw, Load, Prometheus, Snowflake, attach};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;

fn dashboard() -> Value {
    let text = fs::read_to_string(root().join("monitoring/grafana.json")).expect("the file");
    serde_json::from_str(&text).expect("JSON")
}

fn list<'a>(value: &'a Value, name: &str) -> &'a Vec<Value> {
    let list = value[name].as_array();
    list.unwrap_or_else(|| panic!("no list {name} in {value}"))
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    let text = value[name].as_str();
    text.unwrap_or_else(|| panic!("no text {name} in {value}"))
}

/// An expression with what Grafana would put in the place of its variables.
fn filled(expression: &str) -> String {
    let replaced = [
        ("$__rate_interval", "10s"),
        ("$instance", "127.0.0.1:.+"),
        ("$datname", "postgres"),
        ("$tag", ".*"),
    ];
    let filled = replaced
        .iter()
        .fold(expression.to_owned(), |text, (name, value)| {
            text.replace(name, value)
        });
    assert!(!filled.contains('$'), "an unknown variable in {filled}");
    filled
}

fn draw(client: &mut Client, call: usize) -> Result<Vec<i64>, Error> {
    match call % 3 {
        0 => Ok(vec![client.next("orders")?]),
        1 => client.next("fed").map(|_| Vec::new()),
        _ => client.snowflake().map(|_| Vec::new()),
    }
}

/// Waits until a query has a value that can be shown. The time since the last error has none,
/// as there was no error, but its series must be there.
fn shows_something(prometheus: &Prometheus, expression: &str) {
    let needs_none = expression.contains("last_error");
    prometheus.query_until(&filled(expression), |series| {
        series
            .iter()
            .any(|sample| needs_none || sample.value.is_finite())
    });
}

#[test]
fn every_panel_and_variable_shows_something() {
    let dashboard = dashboard();
    let centre = Centre::start();
    centre.create("fed", "");
    let shard = centre.shard();
    shard
        .connect()
        .run("SELECT leaf_tag_create('orders', max_value => 1000000000)");
    attach(&shard, "fed", 1000);
    let (_exporter, prometheus) = watch(&shard);
    let config = shard.config("postgres", "postgres");
    Load::run(&config, 1, "55P03", draw, |_| {
        let mut queries = 0;
        for panel in list(&dashboard, "panels") {
            if panel["type"] == "row" {
                continue;
            }
            for target in list(panel, "targets") {
                shows_something(&prometheus, text(target, "expr"));
                queries += 1;
            }
        }
        assert!(queries > 30, "{queries}");
        for variable in list(&dashboard["templating"], "list") {
            let Some(query) = variable["query"]["query"].as_str() else {
                continue;
            };
            let inside = query.strip_prefix("label_values(").expect("label_values");
            let inside = inside.strip_suffix(')').expect("its end");
            let (series, label) = inside.rsplit_once(", ").expect("a label");
            let found = prometheus.query_until(&filled(series), |series| !series.is_empty());
            assert!(found.iter().all(|it| it.labels[label].is_string()));
        }
        for annotation in list(&dashboard["annotations"], "list") {
            let expression = filled(text(annotation, "expr"));
            prometheus.query(&expression).expect(&expression);
        }
    });
}

#[test]
fn panels_have_a_place_and_a_data_source_of_their_own() {
    let dashboard = dashboard();
    let (mut ids, mut cells) = (BTreeSet::new(), BTreeSet::new());
    for panel in list(&dashboard, "panels") {
        assert!(ids.insert(panel["id"].as_i64()), "{panel}");
        let at = |name: &str| panel["gridPos"][name].as_u64().expect("a number");
        assert!(at("x") + at("w") <= 24, "{panel}");
        for x in at("x")..at("x") + at("w") {
            for y in at("y")..at("y") + at("h") {
                assert!(cells.insert((x, y)), "two panels at {x}, {y}: {panel}");
            }
        }
        if panel["type"] != "row" {
            assert_eq!(panel["datasource"]["uid"], "${datasource}");
        }
    }
    assert!(dashboard["schemaVersion"].as_i64() >= Some(38));
}
