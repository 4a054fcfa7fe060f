//! What a test sees of loaders and of the sessions that wait for them, and how it
//! holds them up.

use super::Server;
use crate::process::signal;
use crate::{Draw, wait_until};
use nix::sys::signal::Signal;
use postgres::Client;

impl Server {
    /// The loaders at work in `database`.
    pub fn loaders(&self, database: &str) -> Vec<i32> {
        self.connect()
            .query(
                "SELECT pid FROM pg_stat_activity
                  WHERE backend_type = 'leaf loader' AND datname = $1",
                &[&database],
            )
            .expect("pg_stat_activity")
            .iter()
            .map(|row| row.get(0))
            .collect()
    }

    /// Stops (`SIGSTOP`) the idle loader of the database `postgres` in its sleep,
    /// where it holds no lock; its process.
    pub fn stop_sleeping_loader(&self) -> i32 {
        let mut observer = self.connect();
        let loader = self.loaders("postgres")[0];
        wait_until("the loader is stopped in its sleep", || {
            signal(loader, Signal::SIGSTOP);
            let asleep = observer.number(&format!(
                "SELECT count(*) FROM pg_stat_activity
                  WHERE pid = {loader} AND wait_event IN ('Extension', 'LeafLoaderMain')"
            )) == 1;
            if !asleep {
                signal(loader, Signal::SIGCONT);
            }
            asleep
        });
        loader
    }
}

/// Makes every grant take so many seconds longer, until the trigger `slow` is
/// dropped. The loader waits for `PgSleep` then.
pub fn slow_grants(client: &mut Client, seconds: f64) {
    client.run(&format!(
        "CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN PERFORM pg_sleep({seconds}); RETURN new; END $$;
         CREATE TRIGGER slow BEFORE UPDATE ON leaf.alloc
            FOR EACH ROW EXECUTE FUNCTION slow()"
    ));
}

/// How many loaders of the server wait for `event`: a wait event, or a type of
/// them, of `pg_stat_activity`.
pub fn waiting_loaders(observer: &mut Client, event: &str) -> i64 {
    observer.number(&format!(
        "SELECT count(*) FROM pg_stat_activity
          WHERE backend_type = 'leaf loader' AND '{event}' IN (wait_event, wait_event_type)"
    ))
}

/// How many sessions wait inside a call of a function whose name begins so.
pub fn waiting_callers(observer: &mut Client, function: &str) -> i64 {
    observer.number(&format!(
        "SELECT count(*) FROM pg_stat_activity
          WHERE state = 'active' AND query LIKE '%{function}%' AND pid <> pg_backend_pid()
            AND wait_event IS NOT NULL AND wait_event_type <> 'Client'"
    ))
}

/// Waits until a client's session waits for ids: for the loader, or, in the plain edition, for a lock.
pub fn wait_for_caller(server: &Server) {
    let mut observer = server.connect();
    let waits = "SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'
                 AND state = 'active' AND wait_event_type IN ('Extension', 'Lock')";
    wait_until("a call waits", || observer.number(waits) >= 1);
}
