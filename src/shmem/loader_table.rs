//! Which database has a loader.

use pgrx::pg_sys::TimestampTz;

use super::Shared;
use crate::pg::{self, latch::LatchRef, worker};

/// How many databases can have a loader at once. A server with more than this
/// many busy databases needs as many background worker slots first.
const MAX_LOADERS: usize = 64;

/// After this long, a loader that was asked for and has not come is given up.
const START_PATIENCE_US: i64 = 2_000_000;

/// The loaders, one entry per database that has one.
#[repr(C)]
pub struct Table {
    entries: [Entry; MAX_LOADERS],
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Entry {
    /// The database's oid; 0 for a free entry.
    database: u32,
    /// The loader's process; 0 while it is being started.
    pid: i32,
    latch: LatchRef,
    /// When somebody last asked for a loader to be started.
    claimed_at: TimestampTz,
}

const FREE: Entry = Entry {
    database: 0,
    pid: 0,
    latch: LatchRef::NONE,
    claimed_at: 0,
};

impl Table {
    /// No loader.
    pub fn new() -> Self {
        Table {
            entries: [FREE; MAX_LOADERS],
        }
    }

    fn of(&mut self, database: u32) -> Option<&mut Entry> {
        self.entries
            .iter_mut()
            .find(|entry| entry.database == database)
    }

    fn latch_of(&self, database: u32) -> Option<LatchRef> {
        let entry = self
            .entries
            .iter()
            .find(|entry| entry.database == database)?;
        (entry.pid != 0).then_some(entry.latch)
    }

    /// The entry of `database`, or a free or abandoned one that becomes it.
    fn take(&mut self, database: u32) -> Option<&mut Entry> {
        let now = pg::now();
        let find = |wanted: &dyn Fn(&Entry) -> bool| self.entries.iter().position(wanted);
        let own = find(&|entry| entry.database == database);
        let free = || find(&|entry| entry.database == 0);
        let abandoned =
            || find(&|entry| entry.pid == 0 && now - entry.claimed_at >= START_PATIENCE_US);
        let entry = &mut self.entries[own.or_else(free).or_else(abandoned)?];
        if entry.database != database {
            *entry = Entry { database, ..FREE };
        }
        Some(entry)
    }
}

/// What became of a call for the loader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// It runs, or will.
    Answered,
    /// Somebody else is having it started.
    Pending,
    /// There is no free background worker slot.
    NoWorkerSlot,
}

/// Who starts a loader that does not run.
enum Claim {
    Mine,
    Others,
    /// Nobody: there is no entry left for another database.
    Full,
}

impl Shared {
    /// Wakes the loader of `database`, or has one started. Never raises an
    /// error, never waits for the loader.
    pub fn call_loader(&self, database: u32) -> Call {
        if let Some(latch) = self.loaders.shared().latch_of(database) {
            latch.set();
            return Call::Answered;
        }
        match self.claim_start(database) {
            Claim::Mine => {}
            Claim::Others => return Call::Pending,
            Claim::Full => return Call::NoWorkerSlot,
        }
        let started = worker::start(
            &format!("leaf loader for database {database}"),
            "leaf loader",
            "leaf_loader_main",
            database,
        );
        if started {
            return Call::Answered;
        }
        let mut table = self.loaders.exclusive();
        if let Some(entry) = table.of(database)
            && entry.pid == 0
        {
            *entry = FREE;
        }
        Call::NoWorkerSlot
    }

    /// Whether this process shall start the loader: nobody else has claimed it
    /// lately.
    fn claim_start(&self, database: u32) -> Claim {
        let now = pg::now();
        let mut table = self.loaders.exclusive();
        let Some(entry) = table.take(database) else {
            return Claim::Full;
        };
        if entry.pid != 0 {
            entry.latch.set();
            return Claim::Others;
        }
        if entry.claimed_at != 0 && now - entry.claimed_at < START_PATIENCE_US {
            return Claim::Others;
        }
        entry.claimed_at = now;
        Claim::Mine
    }

    /// Makes this process the loader of `database`; `false` if there is one.
    pub fn enter_as_loader(&self, database: u32) -> bool {
        let (pid, latch) = (pg::my_pid(), LatchRef::mine());
        let mut table = self.loaders.exclusive();
        match table.take(database) {
            Some(entry) if entry.pid == 0 => {
                entry.pid = pid;
                entry.latch = latch;
                true
            }
            _ => false,
        }
    }

    /// Ends this process's time as loader, unless `stay` says that there is
    /// work. Whoever asks for work afterwards starts a new one.
    pub fn leave_as_loader(&self, database: u32, stay: impl FnOnce() -> bool) -> bool {
        let pid = pg::my_pid();
        let mut table = self.loaders.exclusive();
        if stay() {
            return false;
        }
        if let Some(entry) = table.of(database)
            && entry.pid == pid
        {
            *entry = FREE;
        }
        true
    }
}
