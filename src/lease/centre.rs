//! A server's own lease below one that a centre has granted.
//!
//! If `leaf.upstream` is set, the registry of the centre leases the worker id: to this
//! database in its present history, for as long as `leaf.upstream_lease`. The row of this
//! server keeps that lease. Below its ceiling, the server raises its own, short ceiling as it
//! would alone, so that ids go on while the centre is away.

use uuid::Uuid;

use super::{Claimant, Leased, Start, error, registration};
use crate::catalog::registry::{self, UpstreamLease};
use crate::error::Report;
use crate::history;
use crate::pg::clock;
use crate::settings::upstream::{self as settings, CentreDigest};
use crate::shmem::generators::Standing;

/// A digest of `leaf.upstream` as the row keeps it.
pub fn text_of(digest: CentreDigest) -> String {
    Uuid::from_bytes(digest).simple().to_string()
}

/// The question to the centre.
pub enum Question {
    /// A lease.
    Register,
    /// A higher ceiling for this one.
    Renew(Box<UpstreamLease>),
}

/// The result of an attempt to lease or renew.
pub enum Attempt {
    /// The ceiling was raised, and the centre need not be asked.
    Leased(Leased),
    /// The centre has to be asked. With the lease that may be used meanwhile, if any may.
    Ask(Question, Option<Leased>),
    /// The centre has answered, and the lease is not one of its registry.
    Lost,
}

/// Leases or renews, as far as the lease from the centre allows. Runs in a transaction, as the
/// owner of the registry.
///
/// The centre is asked when half of the lease is left, and at once after a connection was made,
/// which may lead to another server than before, until it has answered. With another setting,
/// no ids are issued before that, unless it names the same centre, which is away. `connection` is the
/// number of the current connection, in the process that has one.
pub fn attempt(
    start: &Start,
    standing: &Standing,
    connection: Option<u64>,
) -> Result<Attempt, Report> {
    let &Start {
        ref wanted, last, ..
    } = start;
    let server = Claimant::server(wanted);
    let own = registry::upstream_lease(&server.node).filter(|own| {
        let wanted = server.worker_id;
        wanted.is_none_or(|worker_id| worker_id == own.held.terms.worker_id as u64)
    });
    let Some(own) = own else {
        return Ok(Attempt::Ask(Question::Register, None));
    };
    let (now, setting) = (clock::now(), wanted.centre);
    // Without a centre, there is no other one, either.
    let is_of_setting = settings::upstream().is_none()
        || own.setting == text_of(setting)
        || standing.same_centre == Some(setting);
    if own.held.terms.ceiling <= now.max(last) || !is_of_setting {
        return Ok(Attempt::Ask(Question::Renew(Box::new(own)), None));
    }
    let is_confirmed = connection.is_some_and(|it| standing.confirmed == Some((setting, it)));
    let is_near = own.held.terms.ceiling <= now + settings::lease() / 2;
    let leased = raise(server, own.clone(), start)?;
    Ok(match is_confirmed && !is_near {
        true => Attempt::Leased(leased),
        false => Attempt::Ask(Question::Renew(Box::new(own)), Some(leased)),
    })
}

/// Raises the server's own ceiling, below that of the centre's lease.
fn raise(server: Claimant, own: UpstreamLease, start: &Start) -> Result<Leased, Report> {
    let worker_id = own.held.terms.worker_id as u64;
    let claimant = Claimant {
        limit: Some(own.held.terms.ceiling),
        worker_id: Some(worker_id),
        ..server
    };
    let last = start.last;
    if let Some(current) = start.current.filter(|it| it.lease.worker_id == worker_id)
        && let Some(renewed) = super::renew(&claimant, &current, last, current.lease.token + 1)?
    {
        return Ok(renewed);
    }
    begin(claimant, own)
}

/// Begins a lease of the server's own with a worker id of the centre.
pub fn begin(claimant: Claimant, own: UpstreamLease) -> Result<Leased, Report> {
    let scheme = registration::scheme(&claimant.scheme)?;
    let history = history::of_database();
    let worker_id = own.held.terms.worker_id;
    let row = registry::row(i64::from(worker_id));
    let begun = registration::begin(&claimant, &history, scheme, worker_id as u64, row.as_ref())?;
    registry::keep_upstream_lease(&own);
    begun.ok_or(error::contended())
}

/// The leases from the centre are lost: another one is needed.
pub fn forget() {
    registry::forget_upstream_leases(&super::server_name());
}
