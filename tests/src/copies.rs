//! Standbys, and dumps that are restored.

use crate::{Draw, Server, wait_until};
use postgres::Client;
use std::process::Stdio;

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
        wait_until("the standby is promoted", || {
            client.number("SELECT pg_is_in_recovery()::int::bigint") == 0
        });
        client
    }

    /// Restores a dump of the database `from` into the empty database `to`.
    pub fn dump_and_restore(&self, from: &str, to: &str) {
        let mut dump = self
            .program("pg_dump")
            .arg(from)
            .stdout(Stdio::piped())
            .spawn()
            .expect("pg_dump");
        let restore = self
            .program("psql")
            .args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d", to])
            .stdin(dump.stdout.take().expect("a pipe"))
            .status()
            .expect("psql");
        assert!(dump.wait().expect("pg_dump").success() && restore.success());
    }
}
