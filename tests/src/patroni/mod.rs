//! Three servers with leaf that Patroni runs, with etcd.
//!
//! Patroni promotes a standby when the leader is lost. A test ends or stops processes of
//! this machine; what happens then is Patroni's work, as it would be on three machines.

mod configuration;
mod etcd;
mod node;

pub use etcd::Etcd;
pub use node::Node;

use crate::account::give;
use crate::process::signal;
use crate::{Draw, cluster, wait_until};
use nix::sys::signal::Signal;
use postgres::{Client, Config, NoTls};
use serde_json::{Value, json};
use std::time::{Duration, SystemTime};
use tempfile::TempDir;

/// A cluster of three nodes. Dropped, all its processes are killed and its folder is
/// removed; if the test failed, the end of each node's log is printed first, and with
/// `LEAF_TEST_KEEP` set the folder is kept.
pub struct Cluster {
    /// The nodes, which a test may break.
    pub nodes: Vec<Node>,
    /// The store, which a test may end.
    pub etcd: Etcd,
    folder: TempDir,
}

impl Cluster {
    /// A cluster with these settings of its servers, and the extension in the database
    /// `postgres`.
    pub fn start(settings: &[(&str, &str)]) -> Cluster {
        let folder = tempfile::Builder::new()
            .prefix("patroni-")
            .tempdir_in(cluster::home())
            .expect("a folder for a cluster");
        give(folder.path());
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let settings: Vec<_> = settings.iter().map(owned).collect();
        let configuration = configuration::of_tests(&settings);
        let etcd = Etcd::start(folder.path());
        let nodes = ["one", "two", "three"];
        let nodes = nodes.map(|name| Node::start(name, folder.path(), &configuration, etcd.port()));
        let cluster = Cluster {
            nodes: nodes.into(),
            etcd,
            folder,
        };
        let leader = cluster.settles();
        let mut client = cluster.connect(leader);
        client.run("CREATE EXTENSION leaf");
        cluster
    }

    /// The node that leads, as its Patroni says.
    pub fn leader(&self) -> Option<usize> {
        self.nodes.iter().position(Node::leads)
    }

    /// Waits until another node than this one leads, and returns it.
    pub fn leads_instead_of(&self, former: usize) -> usize {
        let mut leader = None;
        wait_until("another node leads", || {
            let others = (0..self.nodes.len()).filter(|&node| node != former);
            leader = others.into_iter().find(|&node| self.nodes[node].leads());
            leader.is_some()
        });
        leader.expect("a leader")
    }

    /// The synchronous standby, as Patroni says: the only node that it would promote.
    pub fn synchronous_standby(&self) -> Option<usize> {
        let leader = &self.nodes[self.leader()?];
        let cluster = leader.get("cluster")?;
        let members = cluster["members"].as_array()?;
        let standby = members.iter().find(|it| it["role"] == "sync_standby")?;
        self.nodes
            .iter()
            .position(|it| standby["name"] == it.name())
    }

    /// Waits until another standby than this one is synchronous.
    pub fn is_synchronous_instead_of(&self, former: usize) {
        wait_until("another standby is synchronous", || {
            self.synchronous_standby().is_some_and(|it| it != former)
        });
    }

    /// Waits until there is one leader, which the other nodes follow, one of them
    /// synchronously, and returns it.
    pub fn settles(&self) -> usize {
        let mut leader = None;
        wait_until("the cluster has a leader and a synchronous standby", || {
            leader = self.leader().filter(|&it| self.is_settled(it));
            leader.is_some()
        });
        leader.expect("a leader")
    }

    fn is_settled(&self, leader: usize) -> bool {
        let followers = "SELECT count(*) FILTER (WHERE sync_state IN ('sync', 'quorum')), count(*)
               FROM pg_stat_replication WHERE state = 'streaming' AND NOT pg_is_in_recovery()";
        let row = self
            .try_connect(leader)
            .and_then(|mut it| it.query_one(followers, &[]).ok());
        let Some(row) = row else {
            return false;
        };
        let (synchronous, all): (i64, i64) = (row.get(0), row.get(1));
        let others = self.nodes.len() as i64 - 1;
        synchronous > 0 && all == others && self.synchronous_standby().is_some()
    }

    /// Asks Patroni to have the synchronous standby lead; returns the new leader.
    pub fn switch_over(&self) -> usize {
        let leader = self.leader().expect("a leader");
        let candidate = self.synchronous_standby().expect("a synchronous standby");
        let names = [leader, candidate].map(|node| self.nodes[node].name());
        let wish = json!({"leader": names[0], "candidate": names[1]});
        let (agreed, answer) = self.nodes[leader].post("switchover", &wish);
        assert!(agreed, "Patroni does not switch over: {answer}");
        self.leads_instead_of(leader)
    }

    /// Stops the processes that send the standbys of a leader what it writes: it grants on
    /// its own from now on, if it waits for no standby.
    pub fn hold_back_standbys(&self, leader: usize) {
        let senders = self
            .connect(leader)
            .query("SELECT pid FROM pg_stat_replication", &[]);
        for row in senders.expect("pg_stat_replication") {
            signal(row.get(0), Signal::SIGSTOP);
        }
    }

    /// Changes Patroni's dynamic configuration, as `patronictl edit-config` does, and waits until
    /// all nodes go by it.
    pub fn configure(&self, change: &Value) {
        wait_until("Patroni takes the configuration", || {
            self.leader()
                .is_some_and(|leader| self.nodes[leader].patch(change))
        });
        let since_1970 = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        // In whole seconds, and what was read then may have been asked for before.
        let surely_after = since_1970.expect("a clock").as_secs() + 2;
        wait_until("all nodes have read the configuration", || {
            self.nodes.iter().all(|node| {
                let status = node.get("patroni");
                let read_at = status.and_then(|status| status["dcs_last_seen"].as_u64());
                read_at.is_some_and(|read_at| read_at >= surely_after)
            })
        });
    }

    /// Whether a node leads without etcd, because it reaches all others.
    pub fn is_in_failsafe_mode(&self, node: usize) -> bool {
        let status = self.nodes[node].get("patroni");
        status.is_some_and(|status| status["failsafe_mode_is_active"] == true)
    }

    /// Waits until all nodes have read that the leader may go on without etcd if it
    /// reaches the others, and who they are.
    pub fn knows_failsafe_members(&self) {
        wait_until("all nodes know the fail-safe members", || {
            self.nodes.iter().all(|node| {
                let members = node.get("failsafe");
                let count = members.and_then(|members| Some(members.as_object()?.len()));
                count == Some(self.nodes.len())
            })
        });
    }

    /// How to connect to the server of a node as the superuser.
    pub fn config(&self, node: usize) -> Config {
        let mut config = Config::new();
        config
            .host("127.0.0.1")
            .port(self.nodes[node].port())
            .user("postgres")
            .dbname("postgres")
            .connect_timeout(Duration::from_secs(2));
        config
    }

    /// A session with the server of a node.
    pub fn connect(&self, node: usize) -> Client {
        let client = self.config(node).connect(NoTls);
        client.unwrap_or_else(|e| panic!("{}: {e:?}", self.nodes[node].name()))
    }

    fn try_connect(&self, node: usize) -> Option<Client> {
        self.config(node).connect(NoTls).ok()
    }

    /// How to connect to the node that takes writes.
    pub fn connection_string(&self) -> String {
        format!(
            "{} target_session_attrs=read-write",
            self.upstream("postgres")
        )
    }

    /// How a shard reaches it in this role: `leaf.upstream`.
    pub fn upstream(&self, role: &str) -> String {
        let ports: Vec<_> = self.nodes.iter().map(|it| it.port().to_string()).collect();
        let hosts = vec!["127.0.0.1"; ports.len()].join(",");
        let ports = ports.join(",");
        format!("host={hosts} port={ports} user={role} dbname=postgres")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            return;
        }
        for node in &self.nodes {
            let log = node.log();
            let lines: Vec<_> = log.lines().collect();
            let end = lines[lines.len().saturating_sub(80)..].join("\n");
            eprintln!("--- end of the log of node {}\n{end}\n---", node.name());
        }
        if std::env::var_os("LEAF_TEST_KEEP").is_some() {
            self.folder.disable_cleanup(true);
            eprintln!("kept: {}", self.folder.path().display());
        }
    }
}
