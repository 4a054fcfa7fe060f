//! Worker ids for other nodes, which the loader leases: it commits a registration by itself, so
//! that a transaction of the caller's, however long it lasts, holds up no other registration.

use leaf_core::grant::Decision;
use pgrx::pg_sys;

use super::error::Error;
use super::lease::{Claimant, Leased};
use super::{own_lease, registration, upstream, wanted};
use crate::catalog::{self, relation};
use crate::error::Problem;
use crate::loader::work::Done;
use crate::patience::{Ids, Patience};
use crate::pg::{database, own_xact, role};
use crate::settings::snowflake::{self as settings, Wanted};
use crate::shmem::Shared;
use crate::shmem::generators::Refusal;
use crate::shmem::key::KeyRef;
use crate::shmem::mailbox::{Answer, Asked, Registration, Request};
use crate::{asking, shmem};

/// Leases a worker id to a node.
pub fn register(node: &Registration) -> Leased {
    shmem::require();
    asking::require_grants();
    if own_lease::case_for_one().is_some() {
        // No loader sees the registry.
        let wanted = settings::wanted();
        let leased = catalog::as_owner(|| lease(&[node], &wanted)).pop();
        let leased = leased.expect("one outcome for each node");
        return leased.unwrap_or_else(|error| error.raise());
    }
    let key = KeyRef {
        database: database::current(),
        catalog: relation::require_alloc().to_u32(),
        tag: b"",
    };
    let patience = Patience::new(Ids::Snowflake);
    loop {
        match asking::ask_loader(key, [0; 16], Asked::WorkerId(*node), &patience) {
            Answer::Leased { lease, scheme } => {
                return Leased {
                    lease,
                    scheme,
                    clock_offset_us: 0,
                };
            }
            Answer::Refused(refusal) => refusal.report().raise(),
            _ => {}
        }
    }
}

/// Whether a request is one of these.
pub fn is_registration(asked: &Asked) -> bool {
    asked.registration().is_some()
}

/// What the loader does: leases to all who ask, in one transaction; if that fails, to each alone.
pub fn answer(shared: &Shared, database: u32) -> Done {
    let requests = shared.mailbox.take_of(database, is_registration);
    match requests.len() {
        0 => Done::Nothing,
        1 => lease_to(shared, &requests, true),
        _ => match lease_to(shared, &requests, false) {
            Done::Nothing => {
                for one in requests.chunks(1) {
                    if lease_to(shared, one, true) == Done::Leave {
                        return Done::Leave;
                    }
                }
                Done::Something
            }
            done => done,
        },
    }
}

/// `Done::Nothing` if the transaction has failed and the requests are not put back.
fn lease_to(shared: &Shared, requests: &[Request], puts_back: bool) -> Done {
    let attempt = || {
        let catalog = relation::alloc()?.to_u32();
        let wanted = wanted::of_database();
        let nodes: Vec<_> = (requests.iter())
            .filter(|request| request.key.catalog == catalog)
            .filter_map(|request| request.asked.registration())
            .collect();
        let leased = catalog::as_owner(|| lease(&nodes, &wanted));
        Some((catalog, leased))
    };
    let settle = |(catalog, leased): (u32, Vec<Result<Leased, Error>>)| {
        let mut leased = leased.into_iter();
        let mut answer = |request: &Request| {
            // Otherwise the extension was dropped.
            let is_of_catalog = request.key.catalog == catalog;
            match is_of_catalog.then(|| leased.next()).flatten() {
                Some(Ok(Leased { lease, scheme, .. })) => Answer::Leased { lease, scheme },
                Some(Err(error)) => Answer::Refused(Refusal::of(&error.report())),
                None => Answer::Decided(Decision::Changed),
            }
        };
        let answers = requests.iter();
        let answers: Vec<_> = answers.map(|it| (it.id, answer(it))).collect();
        shared.mailbox.answer_all(&answers);
    };
    match own_xact::run_briefly(attempt, settle) {
        Ok(true) => Done::Something,
        Ok(false) => Done::Leave,
        Err(failure) if puts_back => {
            for request in requests {
                shared.mailbox.put_back(request.id, &failure.message);
            }
            Done::Something
        }
        Err(_) => Done::Nothing,
    }
}

/// Leases worker ids to nodes, in a transaction and as the owner of the registry.
fn lease(nodes: &[&Registration], wanted: &Wanted) -> Vec<Result<Leased, Error>> {
    if upstream::is_shard() {
        return nodes.iter().map(|_| Err(Error::IsShard)).collect();
    }
    let claimant = |node: &&Registration| {
        let role = pg_sys::Oid::from(node.role);
        let is_limited = !role::is_superuser(role);
        Claimant {
            role: is_limited.then(|| (role::name_of(role), node.max_leases)),
            nonce: node.nonce,
            worker_id: node.worker_id,
            ahead: node.ahead,
            ..Claimant::node(node.node.get(), node.clock, node.now, wanted)
        }
    };
    let claimants: Vec<_> = nodes.iter().map(claimant).collect();
    registration::register_all(&claimants)
}
