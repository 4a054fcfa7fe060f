//! PgBouncer in front of a server, in transaction mode: every transaction of a
//! client may get another connection of the server's.

use crate::account::{command, give};
use crate::{Server, wait_until};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use tempfile::TempDir;

/// A running pooler; dropped, it is stopped.
pub struct Pooler {
    folder: TempDir,
    child: Child,
}

impl Pooler {
    /// Starts one with `connections` connections to the server.
    pub fn start(server: &Server, connections: usize) -> Pooler {
        let folder = tempfile::Builder::new()
            .prefix("leaf-pooler-")
            .tempdir_in("/tmp")
            .expect("a folder for the pooler");
        give(folder.path());
        let settings = folder.path().join("settings");
        let content = format!(
            "[databases]\n\
             postgres = {}\n\
             [pgbouncer]\n\
             pool_mode = transaction\n\
             default_pool_size = {connections}\n\
             max_client_conn = 200\n\
             unix_socket_dir = {}\n\
             listen_port = 6432\n\
             auth_type = any\n\
             server_login_retry = 1\n\
             logfile = {}/log\n",
            server.connection_string(),
            folder.path().display(),
            folder.path().display(),
        );
        fs::write(&settings, content).expect("a file of settings");
        give(&settings);
        let child = command(&program())
            .arg("-q")
            .arg(&settings)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("pgbouncer starts");
        let pooler = Pooler { folder, child };
        let socket = pooler.folder.path().join(".s.PGSQL.6432");
        // The file is there before it is listened on.
        wait_until("the pooler listens", || {
            UnixStream::connect(&socket).is_ok()
        });
        pooler
    }

    /// How to connect through it.
    pub fn connection_string(&self) -> String {
        format!(
            "host={} port=6432 user=postgres dbname=postgres",
            self.folder.path().display()
        )
    }
}

fn program() -> PathBuf {
    let places = ["/usr/sbin/pgbouncer", "/usr/bin/pgbouncer"];
    let found = places.iter().map(Path::new).find(|place| place.exists());
    found
        .expect("pgbouncer is installed; `make setup` does that")
        .to_owned()
}

impl Drop for Pooler {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = fs::read_to_string(self.folder.path().join("log"));
            eprintln!("{}--- end of the pooler's log", log.unwrap_or_default());
        }
        // Nothing it has is worth saving, and a milder signal may be ignored: what a
        // shell starts in the background inherits that.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
