//! The store in which Patroni's nodes agree who leads.

use crate::account::command;
use crate::port;
use std::fs::OpenOptions;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

/// One member of etcd, which is a cluster of its own.
pub struct Etcd {
    folder: PathBuf,
    port: u16,
    peer_port: u16,
    child: Option<Child>,
}

impl Etcd {
    /// Starts it, with its data in a folder of the servers' account.
    pub fn start(folder: &Path) -> Etcd {
        let mut etcd = Etcd {
            folder: folder.to_owned(),
            port: port::reserved(),
            peer_port: port::reserved(),
            child: None,
        };
        etcd.start_again();
        etcd
    }

    /// Starts it after [`kill`](Etcd::kill), with the data that it had.
    pub fn start_again(&mut self) {
        let log = OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.folder.join("etcd.log"))
            .expect("a log file");
        let clients = format!("http://127.0.0.1:{}", self.port);
        let peers = format!("http://127.0.0.1:{}", self.peer_port);
        let child = command(Path::new("/usr/bin/etcd"))
            .args(["--enable-v2", "--name", "one", "--data-dir"])
            .arg(self.folder.join("etcd"))
            .args(["--listen-client-urls", &clients])
            .args(["--advertise-client-urls", &clients])
            .args(["--listen-peer-urls", &peers])
            .args(["--initial-advertise-peer-urls", &peers])
            .args(["--initial-cluster", &format!("one={peers}")])
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("etcd starts; `make setup` installs it");
        self.child = Some(child);
    }

    /// Where it listens.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Ends it without a chance to clean up.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Etcd {
    fn drop(&mut self) {
        self.kill();
    }
}
