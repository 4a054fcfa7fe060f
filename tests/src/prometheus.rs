//! Debian's Prometheus, with the configuration and the alerts of `monitoring/`.

use crate::account::{command, give};
use crate::exporter::{copied, replaced};
use crate::page::root;
use crate::{Exporter, port, wait_until};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};
use tempfile::TempDir;

/// A running Prometheus; dropped, it is stopped. If the test failed, what it has warned of is
/// printed first.
pub struct Prometheus {
    child: Child,
    port: u16,
    agent: ureq::Agent,
    /// With its configuration, its rules, its data and its log.
    folder: TempDir,
}

/// One series of an answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Sample {
    /// Its labels, as an object.
    pub labels: Value,
    /// Its value at the time of the query.
    pub value: f64,
}

impl Prometheus {
    /// Scrapes these exporters every second, and evaluates the alerts as often. What the
    /// rules have after `for:` and in ranges is divided by 60, so that a minute is a second.
    pub fn start(exporters: &[&Exporter]) -> Prometheus {
        Prometheus::every("1s", exporters)
    }

    /// The same at another interval, which is also the time that an exporter has to answer.
    pub fn every(interval: &str, exporters: &[&Exporter]) -> Prometheus {
        let targets: Vec<_> = exporters.iter().map(|it| it.address()).collect();
        let (folder, configuration) = copied("prometheus.yaml", |text| {
            let text = replaced(text, "_interval: 15s", &format!("_interval: {interval}"));
            // An Alertmanager of the machine is not told.
            let text = replaced(&text, "['localhost:9093']", "[]");
            replaced(
                &text,
                "['localhost:9187']",
                &format!("['{}']", targets.join("', '")),
            )
        });
        let rules = fs::read_to_string(root().join("monitoring/alerts.yaml")).expect("the alerts");
        let file = folder.path().join("alerts.yaml");
        fs::write(&file, shortened(&rules)).expect("a file for the alerts");
        give(&file);
        let port = port::reserved();
        let log = File::create(folder.path().join("log")).expect("a log file");
        let child = command(Path::new("/usr/bin/prometheus"))
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.path().join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()
            .expect("prometheus starts; `make setup` installs it");
        let agent = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .build();
        let prometheus = Prometheus {
            child,
            port,
            agent: agent.into(),
            folder,
        };
        wait_until("prometheus is ready", || prometheus.is_ready());
        prometheus
    }

    fn is_ready(&self) -> bool {
        let answer = self.agent.get(self.url("/-/ready")).call();
        answer.is_ok_and(|answer| answer.status() == 200)
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}{path}", self.port)
    }

    /// The data of an answer of the API, or the error.
    fn get(&self, path: &str, query: &[(&str, &str)]) -> Result<Value, String> {
        let request = query
            .iter()
            .fold(self.agent.get(self.url(path)), |request, (name, value)| {
                request.query(*name, *value)
            });
        let answer = request.call().and_then(|mut it| it.body_mut().read_json());
        let mut answer: Value = answer.map_err(|error| error.to_string())?;
        match answer["status"].as_str() {
            Some("success") => Ok(answer["data"].take()),
            _ => Err(answer["error"].to_string()),
        }
    }

    /// The series that an expression has now.
    pub fn query(&self, expression: &str) -> Result<Vec<Sample>, String> {
        let data = self.get("/api/v1/query", &[("query", expression)])?;
        let series = data["result"].as_array().cloned().unwrap_or_default();
        let sample = |series: Value| Sample {
            labels: series["metric"].clone(),
            value: series["value"][1]
                .as_str()
                .and_then(|value| value.parse().ok())
                .expect("a value"),
        };
        Ok(series.into_iter().map(sample).collect())
    }

    /// Waits until an expression has series that satisfy `is_right`, and returns them.
    pub fn query_until(
        &self,
        expression: &str,
        is_right: impl Fn(&[Sample]) -> bool,
    ) -> Vec<Sample> {
        let mut samples = Vec::new();
        wait_until(&format!("{expression} is as it should be"), || {
            samples = self.query(expression).expect(expression);
            is_right(&samples)
        });
        samples
    }

    /// The names of the alerts that fire.
    pub fn firing(&self) -> BTreeSet<String> {
        let data = self.get("/api/v1/alerts", &[]).expect("alerts");
        let alerts = data["alerts"].as_array().cloned().unwrap_or_default();
        let firing = alerts.iter().filter(|alert| alert["state"] == "firing");
        firing
            .filter_map(|alert| Some(alert["labels"]["alertname"].as_str()?.to_owned()))
            .collect()
    }

    /// Repeats what `meanwhile` does until an alert fires.
    pub fn fires(&self, alert: &str, mut meanwhile: impl FnMut()) {
        wait_until(&format!("{alert} fires"), || {
            meanwhile();
            self.firing().contains(alert)
        });
    }

    /// Repeats what `meanwhile` does until an alert, which fires, is resolved.
    pub fn resolves(&self, alert: &str, mut meanwhile: impl FnMut()) {
        wait_until(&format!("{alert} is resolved"), || {
            meanwhile();
            !self.firing().contains(alert)
        });
    }

    /// The rules, as the API describes them.
    pub fn rules(&self) -> Vec<Value> {
        let data = self.get("/api/v1/rules", &[]).expect("rules");
        let groups = data["groups"].as_array().cloned().unwrap_or_default();
        let rules = groups.iter().filter_map(|group| group["rules"].as_array());
        rules.flatten().cloned().collect()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.folder.path().join("log")).unwrap_or_default();
            let lines: Vec<_> = log
                .lines()
                .filter(|line| !line.contains("level=info"))
                .collect();
            eprintln!("--- prometheus\n{}\n---", lines.join("\n"));
        }
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Rules with shorter durations; thresholds stay as they are.
fn shortened(rules: &str) -> String {
    let line = |line: &str| match line.split_once("for: ") {
        Some((before, duration)) if before.trim().is_empty() => {
            format!("{before}for: {}\n", soon(duration))
        }
        _ => {
            let mut parts = line.split('[');
            let mut text = parts.next().unwrap_or_default().to_owned();
            for part in parts {
                let (duration, rest) = part.split_once(']').expect("a range");
                text += &format!("[{}]{rest}", sixtieth(duration));
            }
            text + "\n"
        }
    };
    rules.lines().map(line).collect()
}

/// A sixtieth, but at most ten seconds: on a busy machine, a longer time may not pass without a
/// scrape that fails, with which the time begins anew.
fn soon(duration: &str) -> String {
    let minutes = duration
        .strip_suffix('m')
        .and_then(|minutes| minutes.parse::<u32>().ok());
    match minutes {
        Some(minutes) if minutes <= 10 => sixtieth(duration),
        _ => "10s".into(),
    }
}

fn sixtieth(duration: &str) -> String {
    let (number, unit) = duration.split_at(duration.len() - 1);
    let smaller = match unit {
        "m" => "s",
        "h" => "m",
        _ => panic!("{duration}: not a number of minutes or hours"),
    };
    format!("{number}{smaller}")
}

#[test]
fn a_minute_of_the_rules_is_a_second_here_and_nothing_lasts_long() {
    let rules = "expr: rate(a[5m]) > 5 and b[1h] # 5m\n  for: 10m\n  for: 30m\n  summary: \"wait for: 3 m {{ x }}\"\n";
    let expected = "expr: rate(a[5s]) > 5 and b[1m] # 5m\n  for: 10s\n  for: 10s\n  summary: \"wait for: 3 m {{ x }}\"\n";
    assert_eq!(shortened(rules), expected);
}
