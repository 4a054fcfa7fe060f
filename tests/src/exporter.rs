//! The exporters through which Prometheus reads leaf's views.

use crate::account::{command, give};
use crate::{Server, port, wait_until};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// An exporter; dropped, it is stopped.
pub struct Exporter {
    program: Command,
    child: Option<Child>,
    port: u16,
    /// With its configuration.
    _folder: TempDir,
}

impl Exporter {
    /// postgres_exporter with the queries of `monitoring/`, as `user` of the database
    /// `postgres`.
    pub fn of_postgres(server: &Server, user: &str) -> Exporter {
        Exporter::with(server, user, &[])
    }

    /// The same with more arguments.
    pub fn with(server: &Server, user: &str, arguments: &[&str]) -> Exporter {
        let (folder, queries) = copied("postgres_exporter.yaml", |text| text.to_owned());
        let mut program = command(Path::new("/usr/bin/prometheus-postgres-exporter"));
        program
            .arg(format!("--extend.query-path={}", queries.display()))
            .args(["--disable-default-metrics", "--disable-settings-metrics"])
            .args(arguments)
            .env("DATA_SOURCE_NAME", source(server, user));
        Exporter::start(folder, program, "--web.listen-address")
    }

    /// sql_exporter with the configuration of `monitoring/`, as `user` of the database
    /// `postgres`. It queries every second.
    pub fn of_sql(server: &Server, user: &str) -> Exporter {
        let connection = format!(
            "postgres://{user}@/postgres?host={}&port={}&sslmode=disable",
            server.host(),
            server.port()
        );
        let (folder, file) = copied("sql_exporter.yaml", |text| {
            let sample = "postgres://leaf_monitor@localhost/shop?sslmode=disable";
            replaced(
                &replaced(text, sample, &connection),
                "interval: 10s",
                "interval: 1s",
            )
        });
        let mut program = command(Path::new("/usr/bin/prometheus-sql-exporter"));
        program.arg("-config.file").arg(file);
        Exporter::start(folder, program, "-web.listen-address")
    }

    fn start(folder: TempDir, mut program: Command, listen: &str) -> Exporter {
        let port = port::reserved();
        program
            .arg(format!("{listen}=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut exporter = Exporter {
            program,
            child: None,
            port,
            _folder: folder,
        };
        exporter.start_again();
        exporter
    }

    /// Starts it after [`stop`](Exporter::stop), at the same address.
    pub fn start_again(&mut self) {
        let child = self.program.spawn();
        self.child = Some(child.expect("the exporter starts; `make setup` installs it"));
        wait_until("the exporter listens", || !self.scrape().is_empty());
    }

    /// Stops it.
    pub fn stop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Where Prometheus finds it.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// What it exports; empty while it does not answer.
    pub fn scrape(&self) -> String {
        let answer = ureq::get(format!("http://{}/metrics", self.address())).call();
        let text = answer.and_then(|mut answer| answer.body_mut().read_to_string());
        text.unwrap_or_default()
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop();
    }
}

/// How postgres_exporter reaches the server.
fn source(server: &Server, user: &str) -> String {
    let (host, port) = (server.host(), server.port());
    format!("host={host} port={port} user={user} dbname=postgres sslmode=disable")
}

/// A file of `monitoring/`, changed, in a folder that the servers' account can enter.
pub(crate) fn copied(name: &str, change: impl FnOnce(&str) -> String) -> (TempDir, PathBuf) {
    let original = crate::page::root().join("monitoring").join(name);
    let text = fs::read_to_string(original).expect(name);
    let folder = tempfile::Builder::new()
        .prefix("leaf-monitoring-")
        .tempdir_in("/tmp")
        .expect("a folder");
    give(folder.path());
    let file = folder.path().join(name);
    fs::write(&file, change(&text)).expect(name);
    give(&file);
    (folder, file)
}

/// A text in which `old`, which it must have, is replaced.
pub(crate) fn replaced(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "no {old} in {text}");
    text.replace(old, new)
}
