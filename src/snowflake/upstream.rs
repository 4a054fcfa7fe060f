//! Worker ids from a centre.
//!
//! If `leaf.upstream` is set, the registry of the centre leases the worker id: to this
//! database in its present history, for as long as `leaf.upstream_lease`. The row of this
//! server keeps that lease. Below its ceiling, the server raises its own, short ceiling as it
//! would alone, so that ids go on while the centre is away.

use std::cell::RefCell;

use leaf_core::snowflake::lease::{Held, Renewed};
use leaf_core::time::WallTime;
use uuid::Uuid;

use super::error::Error;
use super::lease::{self, Claimant, Leased, random_token};
use super::registration;
use crate::catalog;
use crate::catalog::registry::{self, UpstreamLease};
use crate::history;
use crate::link::message::{Answered, Demand, Registry, Reply};
use crate::link::{self, RequestId};
use crate::pg::clock;
use crate::settings::snowflake::Wanted;
use crate::settings::upstream::{self as upstream_settings, CentreDigest};
use crate::shmem::generators::{Registry as OfDatabase, Standing};
use crate::shmem::upstream::Denial;

/// Whether the worker id of this database comes from a centre.
pub fn is_shard() -> bool {
    upstream_settings::upstream().is_some() || catalog::as_owner(registry::is_of_shard)
}

/// A digest of `leaf.upstream` as the row keeps it.
fn text_of(digest: CentreDigest) -> String {
    Uuid::from_bytes(digest).simple().to_string()
}

/// What an attempt to lease or renew has come to.
pub enum Attempt {
    /// The ceiling was raised, and the centre need not be asked.
    Leased(Leased),
    /// The centre has to be asked. With the lease that may be used meanwhile, if any may.
    Ask(Box<Demand>, Option<Leased>),
    /// The centre has answered, and the lease is not one of its registry.
    Lost,
}

/// Leases or renews, as far as the lease from the centre allows. Runs in a transaction, as the
/// owner of the registry. `current` is the lease in force, `last` the time of the last id.
///
/// The centre is asked when half of the lease is left, and at once after a connection was made,
/// which may lead to another server than before, until it has answered. With another setting,
/// no ids are issued before that, unless it names the same centre, which is away.
pub fn attempt(
    wanted: &Wanted,
    standing: &Standing,
    current: Option<Leased>,
    last: WallTime,
) -> Result<Attempt, Error> {
    let server = Claimant::server(wanted);
    let own = registry::upstream_lease(&server.node).filter(|own| {
        let wanted = server.worker_id;
        wanted.is_none_or(|worker_id| worker_id == own.held.terms.worker_id as u64)
    });
    let Some(own) = own else {
        return Ok(Attempt::Ask(Box::new(register(wanted)), None));
    };
    let (now, setting) = (clock::now(), wanted.centre);
    // Without a centre, there is no other one, either.
    let is_of_setting = upstream_settings::upstream().is_none()
        || own.setting == text_of(setting)
        || standing.is_same == Some(setting);
    if own.held.terms.ceiling <= now.max(last) || !is_of_setting {
        return Ok(Attempt::Ask(Box::new(renew(&own)), None));
    }
    let connection = link::connection();
    let is_confirmed = connection.is_some_and(|it| standing.confirmed == Some((setting, it)));
    let is_near = own.held.terms.ceiling <= now + upstream_settings::lease() / 2;
    let demand = (is_near || !is_confirmed).then(|| renew(&own));
    let leased = raise(server, own, current, last)?;
    Ok(match demand {
        Some(demand) => Attempt::Ask(Box::new(demand), Some(leased)),
        None => Attempt::Leased(leased),
    })
}

/// What the silence of the centre that a setting names means for the lease.
pub fn unanswered(standing: &mut Standing, denial: Denial, setting: CentreDigest) {
    if denial == Denial::SameAway {
        standing.is_same = Some(setting);
    }
}

/// Raises the server's own ceiling, below that of the centre's lease.
fn raise(
    server: Claimant,
    own: UpstreamLease,
    current: Option<Leased>,
    last: WallTime,
) -> Result<Leased, Error> {
    let worker_id = own.held.terms.worker_id as u64;
    let claimant = Claimant {
        limit: Some(own.held.terms.ceiling),
        worker_id: Some(worker_id),
        ..server
    };
    if let Some(current) = current.filter(|it| it.lease.worker_id == worker_id)
        && let Some(renewed) = lease::renew(&claimant, &current, last, current.lease.token + 1)?
    {
        return Ok(renewed);
    }
    begin(claimant, own)
}

/// Begins a lease of the server's own with a worker id of the centre.
fn begin(claimant: Claimant, own: UpstreamLease) -> Result<Leased, Error> {
    let scheme = registration::scheme(&claimant.scheme)?;
    let history = history::of_database();
    let worker_id = own.held.terms.worker_id;
    let row = registry::row(i64::from(worker_id));
    let begun = registration::begin(&claimant, &history, scheme, worker_id as u64, row.as_ref())?;
    registry::keep_upstream_lease(&own);
    begun.ok_or(Error::Contended)
}

/// Stores what the centre has answered that `setting` names, and leases accordingly. Runs as [`attempt`] does.
pub fn store(
    wanted: &Wanted,
    standing: &mut Standing,
    (demand, setting, reply): (&Demand, CentreDigest, &Reply),
    current: Option<Leased>,
    last: WallTime,
) -> Result<Attempt, Error> {
    let of_centre = |held, from: &Registry| UpstreamLease {
        held,
        address: from.address.clone(),
        setting: text_of(setting),
    };
    match (reply, demand) {
        (
            Reply::Leased {
                nonce,
                token,
                terms,
                from,
            },
            _,
        ) => {
            let scheme = registration::scheme(&wanted.scheme)?;
            if terms.scheme != scheme {
                return Err(Error::OtherScheme {
                    registered: terms.scheme,
                    wanted: scheme,
                });
            }
            let held = Held::granted(*terms, *nonce, *token, from.identity.clone());
            let own = of_centre(held, from);
            let server = Claimant::server(wanted);
            let claimant = Claimant {
                limit: Some(terms.ceiling),
                not_before: Some(terms.start),
                worker_id: Some(terms.worker_id as u64),
                last: current
                    .map(|_| last)
                    .filter(|&last| lease::may_begin(last, server.clock)),
                ..server
            };
            let leased = begin(claimant, own)?;
            standing.confirmed = Some((setting, from.connection));
            Ok(Attempt::Leased(leased))
        }
        (
            Reply::Renewed {
                token,
                ceiling,
                from,
            },
            Demand::Renew { nonce, .. },
        ) => {
            let own = registry::upstream_lease(&lease::server_name());
            let Some(UpstreamLease { mut held, .. }) = own.filter(|own| own.held.nonce == *nonce)
            else {
                forget();
                return Ok(Attempt::Lost);
            };
            match held.renewed(*token, *ceiling, from.identity.clone()) {
                // In another history, it is the same lease, and the row says so.
                Ok(Renewed::Confirmed | Renewed::FailedOver) => {}
                Ok(Renewed::OtherRegistry) => {
                    forget();
                    return Ok(Attempt::Lost);
                }
                Err(_) => return Err(Error::Upstream(Denial::Refused)),
            }
            registry::keep_upstream_lease(&of_centre(held, from));
            standing.confirmed = Some((setting, from.connection));
            attempt(wanted, standing, current, last)
        }
        (Reply::Renewed { .. } | Reply::Granted { .. }, _) => Err(Error::Contended),
    }
}

/// The leases from the centre are lost: another one is needed.
pub fn forget() {
    registry::forget_upstream_leases(&lease::server_name());
}

fn register(wanted: &Wanted) -> Demand {
    if let Some(again @ Demand::Register { .. }) = UNANSWERED.with_borrow(Clone::clone) {
        return again;
    }
    Demand::Register {
        node: format!("shard {}", history::of_database()),
        worker_id: wanted.worker_id,
        nonce: *Uuid::new_v4().as_bytes(),
        ahead: upstream_settings::lease(),
    }
}

fn renew(own: &UpstreamLease) -> Demand {
    let mut held = own.held.clone();
    if let Some(Demand::Renew {
        nonce,
        token,
        next_token,
        ..
    }) = UNANSWERED.with_borrow(Clone::clone)
        && (nonce, token) == (held.nonce, held.token)
    {
        held.next_token = Some(next_token);
    }
    Demand::Renew {
        worker_id: held.terms.worker_id as u64,
        nonce: held.nonce,
        token: held.token,
        next_token: held.propose(random_token),
        ahead: upstream_settings::lease(),
        address: own.address.clone(),
    }
}

thread_local! {
    /// The generator's registry, and the request that waits for the centre.
    static UNDER_WAY: RefCell<Option<(OfDatabase, RequestId)>> = const { RefCell::new(None) };
    /// A request of which it is not known whether the centre has done it. Repeated, it comes to
    /// the same.
    static UNANSWERED: RefCell<Option<Demand>> = const { RefCell::new(None) };
}

/// Asks the centre, unless it is being asked. Raises no error.
pub fn ask(registry: OfDatabase, demand: Demand) {
    if UNDER_WAY.with_borrow(Option::is_some) {
        return;
    }
    UNANSWERED.set(Some(demand.clone()));
    UNDER_WAY.set(Some((registry, link::post(demand))));
}

/// What the centre has answered, if it has.
pub fn answered() -> Option<(OfDatabase, Answered)> {
    let (registry, id) = UNDER_WAY.with_borrow(|it| *it)?;
    let answered = link::collect(id)?;
    UNDER_WAY.take();
    let denial = answered.answer.as_ref().err();
    if denial.is_none_or(|denial| denial.is_definite()) {
        UNANSWERED.take();
    }
    Some((registry, answered))
}
