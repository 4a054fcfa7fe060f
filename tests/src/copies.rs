//! Standbys, and dumps that are restored.

use crate::account::{give, run};
use crate::{Draw, Server, wait_until};
use postgres::Client;
use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

impl Server {
    /// Waits until this standby has all that `primary` has flushed by now.
    pub fn catch_up_with(&self, primary: &Server) {
        let end = primary
            .connect()
            .text("SELECT pg_current_wal_flush_lsn()::text");
        wait_until("the standby has caught up", || {
            let replayed = format!("SELECT (pg_last_wal_replay_lsn() >= '{end}')::int::bigint");
            self.connect().number(&replayed) == 1
        });
    }

    /// Promotes this standby; returns a session on it.
    pub fn promote(&self) -> Client {
        let mut client = self.connect();
        client.run("SELECT pg_promote()");
        self.ends_recovery();
        client
    }

    /// Waits until this server is no standby and recovers from no archive any more.
    pub fn ends_recovery(&self) {
        let mut client = self.connect();
        wait_until("the recovery has ended", || {
            client.number("SELECT pg_is_in_recovery()::int::bigint") == 0
        });
    }

    /// Restores a dump of the database `from` into the empty database `to`.
    pub fn dump_and_restore(&self, from: &str, to: &str) {
        let mut dump = self.program("pg_dump");
        dump.arg(from);
        self.restore_from(&mut dump, to);
    }

    /// Makes a folder beside the data, as the server's own.
    pub fn make_folder(&self, name: &str) -> PathBuf {
        let folder = self.data().with_file_name(name);
        fs::create_dir(&folder).expect("a folder");
        give(&folder);
        folder
    }

    /// Runs a client program of the server; panics with its output if it fails.
    pub fn run_program(&self, name: &str, arguments: &[&str]) {
        run(self.program(name).args(arguments));
    }

    /// Has `psql` run in the database `to` what `dump` prints.
    pub fn restore_from(&self, dump: &mut Command, to: &str) {
        let mut psql = self.program("psql");
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", to]);
        pipe(dump, &mut psql);
    }
}

/// Runs a program that reads `input`.
pub fn feed(program: &mut Command, input: &[u8]) {
    let mut child = program
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .expect("it starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    stdin.write_all(input).expect("it reads");
    drop(stdin);
    assert!(
        child.wait().expect("it ends").success(),
        "{program:?} failed"
    );
}

/// Runs two programs, the second one reading what the first one prints.
pub fn pipe(from: &mut Command, to: &mut Command) {
    let mut source = from.stdout(Stdio::piped()).spawn().expect("it starts");
    let output = to
        .stdin(source.stdout.take().expect("a pipe"))
        .stdout(Stdio::null())
        .status()
        .expect("it starts");
    assert!(source.wait().expect("it ends").success(), "{from:?} failed");
    assert!(output.success(), "{to:?} failed");
}
