//! A database's snowflake worker in shared memory.
//!
//! A worker belongs to a registry, the `leaf.worker` of one database, and is
//! found by (database, oid of that database's `leaf.alloc`). Sessions keep a
//! reference to it and draw without a lock, so a worker is given to another
//! registry only when nobody can be drawing from it with another layout in
//! mind: when its database has been dropped, or its layout and epoch stay.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};

use leaf_core::snowflake::{Generator, Scheme};
use pgrx::PgSqlErrorCode;

use super::Shared;
use super::slot::{LastError, Waits};
use super::text::Text;
use crate::error::Parts;
use crate::pg::{condvar::CondVar, lock::Locked};

/// Everything leaf shares about the snowflake ids of one database.
#[repr(C)]
pub struct Worker {
    /// Hands the ids out. Leases are written under `state`'s lock.
    pub generator: Generator,
    /// The lease, and the lock for it.
    pub state: Locked<State>,
    /// Signalled when the loader has tried to lease.
    pub changed: CondVar,
    /// How callers fared.
    pub waits: Waits,
    /// Whether the loader shall lease or renew.
    pub requested: AtomicBool,
    /// Before when the loader does not try again after a failure, in monotonic
    /// microseconds. Written under `state`'s lock.
    pub retry_at: AtomicI64,
    /// Whose worker this is; 0 for nobody's. Directory lock.
    database: AtomicU32,
    /// The oid of that database's `leaf.alloc`; 0 if the registry has gone.
    /// Directory lock.
    catalog: AtomicU32,
}

/// A registry, by the oids of its database and of that database's `leaf.alloc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registry {
    pub database: u32,
    pub catalog: u32,
}

/// What is known of a worker's lease.
#[repr(C)]
#[derive(Default)]
pub struct State {
    /// Layout and epoch, since the first registration.
    pub scheme: Option<Scheme>,
    /// The lease, while there is one.
    pub lease: Option<Lease>,
    /// How far the clock was off the other workers' mean at the last try.
    pub clock_offset_us: i64,
    /// How many tries to lease or renew have come to an end.
    pub attempts: u64,
    /// Why the last one brought no lease, if it was refused one.
    pub refusal: Option<Refusal>,
    /// How long the loader paused after the last of a row of failures; 0 after
    /// a success.
    pub pause_us: i64,
    /// The last failure or refusal.
    pub error: LastError,
}

/// A lease of a worker id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Lease {
    /// The worker id.
    pub worker: u64,
    /// Made at the registration.
    pub nonce: [u8; 16],
    /// Which of its renewals this is: whoever renews compares and swaps it.
    pub token: i64,
    /// From when ids may be issued, in microseconds since 1970.
    pub from_us: i64,
    /// Up to when they may, as the registry knows it.
    pub ceiling_us: i64,
}

/// An error that the loader met and callers are to raise.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Refusal {
    code: i32,
    message: Text<200>,
    detail: Text<250>,
    hint: Text<250>,
}

impl Refusal {
    /// The error in a form that shared memory can hold.
    pub fn of((code, message, detail, hint): &Parts) -> Self {
        Refusal {
            code: *code as i32,
            message: Text::of(message),
            detail: Text::of(detail.as_deref().unwrap_or_default()),
            hint: Text::of(hint),
        }
    }

    /// The error.
    pub fn parts(&self) -> Parts {
        let detail = self.detail.get();
        (
            PgSqlErrorCode::from(self.code),
            self.message.get(),
            (!detail.is_empty()).then_some(detail),
            self.hint.get(),
        )
    }
}

impl Worker {
    /// Nobody's worker.
    pub(super) fn new(tranche: i32) -> Self {
        Worker {
            generator: Generator::new(),
            state: Locked::new(State::default(), tranche),
            changed: CondVar::new(),
            waits: Waits::default(),
            requested: AtomicBool::new(false),
            retry_at: AtomicI64::new(0),
            database: AtomicU32::new(0),
            catalog: AtomicU32::new(0),
        }
    }

    fn registry(&self) -> Registry {
        Registry {
            database: self.database.load(Ordering::Relaxed),
            catalog: self.catalog.load(Ordering::Relaxed),
        }
    }

    fn belong_to(&self, registry: Registry) {
        self.database.store(registry.database, Ordering::Relaxed);
        self.catalog.store(registry.catalog, Ordering::Relaxed);
    }

    /// Ends the lease. The directory lock is held exclusively.
    fn retire(&self) {
        let mut state = self.state.exclusive();
        self.generator.fence();
        state.lease = None;
        drop(state);
        self.catalog.store(0, Ordering::Relaxed);
        self.requested.store(false, Ordering::Relaxed);
        self.changed.broadcast();
    }

    /// Makes it as good as new. The directory lock is held exclusively, and no
    /// process is left that knew the worker.
    fn clear(&self) {
        self.retire();
        *self.state.exclusive() = State::default();
        self.generator.reset();
        self.waits.clear();
        self.retry_at.store(0, Ordering::Relaxed);
        self.database.store(0, Ordering::Relaxed);
    }
}

impl Shared {
    /// The worker of a registry, if it has one.
    pub fn worker(&self, registry: Registry) -> Option<&'static Worker> {
        let _lock = self.directory.shared();
        self.find_worker(registry)
    }

    fn find_worker(&self, registry: Registry) -> Option<&'static Worker> {
        self.workers
            .iter()
            .find(|worker| worker.registry() == registry)
    }

    /// The worker of a registry; a free one becomes it. `None` if none is free.
    /// Workers of registries that the same database had before are ended.
    pub fn claim_worker(&self, registry: Registry) -> Option<&'static Worker> {
        let _lock = self.directory.exclusive();
        if let Some(worker) = self.find_worker(registry) {
            return Some(worker);
        }
        let of_database = |worker: &&Worker| worker.registry().database == registry.database;
        for worker in self.workers.iter().filter(of_database) {
            worker.retire();
        }
        let find = |database| {
            let wanted = Registry {
                database,
                catalog: 0,
            };
            self.workers
                .iter()
                .find(|worker| worker.registry() == wanted)
        };
        let worker = find(0).or_else(|| find(registry.database))?;
        worker.belong_to(registry);
        Some(worker)
    }

    /// Ends the worker of a registry: whoever draws from it finds another.
    pub fn retire_worker(&self, registry: Registry) {
        let _lock = self.directory.exclusive();
        if let Some(worker) = self.find_worker(registry) {
            worker.retire();
        }
    }

    /// The databases that have a worker.
    pub fn databases_with_workers(&self) -> Vec<u32> {
        let _lock = self.directory.shared();
        let databases = self.workers.iter().map(|worker| worker.registry().database);
        databases.filter(|&database| database != 0).collect()
    }

    /// Frees the workers of a database that has been dropped.
    pub fn free_workers(&self, database: u32) {
        let _lock = self.directory.exclusive();
        for worker in self.workers {
            if worker.registry().database == database {
                worker.clear();
            }
        }
    }

    /// The workers of a database that have a registry.
    pub fn workers_of(&self, database: u32) -> Vec<(Registry, &'static Worker)> {
        let mut workers = self.all_workers();
        workers.retain(|(registry, _)| registry.database == database);
        workers
    }

    /// All workers that have a registry.
    pub fn all_workers(&self) -> Vec<(Registry, &'static Worker)> {
        let _lock = self.directory.shared();
        let workers = self
            .workers
            .iter()
            .map(|worker| (worker.registry(), worker));
        workers
            .filter(|(registry, _)| registry.catalog != 0)
            .collect()
    }
}
