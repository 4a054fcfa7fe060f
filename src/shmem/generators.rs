//! The generators of snowflake ids, one per database that issues them.
//!
//! A generator serves a registry, the `leaf.worker` of one database, and is found
//! by (database, OID of that database's `leaf.alloc`). Sessions keep a reference
//! to it and draw without a lock. A generator is therefore assigned to another registry
//! only when no session can be drawing from it with another layout: when its database
//! has been dropped, or its layout and epoch stay the same. There are as many as the server
//! allows sessions. If more databases issue ids, one after the other, the one that was idle
//! longest is assigned to another database: its serial number changes, which a session compares
//! after each draw.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use leaf_core::snowflake::{Generator, Scheme};
use leaf_core::time::{Monotonic, WallTime};
use pgrx::PgSqlErrorCode;

use super::failures::Failures;
use super::text::Text;
use super::waits::Waits;
use crate::error::Report;
use crate::pg::clock::{self, AtomicMonotonic};
use crate::pg::condvar::CondVar;
use crate::pg::lwlock::Locked;
use crate::pg::process;
use crate::pg::shm::{Request, Shareable, Startup};
use crate::settings::snowflake::LeaseSettings;
use crate::settings::upstream::CentreDigest;

/// All generators. The lock guards which registry each generator serves.
pub struct Generators {
    directory: &'static Locked<()>,
    slots: &'static [GeneratorSlot],
}

/// Everything leaf shares about the snowflake ids of one database.
#[repr(C)]
pub struct GeneratorSlot {
    /// Issues the ids. Leases are written under `state`'s lock.
    pub generator: Generator,
    /// The lease, and the lock for it.
    pub state: Locked<LeaseState>,
    /// Signalled when the loader has tried to lease.
    pub changed: CondVar,
    /// Counters of waits.
    pub waits: Waits,
    /// Whether the loader should lease or renew.
    pub requested: AtomicBool,
    /// When the loader may try again after a failure. Written under `state`'s lock.
    pub retry_at: AtomicMonotonic,
    /// How often the loader has begun to look at the settings of the database.
    pub looks: AtomicU64,
    /// Changes when the generator is assigned to another registry. An id that was drawn before
    /// that is the former one's, if this has not changed after the draw.
    pub serial: AtomicU64,
    /// The database whose generator this is; 0 for none. Directory lock.
    database: AtomicU32,
    /// The OID of that database's `leaf.alloc`; 0 if the registry no longer exists.
    /// Directory lock.
    catalog: AtomicU32,
}

/// A registry, by the OIDs of its database and of that database's `leaf.alloc`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registry {
    pub database: u32,
    pub catalog: u32,
}

/// The state of a generator's lease.
#[repr(C)]
#[derive(Default)]
pub struct LeaseState {
    /// Layout and epoch, since the first registration.
    pub scheme: Option<Scheme>,
    /// The lease, while there is one.
    pub lease: Option<Lease>,
    /// The requirements of the database's settings when the loader looked last, and the
    /// number of that look.
    pub looked: Option<(LeaseSettings, u64)>,
    /// How the lease stands with the centre, if it is from one.
    pub standing: Standing,
    /// How far the clock was off the usual offset of the nodes' clocks at the registration.
    pub clock_offset_us: i64,
    /// How many attempts to lease or renew have ended.
    pub attempts: u64,
    /// Why the last attempt was refused a lease, if it was.
    pub refusal: Option<Refusal>,
    /// Attempts that failed or were refused.
    pub failures: Failures,
    /// Since when the statistics count; `None` if since the server's start.
    pub reset_at: Option<WallTime>,
    /// How many rollbacks of the clock there had been then.
    pub rollbacks_at_reset: u64,
}

/// How a lease from a centre stands with it. Another loader has to know it, too; a server that
/// starts knows nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Standing {
    /// The digest of `leaf.upstream`, and the number of the connection, with which the centre
    /// has confirmed the lease.
    pub confirmed: Option<(CentreDigest, u64)>,
    /// The digest of a setting that names the same centre, as far as that can be known while
    /// the centre is away.
    pub same_centre: Option<CentreDigest>,
}

/// A lease of a worker id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Lease {
    /// The worker id.
    pub worker_id: u64,
    /// Made at the registration.
    pub nonce: [u8; 16],
    /// The number of this renewal: each renewal compares and swaps it.
    pub token: i64,
    /// From when ids may be issued.
    pub from: WallTime,
    /// Until when ids may be issued, as stored in the registry.
    pub ceiling: WallTime,
}

/// An error that occurred in the loader and that waiting sessions raise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Refusal {
    code: i32,
    message: Text<200>,
    detail: Text<250>,
    hint: Text<250>,
}

impl Refusal {
    /// The error in a form that shared memory can hold.
    pub fn of(report: &Report) -> Self {
        Refusal {
            code: report.code as i32,
            message: Text::of(&report.message),
            detail: Text::of(report.detail.as_deref().unwrap_or_default()),
            hint: Text::of(&report.hint),
        }
    }

    /// The error.
    pub fn report(&self) -> Report {
        let detail = self.detail.get();
        Report {
            code: PgSqlErrorCode::from(self.code),
            message: self.message.get(),
            detail: (!detail.is_empty()).then_some(detail),
            hint: self.hint.get(),
        }
    }
}

// SAFETY: it has no pointers.
unsafe impl Shareable for LeaseState {}
// SAFETY: as above.
unsafe impl Shareable for GeneratorSlot {}

impl GeneratorSlot {
    /// Resets the statistics.
    pub fn reset_statistics(&self) {
        let mut state = self.state.write();
        state.reset_at = Some(clock::now());
        state.rollbacks_at_reset = self.generator.rollbacks();
        state.failures.forget();
        self.waits.clear();
    }

    /// A free generator.
    fn new(startup: &Startup) -> Self {
        GeneratorSlot {
            generator: Generator::new(),
            state: Locked::new(LeaseState::default(), startup),
            changed: CondVar::new(),
            waits: Waits::default(),
            requested: AtomicBool::new(false),
            retry_at: AtomicMonotonic::new(),
            looks: AtomicU64::new(0),
            serial: AtomicU64::new(0),
            database: AtomicU32::new(0),
            catalog: AtomicU32::new(0),
        }
    }

    /// Whether it serves this registry. To be asked under the lock of the state, which is held
    /// while a generator is assigned.
    pub fn serves(&self, registry: Registry) -> bool {
        self.registry() == registry
    }

    fn registry(&self) -> Registry {
        Registry {
            database: self.database.load(Ordering::Relaxed),
            catalog: self.catalog.load(Ordering::Relaxed),
        }
    }

    /// Assigns the generator, which then has no lease. The directory lock is held to write.
    fn belong_to(&self, registry: Registry) {
        let mut state = self.state.write();
        self.generator.fence();
        *state = LeaseState {
            scheme: state.scheme,
            ..LeaseState::default()
        };
        self.requested.store(false, Ordering::Relaxed);
        self.retry_at.set(Monotonic::ZERO);
        self.serial.fetch_add(1, Ordering::Release);
        self.database.store(registry.database, Ordering::Relaxed);
        self.catalog.store(registry.catalog, Ordering::Relaxed);
        drop(state);
        self.waits.clear();
        self.changed.broadcast();
    }

    /// Since when no id can have been drawn, unless somebody waits for one; `None` if one could
    /// be drawn now, or not with this layout.
    fn idle_since(&self, scheme: &Scheme, now: WallTime) -> Option<WallTime> {
        let state = self.state.read();
        let is_fit = state.scheme.is_none_or(|it| it == *scheme);
        let ended = state.lease.map_or(WallTime::MIN, |lease| lease.ceiling);
        (is_fit && ended <= now && !self.requested.load(Ordering::Acquire)).then_some(ended)
    }

    /// Ends the lease: sessions wait for another one.
    pub fn stop(&self) {
        let mut state = self.state.write();
        self.generator.fence();
        state.lease = None;
    }

    /// Ends the lease. The directory lock is held to write.
    fn retire(&self) {
        self.stop();
        self.catalog.store(0, Ordering::Relaxed);
        self.requested.store(false, Ordering::Relaxed);
        self.changed.broadcast();
    }

    /// Makes the generator free. The directory lock is held to write, and no process
    /// has a reference to the generator any more.
    fn clear(&self) {
        self.retire();
        *self.state.write() = LeaseState::default();
        self.generator.reset();
        self.waits.clear();
        self.retry_at.set(Monotonic::ZERO);
        self.database.store(0, Ordering::Relaxed);
    }
}

impl Generators {
    /// Requests the memory for `count` generators.
    pub(super) fn request_memory(request: &Request) {
        request.room_for::<Locked<()>>(1);
        request.room_for::<GeneratorSlot>(process::most_sessions());
    }

    /// Attaches to that memory.
    pub(super) fn attach(startup: &Startup) -> Self {
        let count = process::most_sessions();
        Generators {
            directory: startup.attach_one(c"leaf directory", || Locked::new((), startup)),
            slots: startup.attach(c"leaf generators", count, |_| GeneratorSlot::new(startup)),
        }
    }

    /// The generator of a registry, if it has one.
    pub fn find(&self, registry: Registry) -> Option<&'static GeneratorSlot> {
        let _lock = self.directory.read();
        self.find_locked(registry)
    }

    fn find_locked(&self, registry: Registry) -> Option<&'static GeneratorSlot> {
        self.slots.iter().find(|slot| slot.registry() == registry)
    }

    /// The generator of a registry; if it has none, a free one is assigned to it. `None`
    /// if none is free. Generators of earlier registries of the database are retired.
    pub fn claim(&self, registry: Registry) -> Option<&'static GeneratorSlot> {
        self.claim_or(registry, || None)
    }

    /// As [`claim`](Self::claim), for a registry of this layout and epoch; if none is free, the
    /// one that was idle longest is taken from its registry.
    pub fn claim_or_take(
        &self,
        registry: Registry,
        scheme: &Scheme,
    ) -> Option<&'static GeneratorSlot> {
        let now = clock::now();
        self.claim_or(registry, || {
            let idle = self
                .slots
                .iter()
                .filter_map(|slot| Some((slot.idle_since(scheme, now)?, slot)));
            Some(idle.min_by_key(|(since, _)| *since)?.1)
        })
    }

    fn claim_or(
        &self,
        registry: Registry,
        take: impl FnOnce() -> Option<&'static GeneratorSlot>,
    ) -> Option<&'static GeneratorSlot> {
        let _lock = self.directory.write();
        if let Some(slot) = self.find_locked(registry) {
            return Some(slot);
        }
        let of_database = |slot: &&GeneratorSlot| slot.registry().database == registry.database;
        for slot in self.slots.iter().filter(of_database) {
            slot.retire();
        }
        let find = |database| {
            self.find_locked(Registry {
                database,
                catalog: 0,
            })
        };
        let slot = find(0).or_else(|| find(registry.database)).or_else(take)?;
        slot.belong_to(registry);
        Some(slot)
    }

    /// Ends the generator of a registry: sessions that draw from it find another one.
    pub fn retire(&self, registry: Registry) {
        let _lock = self.directory.write();
        if let Some(slot) = self.find_locked(registry) {
            slot.retire();
        }
    }

    /// The databases that have a generator.
    pub fn databases(&self) -> Vec<u32> {
        let _lock = self.directory.read();
        let databases = self.slots.iter().map(|slot| slot.registry().database);
        databases.filter(|&database| database != 0).collect()
    }

    /// Frees the generators of a database that has been dropped.
    pub fn free(&self, database: u32) {
        let _lock = self.directory.write();
        for slot in self.slots {
            if slot.registry().database == database {
                slot.clear();
            }
        }
    }

    /// The generators of a database that have a registry.
    pub fn of(&self, database: u32) -> Vec<(Registry, &'static GeneratorSlot)> {
        let mut slots = self.all();
        slots.retain(|(registry, _)| registry.database == database);
        slots
    }

    /// All generators that have a registry.
    pub fn all(&self) -> Vec<(Registry, &'static GeneratorSlot)> {
        let _lock = self.directory.read();
        let slots = self.slots.iter().map(|slot| (slot.registry(), slot));
        slots
            .filter(|(registry, _)| registry.catalog != 0)
            .collect()
    }
}
