//! A lease that only this session uses.
//!
//! In the transaction that creates the extension, no other session sees the registry. The session
//! then leases for itself, with the same statements. If they are rolled back, the ids that were drawn
//! remain in use; their ceiling is kept in the file of [`ceilings`](crate::lease::ceilings).

use std::cell::RefCell;

use leaf_core::snowflake::generator::{Stop, Taken};
use leaf_core::snowflake::{Generator, Scheme};
use leaf_core::time::WallTime;
use pgrx::PgSqlErrorCode as Code;

use super::environment::PgEnvironment;
use crate::catalog::{self, relation};
use crate::error::Report;
use crate::lease::centre::{self, Attempt};
use crate::lease::{self, Leased, Start, registration};
use crate::pg::{heap, xact, xact_end};
use crate::settings::snowflake as settings;
use crate::shmem::generators::Standing;

struct OwnLeaseState {
    /// The OID of `leaf.worker`.
    registry: u32,
    leased: Leased,
    generator: Box<Generator>,
}

thread_local! {
    static KEPT: RefCell<Option<OwnLeaseState>> = const { RefCell::new(None) };
}

/// A registry from which only this session can lease.
pub struct OwnLease {
    /// The OID of `leaf.worker`.
    registry: u32,
}

/// The registry, if this session has to lease for itself.
pub fn registry_of_this_session() -> Option<OwnLease> {
    if !xact::has_written() {
        return None;
    }
    let registry = relation::worker()?;
    if xact::is_parallel_worker() && heap::is_own_version_of_relation(registry) {
        // When: a parallel plan in the transaction that has created the extension
        Report::new(
            Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            "cannot draw snowflake ids in a parallel query",
            "Commit the transaction first, or set max_parallel_workers_per_gather to 0.",
        )
        .detail("The extension was created by the transaction that runs the query.")
        .raise();
    }
    heap::is_created_here(registry).then(|| OwnLease {
        registry: registry.to_u32(),
    })
}

impl OwnLease {
    /// Takes up to `count` ids without waiting.
    pub fn take(&self, count: u64) -> Result<Taken, Stop> {
        KEPT.with_borrow(|kept| {
            let kept = kept.as_ref().filter(|it| it.registry == self.registry);
            let kept = kept.ok_or(Stop::Ceiling)?;
            let scheme = &kept.leased.scheme;
            let outside = PgEnvironment::new(scheme);
            kept.generator.take(&scheme.layout, count, &outside)
        })
    }

    /// Calls `show` with the generator and its scheme, if there has been a lease.
    pub fn with(&self, show: impl FnOnce(&Scheme, &Generator)) {
        KEPT.with_borrow(|kept| {
            if let Some(kept) = kept {
                show(&kept.leased.scheme, &kept.generator);
            }
        });
    }

    /// Leases, or raises the ceiling.
    pub fn obtain(&self) {
        xact_end::involve();
        let current = KEPT.with_borrow(|kept| {
            let kept = kept.as_ref().filter(|it| it.registry == self.registry)?;
            let tick = kept.generator.last_tick(&kept.leased.scheme.layout);
            Some((kept.leased, kept.leased.scheme.instant_of(tick)))
        });
        let (current, last) = current.unzip();
        let leased = xact::writable(|| {
            let start = Start {
                wanted: settings::wanted(),
                current,
                last: last.unwrap_or(WallTime::MIN),
            };
            if !lease::is_shard() {
                return catalog::as_owner(|| registration::for_server(&start));
            }
            let attempt = || centre::attempt(&start, &Standing::default(), None);
            match catalog::as_owner(attempt)? {
                Attempt::Leased(leased) | Attempt::Ask(_, Some(leased)) => Ok(leased),
                // When: a draw in the transaction that creates the extension, with `leaf.upstream`
                // set
                Attempt::Ask(_, None) | Attempt::Lost => Err(Report::not_ready(
                    "the worker id for snowflake ids has to come from the centre",
                    "Commit the transaction that creates the extension first.",
                )),
            }
        });
        let leased = leased.unwrap_or_else(|error| error.raise());
        KEPT.with_borrow_mut(|kept| {
            let same = kept.take().filter(|it| it.registry == self.registry);
            let generator = same.map(|it| it.generator).unwrap_or_default();
            lease::install(&generator, current, &leased);
            *kept = Some(OwnLeaseState {
                registry: self.registry,
                leased,
                generator,
            });
        });
    }
}

/// Called after a transaction: other sessions may see the registry now, or it no longer
/// exists.
pub fn end_of_transaction() {
    KEPT.take();
}
