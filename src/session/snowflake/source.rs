//! The source of this session's snowflake ids: its database's generator.

use std::cell::RefCell;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use leaf_core::snowflake::Scheme;
use leaf_core::snowflake::generator::{Stop, Taken};
use pgrx::PgSqlErrorCode as Code;

use super::environment::PgEnvironment;
use crate::catalog::{registry as registry_table, relation};
use crate::error::Report;
use crate::pg::{database, inval};
use crate::settings::snowflake::{self as settings, LeaseSettings};
use crate::shmem::call::call_loader;
use crate::shmem::generators::{GeneratorSlot, Registry};
use crate::shmem::{self, Shared};

/// A generator, as this session has found it. Never freed, so that references to it stay valid.
pub struct Source {
    pub slot: &'static GeneratorSlot,
    pub scheme: Scheme,
    /// The generator's serial number while it was this database's.
    serial: u64,
    generation: AtomicU64,
}

/// The session's source; replaced when it may have changed. A static and not a thread
/// local, because it is read for every id.
static SOURCE: AtomicPtr<Source> = AtomicPtr::new(std::ptr::null_mut());

/// The source that was found last, whatever has changed since.
#[inline(always)]
fn found_last() -> Option<&'static Source> {
    // SAFETY: null, or a source, none of which is ever freed.
    unsafe { SOURCE.load(Ordering::Relaxed).as_ref() }
}

/// The source, if it was found and nothing has changed since.
#[inline(always)]
pub fn known() -> Option<&'static Source> {
    let source = found_last()?;
    (source.generation.load(Ordering::Relaxed) == inval::generation()).then_some(source)
}

impl Source {
    /// Takes up to `count` ids without waiting.
    #[inline(always)]
    pub fn take(&self, count: u64) -> Result<Taken, Stop> {
        let outside = PgEnvironment::new(&self.scheme);
        let taken = (self.slot.generator).take(&self.scheme.layout, count, &outside)?;
        match self.is_current() {
            true => Ok(taken),
            // Another database's ids, which are lost.
            false => Err(Stop::Ceiling),
        }
    }

    /// Whether the generator is still this database's.
    #[inline(always)]
    fn is_current(&self) -> bool {
        self.slot.serial.load(Ordering::Acquire) == self.serial
    }

    /// Requests the loader to raise the ceiling. Never waits, never fails.
    #[cold]
    pub fn request_renewal(&self) {
        if !self.slot.requested.swap(true, Ordering::AcqRel)
            && let Some(shared) = shmem::get()
        {
            call_loader(shared, database::current());
        }
    }
}

/// Why a generator cannot be drawn from yet.
pub enum Unready {
    /// It has no lease.
    NoLease(&'static GeneratorSlot),
    /// The settings of this session are not those for which it was leased: the database's may
    /// have changed.
    OtherSettings(&'static GeneratorSlot, LeaseSettings),
}

/// The session's source, or what has to be done first.
pub fn resolve(shared: &Shared) -> Result<&'static Source, Unready> {
    if let Some(source) = known()
        && source.is_current()
        && source.slot.generator.is_leased()
    {
        return Ok(source);
    }
    // Read before the lookup, so that a change during the lookup makes the source
    // invalid.
    let generation = inval::generation();
    let registry = registry();
    let slot = claim(shared, registry);
    let (scheme, lease, looked, serial) = {
        let state = slot.state.read();
        if !slot.serves(registry) {
            // Taken for another database in the meantime.
            return Err(Unready::NoLease(slot));
        }
        let serial = slot.serial.load(Ordering::Acquire);
        (state.scheme, state.lease, state.looked, serial)
    };
    if let (Some(scheme), Some(lease), true) = (scheme, lease, slot.generator.is_leased()) {
        let wanted = settings::wanted();
        let is_known =
            looked.is_some_and(|(looked, _)| looked == wanted && wanted.scheme == scheme);
        if !is_known && !was_asked(lease.nonce, &wanted) {
            return Err(Unready::OtherSettings(slot, wanted));
        }
        if let Some(source) = found_last()
            && std::ptr::eq(source.slot, slot)
            && (source.serial, source.scheme) == (serial, scheme)
        {
            source.generation.store(generation, Ordering::Relaxed);
            return Ok(source);
        }
        let source: &'static Source = Box::leak(Box::new(Source {
            slot,
            scheme,
            serial,
            generation: AtomicU64::new(generation),
        }));
        SOURCE.store(std::ptr::from_ref(source).cast_mut(), Ordering::Relaxed);
        return Ok(source);
    }
    Err(Unready::NoLease(slot))
}

/// The registry of this database.
pub fn registry() -> Registry {
    Registry {
        database: database::current(),
        catalog: relation::require_alloc().to_u32(),
    }
}

fn claim(shared: &Shared, registry: Registry) -> &'static GeneratorSlot {
    let generators = &shared.generators;
    if let Some(slot) = generators
        .find(registry)
        .or_else(|| generators.claim(registry))
    {
        return slot;
    }
    for database in generators.databases() {
        if !database::exists(database) {
            generators.free(database);
        }
    }
    let scheme = registry_table::registered_scheme().unwrap_or_else(settings::scheme);
    generators
        .claim_or_take(registry, &scheme)
        // When: more databases issue snowflake ids than the server allows sessions
        .unwrap_or_else(|| Report::new(
            Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
            "no room in shared memory for the snowflake ids of another database",
            "Try again in some seconds, when a database is idle, or raise max_connections and restart the server.",
        )
        .raise())
}

/// Layout and epoch of this database's ids: as registered, or else those of the settings.
pub fn scheme() -> Scheme {
    if let Some(source) = known()
        && source.slot.generator.is_leased()
    {
        return source.scheme;
    }
    let in_memory = || generator()?.state.read().scheme;
    in_memory()
        .or_else(registry_table::registered_scheme)
        .unwrap_or_else(settings::scheme)
}

/// This database's generator in shared memory, if it has one.
pub fn generator() -> Option<&'static GeneratorSlot> {
    let registry = Registry {
        database: database::current(),
        catalog: relation::alloc()?.to_u32(),
    };
    shmem::get()?.generators.find(registry)
}

thread_local! {
    /// A lease, by its nonce, and what this session required when the loader has looked for it.
    static ASKED: RefCell<([u8; 16], Vec<LeaseSettings>)> = RefCell::default();
}

/// Whether the loader has looked for this session already, with these settings and this lease.
pub fn was_asked(nonce: [u8; 16], wanted: &LeaseSettings) -> bool {
    ASKED.with_borrow(|(of, asked)| *of == nonce && asked.contains(wanted))
}

/// Records that it has.
pub fn note_asked(nonce: [u8; 16], wanted: LeaseSettings) {
    ASKED.with_borrow_mut(|(of, asked)| {
        if *of != nonce {
            (*of, *asked) = (nonce, Vec::new());
        }
        asked.push(wanted);
    });
}
