//! Snowflake ids, as a session draws them.
//!
//! A session keeps a reference to its database's [`Worker`] in shared memory
//! and draws from its generator. The worker id is leased, and its ceiling kept
//! ahead of the clock, by the loader ([`lease`]); a session that finds no lease,
//! or the ceiling reached, asks for that and waits.
//!
//! Where no loader can help, in single-user mode and in the transaction that
//! creates the extension, the session leases for itself ([`private`]).

mod ceilings;
mod environment;
mod error;
pub mod lease;
pub mod private;
pub mod releases;

use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::{Duration, Instant};

use leaf_core::snowflake::generator::{Stop, Taken};
use leaf_core::snowflake::{Generator, Layout, Scheme};
use pgrx::pg_sys;

use crate::catalog;
use crate::error::{self as errors, Error, Ids};
use crate::patience::Patience;
use crate::pg::{self, inval, latch};
use crate::session;
use crate::shmem::worker::Registry;
use crate::shmem::{self, Worker};
use environment::Outside;
pub use error::Trouble;

/// Where this session's ids come from.
pub struct Source {
    worker: &'static Worker,
    scheme: Scheme,
    generation: u64,
}

/// The session's source; replaced when something about it may have changed. A
/// static and not a thread local, because it is read for every id.
static SOURCE: AtomicPtr<Source> = AtomicPtr::new(std::ptr::null_mut());

/// The source, if it was found and nothing has changed since.
#[inline(always)]
pub fn known() -> Option<&'static Source> {
    // SAFETY: null, or a source that is never freed.
    let source = unsafe { SOURCE.load(Ordering::Relaxed).as_ref() }?;
    (source.generation == inval::generation()).then_some(source)
}

impl Source {
    /// Takes up to `count` ids without waiting.
    #[inline(always)]
    pub fn take(&self, count: u64) -> Result<Taken, Stop> {
        let outside = Outside::new(&self.scheme);
        self.worker
            .generator
            .take(&self.scheme.layout, count, &outside)
    }

    /// Asks the loader to raise the ceiling. Never waits, never fails.
    #[cold]
    pub fn request_renewal(&self) {
        if !self.worker.requested.swap(true, Ordering::AcqRel)
            && let Some(shared) = shmem::shared()
        {
            shared.call_loader(pg::database().to_u32());
        }
    }
}

/// Consecutive ids.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    pub first: i64,
    pub len: u64,
}

impl From<Taken> for Run {
    fn from(taken: Taken) -> Self {
        Run {
            first: taken.first,
            len: taken.len,
        }
    }
}

/// Draws up to `count` ids, waiting as long as need and patience be.
pub fn draw(count: u64) -> Run {
    let shared = session::shared();
    if pg::in_recovery() {
        Error::InRecovery.raise();
    }
    let patience = Patience::new();
    let mut waiting_since = None;
    loop {
        if let Some(run) = private::draw(shared, count, &patience) {
            return run;
        }
        let attempt = match resolve() {
            Ok(source) => source.take(count).map_err(|stop| (source.worker, stop)),
            Err(worker) => Err((worker, Stop::Ceiling)),
        };
        match attempt {
            Ok(taken) => {
                drawn(taken.due, waiting_since);
                return taken.into();
            }
            Err((worker, stop)) => {
                waiting_since.get_or_insert_with(Instant::now);
                wait(worker, stop, &patience);
            }
        }
    }
}

/// After ids were drawn on the slow path.
fn drawn(due: bool, waiting_since: Option<Instant>) {
    let Some(source) = known() else {
        return;
    };
    if due {
        source.request_renewal();
    }
    if let Some(since) = waiting_since {
        source.worker.waits.add(since.elapsed());
    }
}

/// The session's source; the worker if it has no lease yet.
fn resolve() -> Result<&'static Source, &'static Worker> {
    if let Some(source) = known()
        && source.worker.generator.is_leased()
    {
        return Ok(source);
    }
    // Before the look-up: what changes meanwhile makes the source void.
    let generation = inval::generation();
    let worker = claim(registry());
    let scheme = worker.state.shared().scheme;
    if let (Some(scheme), true) = (scheme, worker.generator.is_leased()) {
        let source = Box::new(Source {
            worker,
            scheme,
            generation,
        });
        let source: &'static Source = Box::leak(source);
        let old = SOURCE.swap(std::ptr::from_ref(source).cast_mut(), Ordering::Relaxed);
        if !old.is_null() {
            // SAFETY: made above by an earlier call; references to it do not
            // outlive the call that asked for them.
            drop(unsafe { Box::from_raw(old) });
        }
        return Ok(source);
    }
    Err(worker)
}

/// The registry of this database.
fn registry() -> Registry {
    Registry {
        database: pg::database().to_u32(),
        catalog: catalog::require_alloc().to_u32(),
    }
}

fn claim(registry: Registry) -> &'static Worker {
    let shared = session::shared();
    if let Some(worker) = shared
        .worker(registry)
        .or_else(|| shared.claim_worker(registry))
    {
        return worker;
    }
    for database in shared.databases_with_workers() {
        if !pg::database_exists(pg_sys::Oid::from(database)) {
            shared.free_workers(database);
        }
    }
    shared
        .claim_worker(registry)
        .unwrap_or_else(|| Trouble::NoRoom.raise())
}

/// Waits for whatever keeps the worker from giving ids, or raises an error.
fn wait(worker: &'static Worker, stop: Stop, patience: &Patience) {
    match stop {
        Stop::Ceiling => wait_for_lease(worker, patience),
        Stop::TimeUsedUp => Trouble::TimeUsedUp(scheme()).raise(),
        Stop::ClockBehind { us } => Trouble::ClockBehind { us }.raise(),
        Stop::Wait { us } => {
            if !sleep(us, patience) {
                worker.waits.timeouts.fetch_add(1, Ordering::Relaxed);
                give_up(&scheme(), &worker.generator, us, patience);
            }
        }
    }
}

/// A wait for the clock was too long: it is behind, or others were faster at
/// every new tick.
fn give_up(scheme: &Scheme, generator: &Generator, us: u64, patience: &Patience) -> ! {
    let last_us = scheme.instant_of(generator.last_tick(&scheme.layout));
    if last_us > pg::unix_us() {
        Trouble::ClockBehind { us }.raise();
    }
    let cause = "the ids of the present tick are used up";
    patience.give_up(Ids::Snowflake, Some(cause.into()))
}

/// Sleeps for so many microseconds, or until patience is over: `false`. Can be
/// cancelled.
pub fn sleep(us: u64, patience: &Patience) -> bool {
    /// A latch sleeps for whole milliseconds, and only a latch is woken by a
    /// cancel: what is shorter than that sleeps without.
    const LATCH_US: u64 = 2_000;
    pg::check_for_interrupts();
    if patience.is_over() {
        return false;
    }
    if us < LATCH_US {
        std::thread::sleep(Duration::from_micros(us));
        return true;
    }
    latch::wait(Duration::from_millis(us / 1_000 - 1).min(patience.next_nap()));
    pg::check_for_interrupts();
    true
}

/// Waits until the loader has leased a worker id or raised its ceiling; raises
/// the error that it was refused.
fn wait_for_lease(worker: &'static Worker, patience: &Patience) {
    let shared = session::shared();
    let registry = registry();
    let attempts = worker.state.shared().attempts;
    enum End {
        Changed,
        Refused(errors::Parts),
        TimedOut,
    }
    let end = worker.changed.wait_for(
        || {
            if shared
                .worker(registry)
                .is_none_or(|now| !std::ptr::eq(now, worker))
            {
                return Some(End::Changed);
            }
            let state = worker.state.shared();
            if state.attempts != attempts {
                return Some(match &state.refusal {
                    Some(refusal) => End::Refused(refusal.parts()),
                    None => End::Changed,
                });
            }
            let scheme = state.scheme;
            drop(state);
            if scheme.is_some_and(|scheme| has_room(worker, &scheme)) {
                return Some(End::Changed);
            }
            if patience.is_over() {
                return Some(End::TimedOut);
            }
            worker.requested.store(true, Ordering::Release);
            patience.call_loader();
            None
        },
        || patience.next_nap(),
    );
    match end {
        End::Changed => {}
        End::Refused(parts) => errors::raise(parts),
        End::TimedOut => {
            worker.waits.timeouts.fetch_add(1, Ordering::Relaxed);
            let cause = worker.state.shared().error.message();
            patience.give_up(Ids::Snowflake, cause);
        }
    }
}

/// Whether the ceiling leaves room for ids now.
fn has_room(worker: &Worker, scheme: &Scheme) -> bool {
    let now = scheme.since_epoch(pg::unix_us());
    worker.generator.has_room(&scheme.layout, now)
}

/// Layout and epoch of this database's ids: as registered, else as they would
/// be now.
pub fn scheme() -> Scheme {
    if let Some(source) = known()
        && source.worker.generator.is_leased()
    {
        return source.scheme;
    }
    let in_memory = || worker()?.state.shared().scheme;
    in_memory()
        .or_else(catalog::worker::registered_scheme)
        .unwrap_or_else(crate::settings::snowflake::scheme)
}

/// This database's worker in shared memory, if it has one.
pub fn worker() -> Option<&'static Worker> {
    let registry = Registry {
        database: pg::database().to_u32(),
        catalog: catalog::alloc()?.to_u32(),
    };
    shmem::shared()?.worker(registry)
}

/// A layout from its text, or an error.
pub fn parse_layout(text: &str) -> Layout {
    text.parse().unwrap_or_else(|error| {
        Error::BadArgument {
            message: format!("unknown layout: {error}"),
            hint: "Name one of the layouts that leaf.snowflake_layout takes.",
        }
        .raise()
    })
}
