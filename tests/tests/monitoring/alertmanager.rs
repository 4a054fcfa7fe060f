//! What Alertmanager makes of the alerts.

use leaf_tests::page::root;
use leaf_tests::{reserved_port, wait_until};
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// Debian's Alertmanager with the configuration of `monitoring/`; dropped, it is stopped. It sends
/// nothing, because it waits for further alerts of a group before.
struct Alertmanager {
    child: Child,
    url: String,
    _data: TempDir,
}

impl Alertmanager {
    fn start() -> Alertmanager {
        let data = tempfile::tempdir().expect("a folder");
        let address = format!("127.0.0.1:{}", reserved_port());
        let file = root().join("monitoring/alertmanager.yaml");
        let child = Command::new("prometheus-alertmanager")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.path={}", data.path().display()))
            .arg(format!("--web.listen-address={address}"))
            .arg("--cluster.listen-address=")
            .stderr(Stdio::null())
            .spawn()
            .expect("prometheus-alertmanager starts; `make setup` installs it");
        let alertmanager = Alertmanager {
            child,
            url: format!("http://{address}/api/v2/alerts"),
            _data: data,
        };
        wait_until("alertmanager answers", || {
            ureq::get(&alertmanager.url).call().is_ok()
        });
        alertmanager
    }

    /// Reports these alerts, as Prometheus does, each with its name, its severity, its database and its tag.
    fn report(&self, alerts: &[[&str; 4]]) {
        let labels = |&[name, severity, datname, tag]: &[&str; 4]| {
            json!({"labels": {"alertname": name, "severity": severity, "instance": "db1:9187",
                "datname": datname, "biz_tag": tag}})
        };
        let alerts: Vec<_> = alerts.iter().map(labels).collect();
        ureq::post(&self.url).send_json(alerts).expect("an answer");
    }

    /// The names of the alerts of which nobody is told, sorted.
    fn inhibited(&self) -> Vec<String> {
        let query = "?active=false&inhibited=true";
        let answer = ureq::get(format!("{}{query}", self.url)).call();
        let mut answer = answer.expect("an answer");
        let alerts: Vec<Value> = answer.body_mut().read_json().expect("alerts");
        let name = |alert: &Value| alert["labels"]["alertname"].as_str().map(str::to_owned);
        let mut names: Vec<_> = alerts.iter().filter_map(name).collect();
        names.sort();
        names
    }
}

impl Drop for Alertmanager {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn warnings_are_kept_back_while_something_critical_is_known_of_the_same_thing() {
    let alertmanager = Alertmanager::start();
    alertmanager.report(&[
        ["LeafCallsTimeOut", "critical", "shop", "orders"],
        ["LeafCallsWait", "warning", "shop", "orders"],
        ["LeafTagNearEnd", "warning", "shop", "users"],
        ["LeafBuffersShort", "warning", "other", "orders"],
        // Without a tag.
        ["LeafClockBehind", "critical", "shop", ""],
        ["LeafClockRolledBack", "warning", "shop", ""],
        ["LeafNodeClockOff", "warning", "other", ""],
    ]);
    wait_until("two are inhibited", || {
        alertmanager.inhibited() == ["LeafCallsWait", "LeafClockRolledBack"]
    });
}
