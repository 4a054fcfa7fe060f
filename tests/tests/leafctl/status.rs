//! `status`: what the views show.

use leaf_tests::{Draw, Said, Server, draw_many, leafctl_on, refused};
use serde_json::Value;

#[test]
fn status_shows_tags_worker_and_loader() {
    let (server, mut client) = Server::with_orders(100);
    client.run("SELECT leaf_snowflake_next()");
    draw_many(&mut client, "orders", 1_234);
    let json = Said::by(leafctl_on(&server).args(["status", "-f", "json"])).done();
    let json: Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(json["tags"][0]["tag"], "orders");
    // A string, because many programs round large numbers.
    assert_eq!(json["tags"][0]["position"], "1235");
    assert_eq!(json["tags"][0]["max_value"], i64::MAX.to_string());
    assert_eq!(json["tags"][0]["ids_drawn"], 1_234);
    assert_eq!(json["snowflake"]["worker_id"], 0);
    assert!(json["server"]["loader_pid"].as_i64().is_some(), "{json}");

    let table = Said::by(leafctl_on(&server).arg("status")).done();
    for part in [
        "Database postgres",
        "worker id 0",
        "loader",
        "orders",
        "1235",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert!(
        !table.contains('\x1b'),
        "no colours where there is no terminal"
    );

    let csv = Said::by(leafctl_on(&server).args(["status", "-f", "csv", "orders"])).done();
    let lines: Vec<&str> = csv.lines().collect();
    assert!(lines[0].starts_with("tag,position,"), "{csv}");
    assert!(lines[1].starts_with("orders,1235,"), "{csv}");
}

#[test]
fn role_sees_its_own_tags_and_is_told_so() {
    let (server, mut client) = Server::with_orders(100);
    client.run("CREATE ROLE shop LOGIN; GRANT EXECUTE ON FUNCTION leaf_tag_create TO shop; SET ROLE shop; SELECT leaf_tag_create('items')");
    let status = || {
        let mut command = leafctl_on(&server);
        command.args(["status", "-U", "shop"]);
        command
    };
    client.next("items").expect("an id");
    let own = Said::by(&mut status()).done();
    assert!(
        !own.contains("loader"),
        "whether it runs is not visible: {own}"
    );
    assert!(own.contains("items") && !own.contains("orders"), "{own}");
    let error = Said::by(status().arg("orders")).failed(1);
    assert!(error.contains("pg_monitor"), "{error}");
}

#[test]
fn connection_string_that_was_given_as_a_tag_is_not_printed() {
    let server = Server::start();
    for text in ["postgresql://u:secret@h/db", "host=h password=secret"] {
        let error = Said::by(leafctl_on(&server).args(["status", text])).failed(2);
        assert!(error.contains("hint: put -d before it"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn csv_without_tags_has_the_names_of_the_columns() {
    let server = Server::start();
    let csv = || Said::by(leafctl_on(&server).args(["status", "-f", "csv"])).done();
    let without = csv();
    assert!(without.starts_with("tag,position,"), "{without}");
    server.connect().run("SELECT leaf_tag_create('orders')");
    let with = csv();
    assert_eq!(with.lines().next(), without.lines().next());
    assert_eq!((without.lines().count(), with.lines().count()), (1, 2));
}

#[test]
fn database_without_leaf_and_standby_are_told_apart() {
    let primary = Server::start();
    primary.connect().run("CREATE DATABASE bare");
    let error = Said::by(leafctl_on(&primary).args(["status", "-d", "bare"])).failed(1);
    assert!(error.contains("CREATE EXTENSION leaf"), "{error}");
    let standby = Server::options().start_standby_of(&primary);
    let status = Said::by(leafctl_on(&standby).arg("status")).done();
    assert!(status.contains("standby"), "{status}");
}

#[test]
fn loader_that_cannot_be_started_is_said() {
    let server = Server::options()
        .set("max_worker_processes", "0")
        .set("leaf.wait_timeout", "200ms")
        .start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('orders')");
    let draws = [
        ("leaf_snowflake_next()", "leaf.stat_snowflake"),
        ("leaf_segment_next('orders')", "leaf.stat_segment"),
    ];
    for (draw, view) in draws {
        refused(client.batch_execute(&format!("SELECT {draw}")), "53400");
        let error = client.text(&format!("SELECT last_error FROM {view}"));
        assert!(error.starts_with("no background worker slot"), "{error}");
        let status = Said::by(leafctl_on(&server).arg("status")).done();
        assert!(
            status.contains("no loader: the last try to start one failed"),
            "{status}"
        );
        client.run("SELECT leaf_stat_reset()");
    }
    refused(client.next("orders"), "53400");
    let status = Said::by(leafctl_on(&server).arg("status")).done();
    assert!(status.contains("1 timeout"), "{status}");
    assert!(!status.contains("1 timeouts"), "{status}");
}

/// What is the default everywhere, or nowhere there, takes no room.
#[test]
fn columns_without_values_are_left_out_of_tables_alone() {
    let (server, mut client) = Server::with_orders(100);
    let list =
        |format: &str| Said::by(leafctl_on(&server).args(["tags", "list", "-f", format])).done();
    let table = list("table");
    for column in [
        "max_step",
        "max_value",
        "upstream_tag",
        "stripe",
        "description",
    ] {
        assert!(!table.contains(column), "{column}: {table}");
        assert!(list("csv").contains(column), "{column}");
    }
    assert!(table.lines().all(|line| line.len() <= 80), "{table}");
    assert!(list("csv").contains("9223372036854775807"));
    client.run("SELECT leaf_tag_create('few', max_value => 1000)");
    let table = list("table");
    assert!(
        table.contains("max_value") && table.contains("none"),
        "{table}"
    );
}
