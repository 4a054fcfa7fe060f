//! Leases: renewed, ended before their time, and put into force.

use std::time::Duration;

use leaf_core::snowflake::generator::Span;
use leaf_core::snowflake::{Generator, Scheme};

use super::ceilings::{self, Raised};
use super::error::Error;
use super::releases;
use crate::catalog::registry::{self, Registered, Registration};
use crate::error::Problem;
use crate::history;
use crate::pg::{clock, database};
use crate::settings::snowflake as settings;
use crate::shmem::generators::Lease;

/// How the names of servers begin.
pub const SERVER: &str = "server ";

/// Who leases, and what its clock says.
pub struct Claimant {
    /// Its name in the registry.
    pub node: String,
    /// Whether a row of that name is its own. Names that callers choose prove
    /// nothing: such nodes renew with nonce and token, or are new.
    pub is_server: bool,
    /// The worker id it insists on.
    pub worker_id: Option<u64>,
    /// Its clock, in microseconds since 1970.
    pub clock_us: i64,
    /// The registry's clock, read at the same time.
    pub now_us: i64,
    /// The time of the last id it has issued with another worker id.
    pub last_us: Option<i64>,
    /// How far ahead of the clock its ceiling is to be.
    pub ahead_us: i64,
}

impl Claimant {
    /// This server, for the present database.
    pub fn server() -> Self {
        let now_us = clock::unix_us();
        Claimant {
            node: format!("{SERVER}{}", database_history()),
            is_server: true,
            worker_id: settings::worker_id(),
            clock_us: now_us,
            now_us,
            last_us: None,
            ahead_us: default_ahead_us(),
        }
    }

    /// How far its clock is ahead of the registry's.
    pub fn offset_us(&self) -> i64 {
        self.clock_us.saturating_sub(self.now_us)
    }
}

/// A lease with what it is for.
#[derive(Clone, Copy, Debug)]
pub struct Leased {
    pub lease: Lease,
    pub scheme: Scheme,
    /// How far the clock is off the mean of the other nodes'.
    pub clock_offset_us: i64,
}

/// What proves that a lease is the caller's.
#[derive(Clone, Copy, Debug)]
pub struct Proof {
    pub worker_id: i64,
    pub nonce: [u8; 16],
    pub token: i64,
}

impl Proof {
    /// The row of the lease, locked until the transaction ends; an error if the
    /// lease is lost.
    pub fn row(&self) -> Result<Registered, Error> {
        registry::lock_row(self.worker_id)
            .filter(|row| (row.nonce, row.token) == (self.nonce, self.token))
            .ok_or(self.lost())
    }

    /// That the lease is lost.
    pub fn lost(&self) -> Error {
        Error::LeaseLost {
            worker_id: self.worker_id,
        }
    }
}

/// The history of this database: no other database, and no copy that has begun
/// a history of its own, has the same.
pub fn database_history() -> String {
    format!("{}/{}", history::current(), database::current())
}

/// How far ahead of its use a ceiling is made durable.
pub fn default_ahead_us() -> i64 {
    micros(settings::ceiling_ahead())
}

/// Whether ids may begin at an instant while the clock says another.
pub fn may_begin(from_us: i64, clock_us: i64) -> bool {
    from_us.saturating_sub(clock_us) <= micros(settings::max_clock_lead())
}

/// Renews a lease; `None` if it is lost.
pub fn renew(claimant: &Claimant, current: &Leased, last_us: i64) -> Result<Option<Leased>, Error> {
    let lease = &current.lease;
    let kept = kept_ceiling(lease.worker_id);
    if kept.is_some_and(|ceiling| ceiling > lease.ceiling_us) {
        // Another transaction leased it and was rolled back, or this lease's
        // own renewal did not commit.
        return Ok(None);
    }
    let ceiling_us = next_ceiling(claimant, &current.scheme, lease.from_us.max(last_us));
    let renewed = Lease {
        token: lease.token + 1,
        ceiling_us: ceiling_us.max(lease.ceiling_us),
        ..*lease
    };
    let history = database_history();
    let registration = registration(claimant, renewed, &history);
    if !registry::renew(&registration, lease.token) {
        return Ok(None);
    }
    if !keep_ceiling(lease.worker_id, kept, renewed.ceiling_us) {
        Error::Contended.raise();
    }
    Ok(Some(Leased {
        lease: renewed,
        ..*current
    }))
}

/// Ends a lease, of whose time nothing was used from `used_until_us` on, if that
/// is known.
pub fn release(proof: &Proof, used_until_us: Option<i64>) -> Result<(), Error> {
    let row = proof.row()?;
    let ceiling_us = used_until_us.map_or(row.ceiling_us, |used_until_us| {
        let tick = row.scheme().tick_from(used_until_us);
        row.scheme().instant_of(tick).min(row.ceiling_us)
    });
    registry::release(proof.worker_id, ceiling_us, clock::unix_us());
    releases::record(row.worker_id as u64, row.ceiling_us, ceiling_us);
    Ok(())
}

/// What is written of a lease.
pub fn registration<'e>(
    claimant: &'e Claimant,
    lease: Lease,
    history: &'e str,
) -> Registration<'e> {
    let kept_for = micros(settings::worker_lease());
    Registration {
        lease,
        node: &claimant.node,
        history,
        leased_until_us: claimant
            .now_us
            .max(lease.ceiling_us)
            .saturating_add(kept_for),
        now_us: claimant.now_us,
        clock_offset_us: claimant.offset_us(),
    }
}

/// Up to when ids may be issued: a while ahead of the clock, and at least a
/// part of it, and two ticks, ahead of the last id, which may be ahead of the
/// clock itself.
pub fn next_ceiling(claimant: &Claimant, scheme: &Scheme, last_us: i64) -> i64 {
    let (clock_us, ahead_us) = (claimant.clock_us, claimant.ahead_us);
    let wanted = (clock_us.saturating_add(ahead_us)).max(last_us.saturating_add(ahead_us / 4));
    let two_ticks = scheme.tick_at(clock_us.max(last_us)).saturating_add(2);
    let tick = scheme.tick_from(wanted).max(two_ticks);
    scheme.instant_of(tick.min(scheme.layout.ticks()))
}

/// Makes a lease known to a generator that had `before`.
pub fn install(generator: &Generator, before: Option<Leased>, leased: &Leased) {
    let (scheme, lease) = (&leased.scheme, &leased.lease);
    let ceiling = scheme.tick_at(lease.ceiling_us);
    let now_us = scheme.since_epoch(clock::unix_us());
    let from = scheme.tick_at(lease.from_us);
    let begins = scheme.tick_at(clock::unix_us()).max(from);
    let is_renewal = before.is_some_and(|before| before.lease.nonce == lease.nonce);
    if is_renewal {
        let begins = begins.max(generator.last_tick(&scheme.layout));
        generator.extend(&scheme.layout, ceiling, midway(begins, ceiling));
    } else {
        let span = Span {
            worker: lease.worker_id,
            from,
            ceiling,
            renew_at: midway(begins, ceiling),
        };
        // Where another worker id comes into force, later ids are still larger.
        generator.install_above(&scheme.layout, span, now_us);
    }
}

fn midway(from: u64, to: u64) -> u64 {
    from + to.saturating_sub(from) / 2
}

/// What the file says of a worker id.
pub fn kept_ceiling(worker_id: u64) -> Option<i64> {
    ceilings::read(database::current(), worker_id).unwrap_or_else(|error| unusable("read", error))
}

/// Raises what the file says; `false` if somebody else has done so meanwhile.
pub fn keep_ceiling(worker_id: u64, from: Option<i64>, to: i64) -> bool {
    match ceilings::raise(database::current(), worker_id, from, to) {
        Ok(raised) => raised == Raised::Done,
        Err(error) => unusable("write", error),
    }
}

/// Raises the error that the file cannot be used.
pub fn unusable(what: &'static str, cause: std::io::Error) -> ! {
    let path = ceilings::path(database::current()).display().to_string();
    Error::File { what, path, cause }.raise()
}

/// A duration in microseconds, as far as they fit.
pub fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}
