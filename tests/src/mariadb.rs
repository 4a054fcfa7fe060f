//! A private MariaDB server, from which ids are imported.

use crate::account::{command, give, run};
use crate::{Server, cluster, wait_until};
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

/// A running server, on a socket in a folder of its own; dropped, it is killed and its folder
/// removed.
pub struct MariaDb {
    folder: TempDir,
    child: Child,
}

impl MariaDb {
    /// Starts one without databases of its own.
    pub fn start() -> MariaDb {
        let folder = tempfile::Builder::new()
            .prefix("leaf-mariadb-")
            .tempdir_in("/tmp")
            .expect("a folder for MariaDB");
        give(folder.path());
        let data = format!("--datadir={}/data", folder.path().display());
        // At its start, MariaDB removes temporary tables from there, also those of others.
        let temporary = folder.path().join("tmp");
        fs::create_dir(&temporary).expect("a folder for temporary tables");
        give(&temporary);
        run(command(Path::new("/usr/bin/mariadb-install-db"))
            .env("TMPDIR", &temporary)
            .args(["--no-defaults", "--skip-test-db"])
            .arg("--auth-root-authentication-method=normal")
            .arg(&data));
        let settings = folder.path().join(".my.cnf");
        let socket = folder.path().join("socket");
        let content = format!("[client]\nsocket = {}\nuser = root\n", socket.display());
        fs::write(&settings, content).expect("a file of settings");
        give(&settings);
        let child = command(Path::new("/usr/sbin/mariadbd"))
            .env("TMPDIR", &temporary)
            .args(["--no-defaults", "--skip-networking"])
            .arg(&data)
            .arg(format!("--socket={}", socket.display()))
            .arg(format!("--pid-file={}/pid", folder.path().display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("mariadbd starts");
        let server = MariaDb { folder, child };
        wait_until("MariaDB accepts sessions", || {
            server
                .client()
                .arg("-e")
                .arg("SELECT 1")
                .output()
                .is_ok_and(|it| it.status.success())
        });
        server
    }

    /// The client, told where to connect.
    fn client(&self) -> Command {
        let mut client = command(Path::new("/usr/bin/mariadb"));
        client.env("HOME", self.folder.path());
        client.args([
            "--default-character-set=utf8mb4",
            "--batch",
            "--skip-column-names",
        ]);
        client
    }

    /// Runs statements in a database; panics if one fails. Returns what they print.
    pub fn run(&self, database: &str, statements: &str) -> String {
        self.try_run(database, statements)
            .unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// Runs statements in a database.
    ///
    /// # Errors
    /// What the client says.
    pub fn try_run(&self, database: &str, statements: &str) -> Result<String, String> {
        let mut client = self.client();
        let output = client.arg(database).arg("-e").arg(statements).output();
        let output = output.expect("mariadb runs");
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout)
                .trim_end()
                .to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Runs a script of shell commands in this server's folder, with `mariadb` connected to this
    /// server, and `psql` to `server`.
    ///
    /// # Errors
    /// What the script prints, if a command fails.
    pub fn script(&self, server: &Server, script: &str) -> Result<String, String> {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut shell = command(Path::new("/bin/bash"))
            .args(["-eu", "-o", "pipefail"])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", cluster::bindir().display()))
            .env("HOME", self.folder.path())
            .env("PGHOST", server.host())
            .env("PGUSER", "postgres")
            .env("PGDATABASE", "postgres")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("bash starts");
        let mut stdin = shell.stdin.take().expect("a pipe");
        stdin.write_all(script.as_bytes()).expect("bash reads");
        drop(stdin);
        let output = shell.wait_with_output().expect("bash ends");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stdout) + &text(&output.stderr)),
        }
    }
}

impl Drop for MariaDb {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
