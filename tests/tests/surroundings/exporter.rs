//! Prometheus scrapes the views through postgres_exporter, as a member of `pg_monitor`.

use leaf_tests::{Draw, Server, draw_many, wait_until};
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running exporter; dropped, it is stopped.
struct Exporter {
    child: Child,
    port: u16,
}

impl Exporter {
    fn start(server: &Server, user: &str) -> Exporter {
        let queries =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../monitoring/postgres_exporter.yaml");
        // Nobody else gets this port in the moment in which it is free again.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let port = listener.local_addr().expect("an address").port();
        drop(listener);
        let child = Command::new("prometheus-postgres-exporter")
            .arg(format!("--extend.query-path={}", queries.display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .args(["--disable-default-metrics", "--disable-settings-metrics"])
            .env(
                "DATA_SOURCE_NAME",
                format!("{} user={user}", server.connection_string()),
            )
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the exporter starts");
        Exporter { child, port }
    }

    /// What it exports; empty while it does not listen.
    fn scrape(&self) -> String {
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else {
            return String::new();
        };
        let mut answer = String::new();
        let request = "GET /metrics HTTP/1.0\r\nHost: localhost\r\n\r\n";
        let _ = stream.write_all(request.as_bytes());
        let _ = stream.read_to_string(&mut answer);
        answer
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn exporter_scrapes_counters_as_a_member_of_pg_monitor() {
    let (server, mut admin) = Server::with_orders(100);
    admin.run("CREATE ROLE watcher LOGIN IN ROLE pg_monitor; SELECT leaf_snowflake_next()");
    draw_many(&mut admin, "orders", 1_234);
    let exporter = Exporter::start(&server, "watcher");
    let mut scraped = String::new();
    wait_until("the exporter answers", || {
        scraped = exporter.scrape();
        scraped.contains("leaf_segment_ids_drawn")
    });
    let sessions = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'watcher'";
    assert!(admin.number(sessions) > 0, "it is the watcher who scrapes");
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
    assert!(value("leaf_snowflake_runs_out_timestamp{") > 3.0e9);
    // Every metric of the file is exported, with its type.
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../monitoring/postgres_exporter.yaml");
    let file = fs::read_to_string(file).expect("the file");
    let mut view = "";
    for line in file.lines() {
        if let Some(name) = line.strip_suffix(':').filter(|name| !name.starts_with(' ')) {
            view = name;
        }
        let Some((metric, rest)) = line
            .trim()
            .strip_prefix("- ")
            .and_then(|it| it.split_once(": {usage: "))
        else {
            continue;
        };
        let kind = match rest.split(',').next() {
            Some("COUNTER") => "counter",
            Some("GAUGE") => "gauge",
            _ => continue,
        };
        let declared = format!("# TYPE {view}_{metric} {kind}");
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
