//! Exporters read the views as a member of `pg_monitor`.

use crate::{WATCHER, create_watcher};
use leaf_tests::page::root;
use leaf_tests::{Draw, Exporter, Prometheus, Server, attach, draw_many, wait_until};
use std::collections::BTreeMap;
use std::fs;

#[test]
fn exporter_scrapes_counters_as_a_member_of_pg_monitor() {
    let (server, mut admin) = Server::with_orders(100);
    create_watcher(&server);
    admin.run("SELECT leaf_snowflake_next()");
    draw_many(&mut admin, "orders", 1_234);
    let exporter = Exporter::of_postgres(&server, WATCHER);
    let mut scraped = String::new();
    wait_until("the exporter answers", || {
        scraped = exporter.scrape();
        scraped.contains("leaf_segment_ids_drawn")
    });
    let sessions = format!("SELECT count(*) FROM pg_stat_activity WHERE usename = '{WATCHER}'");
    assert!(admin.number(&sessions) > 0, "it is the watcher who scrapes");
    let value = |name: &str| -> f64 {
        let line = scraped.lines().find(|line| line.starts_with(name));
        let line = line.unwrap_or_else(|| panic!("no {name} in {scraped}"));
        let value = line.rsplit(' ').next().expect("a value");
        value.parse().expect("a number")
    };
    assert_eq!(value("leaf_segment_ids_drawn{"), 1_234.0);
    assert!(value("leaf_segment_ids_left{") > 9.2e18);
    assert_eq!(value("leaf_segment_timeouts{"), 0.0);
    assert_eq!(value("leaf_upstream_feeds{"), 0.0);
    assert_eq!(value("leaf_registry_leases{"), 1.0);
    assert!(value("leaf_snowflake_runs_out_timestamp{") > 3.0e9);
    for declared in declared() {
        assert!(
            scraped.contains(&declared),
            "{declared} is missing in {scraped}"
        );
    }
    assert!(
        !scraped.contains("pg_exporter_last_scrape_error 1"),
        "{scraped}"
    );
}

/// The lines about the types of all metrics of the file.
fn declared() -> Vec<String> {
    let file = root().join("monitoring/postgres_exporter.yaml");
    let file = fs::read_to_string(file).expect("the file");
    let mut view = "";
    let mut declared = Vec::new();
    for line in file.lines() {
        if let Some(name) = line.strip_suffix(':').filter(|name| !name.starts_with(' ')) {
            view = name;
        }
        let metric = line.trim().strip_prefix("- ");
        let Some((metric, rest)) = metric.and_then(|it| it.split_once(": {usage: ")) else {
            continue;
        };
        match rest.split(',').next() {
            Some("COUNTER") => declared.push(format!("# TYPE {view}_{metric} counter")),
            Some("GAUGE") => declared.push(format!("# TYPE {view}_{metric} gauge")),
            _ => {}
        }
    }
    assert!(declared.len() > 30, "{declared:?}");
    declared
}

#[test]
fn one_exporter_watches_all_databases_of_a_server() {
    let server = Server::start();
    create_watcher(&server);
    let mut admin = server.connect();
    // One without leaf is left out.
    for database in ["shop", "users", "other"] {
        admin.run(&format!("CREATE DATABASE {database}"));
    }
    for database in ["shop", "users"] {
        server.connect_as("postgres", database).run(&format!(
            "CREATE EXTENSION leaf; SELECT leaf_tag_create('orders');
             GRANT SELECT (leased_until, clock_offset_ms, upstream_ceiling) ON leaf.worker TO {WATCHER};
             SELECT leaf_segment_next('orders')"
        ));
    }
    let arguments = [
        "--auto-discover-databases",
        "--include-databases=shop,users,postgres",
    ];
    let exporter = Exporter::with(&server, WATCHER, &arguments);
    let scraped = exporter.scrape();
    for database in ["shop", "users"] {
        let drawn = format!("leaf_segment_ids_drawn{{biz_tag=\"orders\",datname=\"{database}\"");
        assert!(scraped.contains(&drawn), "{drawn} is missing in {scraped}");
    }
    assert!(
        scraped.contains("pg_exporter_last_scrape_error 0"),
        "{scraped}"
    );
}

/// What the metrics of one exporter are called in Prometheus, with the names of their labels,
/// and the values of those that do not change by themselves.
fn series_of(prometheus: &Prometheus, exporter: &Exporter) -> BTreeMap<String, Option<f64>> {
    let all = format!(
        "{{__name__=~\"leaf_.+\", instance=\"{}\"}}",
        exporter.address()
    );
    let series = prometheus.query_until(&all, |series| series.len() > 30);
    let named = series.into_iter().map(|sample| {
        let label = |name: &str| sample.labels[name].as_str().unwrap_or_default().to_owned();
        let name = format!(
            "{}{{datname={},biz_tag={}}}",
            label("__name__"),
            label("datname"),
            label("biz_tag")
        );
        let moves = ["timestamp", "second", "lead", "time_left", "used"];
        let stays = !moves.iter().any(|part| name.contains(part));
        (
            name,
            stays.then_some(sample.value).filter(|it| !it.is_nan()),
        )
    });
    named.collect()
}

#[test]
fn both_exporters_give_the_same_names_labels_and_values() {
    let centre = leaf_tests::Centre::start();
    centre.create("fed", "");
    let server = centre.shard();
    create_watcher(&server);
    attach(&server, "fed", 1000);
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('idle')");
    client.run("SELECT leaf_tag_create('orders'); SELECT leaf_snowflake_next()");
    draw_many(&mut client, "orders", 700);
    draw_many(&mut client, "fed", 700);
    wait_until("the next segments are there", || {
        let waiting =
            "SELECT count(*) FROM leaf.stat_segment WHERE NOT next_ready AND biz_tag <> 'idle'";
        client.number(waiting) == 0
    });
    let (of_postgres, of_sql) = (
        Exporter::of_postgres(&server, WATCHER),
        Exporter::of_sql(&server, WATCHER),
    );
    let prometheus = Prometheus::start(&[&of_postgres, &of_sql]);
    // sql_exporter does not export the clock; its values are those of an earlier moment.
    let mut expected = series_of(&prometheus, &of_postgres);
    expected.retain(|name, _| !name.contains("clock_timestamp"));
    let mut seen = BTreeMap::new();
    wait_until("sql_exporter has queried", || {
        seen = series_of(&prometheus, &of_sql);
        seen.len() >= expected.len()
    });
    assert_eq!(seen, expected);
}
