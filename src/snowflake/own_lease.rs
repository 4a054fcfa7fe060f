//! A lease that only this session knows of.
//!
//! In the transaction that creates the extension nobody else sees the registry,
//! and in single-user mode there is nobody else. The session then leases for
//! itself, with the same statements. Should they be rolled back, the ids that
//! were drawn are not: the file of [`ceilings`](super::ceilings) remembers.

use std::cell::RefCell;

use leaf_core::snowflake::Generator;
use leaf_core::snowflake::generator::Stop;

use super::environment::Outside;
use super::lease::{self, Leased};
use super::{Run, Trouble, sleep};
use crate::catalog;
use crate::error::Error;
use crate::patience::Patience;
use crate::pg::{self, heap, xact};
use crate::shmem::Shared;
use crate::transaction;

struct Private {
    /// The oid of `leaf.worker`.
    registry: u32,
    leased: Leased,
    generator: Box<Generator>,
}

thread_local! {
    static PRIVATE: RefCell<Option<Private>> = const { RefCell::new(None) };
}

/// Draws from the session's own lease, if this is a case for one.
pub fn draw(shared: &Shared, count: u64, patience: &Patience) -> Option<Run> {
    let registry = registry_of_our_own()?;
    loop {
        let taken = PRIVATE.with_borrow(|private| {
            let private = private.as_ref().filter(|it| it.registry == registry)?;
            let scheme = &private.leased.scheme;
            let outside = Outside::new(scheme);
            Some(private.generator.take(&scheme.layout, count, &outside))
        });
        match taken {
            Some(Ok(taken)) => return Some(taken.into()),
            None | Some(Err(Stop::Ceiling)) => obtain(shared, registry),
            Some(Err(Stop::Wait { us })) if sleep(us, patience) => {}
            Some(Err(Stop::Wait { us })) => PRIVATE.with_borrow(|private| {
                let private = private.as_ref().expect("it was just drawn from");
                super::give_up(&private.leased.scheme, &private.generator, us, patience)
            }),
            Some(Err(Stop::ClockBehind { us })) => Trouble::ClockBehind { us }.raise(),
            Some(Err(Stop::TimeUsedUp)) => Trouble::TimeUsedUp(super::scheme()).raise(),
        }
    }
}

/// The registry, if nobody else can lease from it.
fn registry_of_our_own() -> Option<u32> {
    if !pg::under_postmaster() {
        catalog::require_alloc();
        return catalog::worker::relation().map(|oid| oid.to_u32());
    }
    if !xact::has_written() {
        return None;
    }
    let registry = catalog::worker::relation()?;
    if xact::is_parallel_worker() && heap::is_own_version_of_relation(registry) {
        Error::ParallelRegistry.raise();
    }
    heap::is_created_here(registry).then(|| registry.to_u32())
}

/// Leases, or raises the ceiling.
fn obtain(shared: &Shared, registry: u32) {
    transaction::involve();
    if !pg::under_postmaster() {
        // What the last shutdown left lies below what is drawn from now on.
        for (registry, _) in shared.workers_of(pg::database().to_u32()) {
            shared.retire_worker(registry);
        }
    }
    let current = PRIVATE.with_borrow(|private| {
        let private = private.as_ref().filter(|it| it.registry == registry)?;
        let tick = private.generator.last_tick(&private.leased.scheme.layout);
        Some((private.leased, private.leased.scheme.instant_of(tick)))
    });
    let (current, last_us) = current.unzip();
    let leased = xact::writable(|| {
        catalog::as_owner(|| lease::for_server(shared, current, last_us.unwrap_or(i64::MIN)))
    });
    let leased = leased.unwrap_or_else(|trouble| trouble.raise());
    PRIVATE.with_borrow_mut(|private| {
        let kept = private
            .take()
            .filter(|it| it.registry == registry)
            .map(|it| it.generator);
        let generator = kept.unwrap_or_default();
        lease::install(&generator, current, &leased);
        *private = Some(Private {
            registry,
            leased,
            generator,
        });
    });
}

/// After a transaction: others may see the registry now, or it is gone.
pub fn end_of_transaction() {
    if pg::under_postmaster() {
        PRIVATE.take();
    }
}
