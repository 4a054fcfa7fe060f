//! The registry of the centre, as the loader asks it for a lease, and for higher ceilings.

use std::cell::RefCell;

use leaf_core::snowflake::lease::{HeldLease, Renewed};
use uuid::Uuid;

use crate::catalog::registry::{self, UpstreamLease};
use crate::error::Report;
use crate::history;
use crate::lease::centre::{Attempt, Question, attempt, begin, forget, text_of};
use crate::lease::{self, Claimant, Start, error, random_token, registration};
use crate::loader::conversation::message::{Answered, Demand, Registry, Reply};
use crate::loader::conversation::{self, RequestId};
use crate::settings::snowflake::LeaseSettings;
use crate::settings::upstream::{self as settings, CentreDigest};
use crate::shmem::generators::{Registry as OfDatabase, Standing};
use crate::shmem::upstream::Denial;

/// Stores what the centre has answered, and leases accordingly. Runs as [`attempt`] does.
pub fn store(
    start: &Start,
    standing: &mut Standing,
    answered: &Answered,
) -> Result<Attempt, Report> {
    let &Start {
        ref wanted,
        current,
        last,
    } = start;
    let setting = answered.setting;
    let of_centre = |held, from: &Registry| UpstreamLease {
        held,
        address: from.address.clone(),
        setting: text_of(setting),
    };
    match (&answered.answer, &answered.demand) {
        (
            Ok(Reply::Leased {
                nonce,
                token,
                terms,
                from,
            }),
            _,
        ) => {
            let scheme = registration::scheme(&wanted.scheme)?;
            if terms.scheme != scheme {
                return Err(error::other_scheme(terms.scheme, scheme));
            }
            let held = HeldLease::granted(*terms, *nonce, *token, from.identity.clone());
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
            Ok(Reply::Renewed {
                token,
                ceiling,
                from,
            }),
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
                Err(_) => return Err(error::upstream(Denial::Refused)),
            }
            registry::keep_upstream_lease(&of_centre(held, from));
            standing.confirmed = Some((setting, from.connection));
            attempt(start, standing, conversation::connection())
        }
        (Err(Denial::LeaseLost), _) => {
            forget();
            Ok(Attempt::Lost)
        }
        (Ok(Reply::Renewed { .. } | Reply::Granted { .. }) | Err(_), _) => Err(error::contended()),
    }
}

/// The effect on the lease if the centre that a setting names is silent.
pub fn unanswered(standing: &mut Standing, denial: Denial, setting: CentreDigest) {
    if denial == Denial::SameAway {
        standing.same_centre = Some(setting);
    }
}

fn register(wanted: &LeaseSettings) -> Demand {
    if let Some(again @ Demand::Register { .. }) = UNANSWERED.with_borrow(Clone::clone) {
        return again;
    }
    Demand::Register {
        node: format!("shard {}", history::of_database()),
        worker_id: wanted.worker_id,
        nonce: *Uuid::new_v4().as_bytes(),
        ahead: settings::lease(),
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
        ahead: settings::lease(),
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
pub fn ask(registry: OfDatabase, question: Question, wanted: &LeaseSettings) {
    if UNDER_WAY.with_borrow(Option::is_some) {
        return;
    }
    let demand = match question {
        Question::Register => register(wanted),
        Question::Renew(own) => renew(&own),
    };
    UNANSWERED.set(Some(demand.clone()));
    UNDER_WAY.set(Some((registry, conversation::post(demand))));
}

/// The answer of the centre, if there is one.
pub fn answered() -> Option<(OfDatabase, Answered)> {
    let (registry, id) = UNDER_WAY.with_borrow(|it| *it)?;
    let answered = conversation::collect(id)?;
    UNDER_WAY.take();
    let denial = answered.answer.as_ref().err();
    if denial.is_none_or(|denial| denial.is_definite()) {
        UNANSWERED.take();
    }
    Some((registry, answered))
}
