//! A server, brought back to the same beginning for each case, and what must hold
//! of it at the end of each.

use crate::book::Book;
use crate::session::Session;
use crate::steps::{Action, SESSIONS, Step};
use leaf_tests::postgres::{Client, Row};
use leaf_tests::{Draw, Mode, Server, wait_until};

pub struct World {
    server: Server,
    /// How much of the log was read.
    read: usize,
    /// How many cases it has seen.
    cases: usize,
    /// Whether it is its own centre.
    is_centre: bool,
}

/// How many cases a server sees: its log, and what it remembers of worker ids, grow.
const CASES: usize = 40;

/// Whether the world of a seed is its own centre.
fn is_centre(seed: u64) -> bool {
    seed / CASES as u64 % 2 == 1
}

/// Warnings that mean no harm: there is (no) transaction, the server was stopped at
/// once, a loader that was to be cancelled is gone, a setting
/// was set where it has no effect, or to a worker id that its layout does not have, the catalog
/// is locked.
const HARMLESS: [&str; 7] = [
    "25P01",
    "25001",
    "57P02",
    "is not a PostgreSQL backend process",
    "has no effect in a session",
    " has no worker id ",
    "is locked by another transaction",
];

impl World {
    /// The world for a seed. Every other one is its own centre: its tags can be fed from others
    /// of them, but it has no snowflake ids, because no shard leases worker ids.
    pub fn of(seed: u64) -> World {
        let mut world = World::new();
        world.is_centre = is_centre(seed);
        if world.is_centre {
            let (host, port) = (world.server.host(), world.server.port());
            let upstream = format!("host={host} port={port} user=postgres dbname=postgres");
            world.server.configure(&format!(
                "leaf.upstream = '{upstream}'\nleaf.upstream_timeout = 500ms\n"
            ));
        }
        world
    }

    /// The world for the next seed: this one, or another one after so many cases.
    pub fn next(&mut self, seed: u64) {
        self.cases += 1;
        if self.cases == CASES || self.is_centre != is_centre(seed) {
            *self = World::of(seed);
        }
    }

    fn new() -> World {
        let server = Server::options()
            .set("fsync", "off")
            .set("max_prepared_transactions", "5")
            .set("statement_timeout", "2s")
            .set("lock_timeout", "15ms")
            .set("deadlock_timeout", "5ms")
            .set("log_error_verbosity", "verbose")
            .set("log_min_error_statement", "panic")
            .set("leaf.max_tags", "16")
            .set("leaf.wait_timeout", "30ms")
            .set("leaf.loader_idle_timeout", "300ms")
            .set("leaf.max_clock_lead", "1d")
            .set("leaf.allow_unreplicated_centre", "on")
            .start();
        server.connect().run(
            "CREATE ROLE joe LOGIN;
             CREATE TABLE drawn (id bigint); CREATE TABLE kept (id bigint); GRANT ALL ON drawn, kept TO joe;
             CREATE TABLE big AS SELECT generate_series(1, 3000) AS n;
             ALTER TABLE big SET (parallel_workers = 2); GRANT SELECT ON big TO joe;
             CREATE FUNCTION draw(tag text, count integer) RETURNS SETOF bigint LANGUAGE plpgsql AS $$
             BEGIN
                 FOR i IN 1..count LOOP
                     BEGIN
                         RETURN NEXT leaf_segment_next(tag);
                         IF i % 3 = 0 THEN RAISE EXCEPTION 'never mind'; END IF;
                     EXCEPTION WHEN raise_exception THEN NULL;
                     END;
                 END LOOP;
             END $$",
        );
        World {
            server,
            read: 0,
            cases: 0,
            is_centre: false,
        }
    }

    /// A session with patience, for what is not part of a case.
    fn admin(&self) -> Client {
        let mut admin = self.server.connect();
        admin.run(
            "SET lock_timeout = 0; SET statement_timeout = '60s'; SET leaf.wait_timeout = '20s'",
        );
        admin
    }

    /// Undoes what earlier cases have done.
    pub fn begin(&mut self) {
        // It may come back from a crash.
        self.server.wait_ready();
        let mut admin = self.admin();
        forget_prepared(&mut admin);
        admin.run("ALTER SYSTEM RESET ALL");
        admin.run(
            "ALTER DATABASE postgres RESET ALL; SELECT pg_reload_conf();
             SET leaf.snowflake_layout = DEFAULT; TRUNCATE drawn, kept;
             DROP TABLE IF EXISTS adopted; CREATE TABLE adopted (id bigserial PRIMARY KEY, n int);
             GRANT ALL ON adopted, adopted_id_seq TO joe;
             DROP EXTENSION IF EXISTS leaf CASCADE; CREATE EXTENSION leaf;
             GRANT EXECUTE ON FUNCTION leaf_tag_create, leaf_worker_register, leaf_worker_renew,
                leaf_worker_release TO joe",
        );
    }

    /// The sessions of a case.
    pub fn sessions<'b>(&self, book: &'b Book, is_alone: bool) -> Vec<Session<'b>> {
        let session = |name| {
            let user = if name + 1 == SESSIONS {
                "joe"
            } else {
                "postgres"
            };
            let client = self.server.connect_as(user, "postgres");
            let observer = is_alone.then(|| self.server.connect());
            Session::new(name, client, book, observer)
        };
        (0..SESSIONS).map(session).collect()
    }

    /// Plays a case, one step after the other.
    pub fn play(&mut self, steps: &[Step], book: &Book) -> Result<(), String> {
        self.begin();
        let mut sessions = self.sessions(book, true);
        for session in &mut sessions {
            session.begin()?;
        }
        for Step { session, action } in steps {
            match action {
                Action::Sql(sql, rows) => sessions[*session].run(sql, *rows)?,
                Action::Restart(mode) => {
                    drop(sessions);
                    book.note(format!("restart: {mode:?}"));
                    self.restart(*mode, book)?;
                    sessions = self.sessions(book, true);
                }
            }
        }
        for session in &mut sessions {
            session.finish()?;
        }
        self.end(book)
    }

    /// Restarts the server. If it crashes, its ids begin at its ceiling after that.
    fn restart(&mut self, mode: Mode, book: &Book) -> Result<(), String> {
        let ceilings = "SELECT worker_id, (extract(epoch FROM ceiling) * 1000000)::bigint
                          FROM leaf.worker WHERE node LIKE 'server %' AND isfinite(ceiling)";
        let before = self.admin().query(ceilings, &[]).unwrap_or_default();
        self.server.restart(mode);
        if mode == Mode::Fast {
            return Ok(());
        }
        book.crashed();
        let draw = "SELECT worker_id, (extract(epoch FROM created_at) * 1000000)::bigint, id
                      FROM (SELECT leaf_snowflake_next() AS id OFFSET 0) AS drawn, leaf_snowflake_decode(id)";
        // What was done to the registry may be a reason for no ids.
        let Ok(drawn) = self.admin().query_one(draw, &[]) else {
            return Ok(());
        };
        let (worker_id, created_at): (i32, i64) = (drawn.get(0), drawn.get(1));
        book.flakes(&[drawn.get(2)]);
        let begins_too_early =
            |row: &Row| row.get::<_, i32>(0) == worker_id && row.get::<_, i64>(1) > created_at;
        match before.iter().find(|row| begins_too_early(row)) {
            Some(row) => Err(format!(
                "worker id {worker_id} begins at {created_at} below its ceiling {}",
                row.get::<_, i64>(1)
            )),
            None => Ok(()),
        }
    }

    /// What must hold once no session has a transaction open.
    pub fn end(&mut self, book: &Book) -> Result<(), String> {
        book.audit()?;
        self.read_log()?;
        let mut admin = self.admin();
        forget_prepared(&mut admin);
        wait_until("nobody holds a lock", || {
            admin.number(
                "SELECT count(*) FROM pg_locks JOIN pg_stat_activity USING (pid)
                  WHERE backend_type IN ('client backend', 'leaf loader') AND pid <> pg_backend_pid()",
            ) == 0
        });
        admin.run("CREATE EXTENSION IF NOT EXISTS leaf");
        let strays = "SELECT count(*) FROM leaf_segment_slots() AS s(biz_tag)
                       WHERE NOT EXISTS (SELECT FROM leaf.alloc AS a WHERE a.biz_tag = s.biz_tag)";
        let strays = admin.number(strays);
        if strays != 0 {
            return Err(format!("{strays} slots are held by tags that do not exist"));
        }
        // Whatever was done, a new tag works.
        admin.run("SELECT leaf_tag_create('last')");
        let ids = admin
            .batch("last", 3)
            .map_err(|error| format!("the last tag: {error:?}"))?;
        if ids != [1, 2, 3] {
            return Err(format!("the last tag began with {ids:?}"));
        }
        self.read_log()
    }

    /// An error if the log has what it should not have.
    fn read_log(&mut self) -> Result<(), String> {
        let log = self.server.log();
        let new = log.get(self.read..).unwrap_or(&log);
        let fault = new.lines().find(|line| is_fault(line));
        let fault = fault.map(|line| format!("in the log: {line}"));
        self.read = log.len();
        fault.map_or(Ok(()), Err)
    }
}

fn is_fault(line: &str) -> bool {
    let has = |text| line.contains(text);
    has("WARNING:  ") && !HARMLESS.iter().any(|harmless| has(harmless))
        || ["PANIC:  ", "TRAP: ", "terminated by signal", "panicked"].iter().any(|text| has(text))
        // Of sessions, these are looked at where they arrive.
        || has("leaf loader") && has(":  XX")
}

fn forget_prepared(admin: &mut Client) {
    let prepared = admin.query("SELECT gid FROM pg_prepared_xacts", &[]);
    for row in prepared.expect("prepared transactions") {
        admin.run(&format!("ROLLBACK PREPARED '{}'", row.get::<_, String>(0)));
    }
}

impl Drop for World {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.server.stop(Mode::Fast);
        }
    }
}
