//! A node: Patroni, and the server that it runs.

use crate::account::{command, give};
use crate::process::{alive, running_in, signal};
use crate::{Line, cluster, port, wait_until};
use nix::sys::signal::Signal;
use serde_json::Value;
use std::fs::{self, OpenOptions};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

/// One of the nodes of a [`Cluster`](super::Cluster).
pub struct Node {
    name: String,
    folder: PathBuf,
    port: u16,
    rest_port: u16,
    /// To etcd.
    line: Line,
    agent: ureq::Agent,
    patroni: Option<Child>,
}

impl Node {
    /// Starts a node whose data lie below `folder`.
    pub(super) fn start(name: &str, folder: &Path, configuration: &str, etcd: u16) -> Node {
        let folder = folder.join(name);
        fs::create_dir(&folder).expect("a folder");
        give(&folder);
        let file = folder.join("patroni.yml");
        fs::write(&file, configuration).expect("a file");
        give(&file);
        let agent = ureq::Agent::config_builder()
            .timeout_global(Some(Duration::from_secs(2)))
            .http_status_as_error(false)
            .build();
        let mut node = Node {
            name: name.to_owned(),
            folder,
            port: port::reserved(),
            rest_port: port::reserved(),
            line: Line::to(etcd),
            agent: agent.into(),
            patroni: None,
        };
        node.start_again();
        node
    }

    /// Starts it after [`kill`](Node::kill).
    pub fn start_again(&mut self) {
        assert!(self.patroni.is_none(), "the node runs");
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.log_file())
            .expect("a log file");
        let address = |port: u16| format!("127.0.0.1:{port}");
        let mut command = command(Path::new("/usr/bin/patroni"));
        for port in ["RESTAPI_LISTEN", "RESTAPI_CONNECT_ADDRESS"] {
            command.env(format!("PATRONI_{port}"), address(self.rest_port));
        }
        for port in ["POSTGRESQL_LISTEN", "POSTGRESQL_CONNECT_ADDRESS"] {
            command.env(format!("PATRONI_{port}"), address(self.port));
        }
        let child = command
            .arg(self.folder.join("patroni.yml"))
            .env("PATRONI_NAME", &self.name)
            .env("PATRONI_POSTGRESQL_DATA_DIR", self.data())
            .env("PATRONI_POSTGRESQL_BIN_DIR", cluster::bindir())
            .env("PATRONI_POSTGRESQL_PGPASS", self.folder.join("pgpass"))
            // Through version 2 of etcd's interface: with version 3, Patroni before 3.1.0
            // can confuse leader and synchronous standby after it stood still
            // (https://github.com/patroni/patroni/pull/2689 and 2783).
            .env("PATRONI_ETCD_HOSTS", address(self.line.port()))
            // Only through the line that a test can cut.
            .env("PATRONI_ETCD_USE_PROXIES", "on")
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("patroni starts; `make setup` installs it");
        self.patroni = Some(child);
    }

    /// Its name in Patroni's cluster.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its server listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    fn log_file(&self) -> PathBuf {
        self.folder.join("log")
    }

    /// What Patroni and its server have logged.
    pub fn log(&self) -> String {
        let log = fs::read(self.log_file()).unwrap_or_default();
        String::from_utf8_lossy(&log).into_owned()
    }

    /// Patroni and the processes of its server, those of a server whose Patroni was
    /// killed too: a server works in its data folder.
    fn processes(&self) -> Vec<i32> {
        let patroni = self.patroni.iter().map(|child| child.id() as i32);
        patroni.chain(running_in(&self.data())).collect()
    }

    /// Kills Patroni and its server at once, as a machine that loses its power.
    pub fn kill(&mut self) {
        // A process that is being started now is found in the second round.
        wait_until("the node's processes are gone", || {
            let processes = self.processes();
            for &pid in &processes {
                signal(pid, Signal::SIGKILL);
            }
            if let Some(patroni) = &mut self.patroni {
                let _ = patroni.wait();
            }
            self.patroni = None;
            processes.iter().all(|&pid| !alive(pid)) && running_in(&self.data()).is_empty()
        });
    }

    /// Stops Patroni and its server for a while, as a machine that is too busy.
    pub fn freeze(&self) {
        for pid in self.processes() {
            signal(pid, Signal::SIGSTOP);
        }
    }

    /// Stops Patroni for a while. Its server goes on.
    pub fn freeze_patroni(&self) {
        let patroni = self.patroni.as_ref().expect("the node runs");
        signal(patroni.id() as i32, Signal::SIGSTOP);
    }

    /// Ends what [`freeze`](Node::freeze) and [`freeze_patroni`](Node::freeze_patroni)
    /// began.
    pub fn thaw(&self) {
        for pid in self.processes() {
            signal(pid, Signal::SIGCONT);
        }
    }

    /// The line between Patroni and etcd.
    pub fn line(&self) -> &Line {
        &self.line
    }

    /// Whether Patroni says that this node leads.
    pub fn leads(&self) -> bool {
        let answer = self.agent.get(self.url("leader")).call();
        answer.is_ok_and(|answer| answer.status() == 200)
    }

    /// What Patroni's REST API answers to a GET, if it is JSON.
    pub(super) fn get(&self, path: &str) -> Option<Value> {
        let mut answer = self.agent.get(self.url(path)).call().ok()?;
        answer.body_mut().read_json().ok()
    }

    /// POSTs to Patroni's REST API; what it answers, and whether it has agreed.
    pub(super) fn post(&self, path: &str, body: &Value) -> (bool, String) {
        // A switchover takes a while.
        let request = self.agent.post(self.url(path)).config();
        let request = request
            .timeout_global(Some(Duration::from_secs(60)))
            .build();
        let mut answer = request.send_json(body).expect("Patroni answers");
        let text = answer.body_mut().read_to_string().unwrap_or_default();
        (answer.status() == 200, text)
    }

    /// Changes the configuration of the cluster.
    pub(super) fn patch(&self, body: &Value) -> bool {
        let answer = self.agent.patch(self.url("config")).send_json(body);
        answer.is_ok_and(|answer| answer.status() == 200)
    }

    fn url(&self, path: &str) -> String {
        format!("http://127.0.0.1:{}/{path}", self.rest_port)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        for pid in self.processes() {
            signal(pid, Signal::SIGKILL);
        }
        if let Some(mut patroni) = self.patroni.take() {
            let _ = patroni.wait();
        }
        // Patroni can have started its server in between.
        for pid in running_in(&self.data()) {
            signal(pid, Signal::SIGKILL);
        }
    }
}
