//! Worker ids for other nodes, which the loader leases: it commits a registration by itself, so
//! that a transaction of the caller's, however long it lasts, holds up no other registration.

use leaf_core::grant::Decision;

use super::wanted;
use crate::catalog::{self, relation};
use crate::error::Report;
use crate::lease::{Leased, registration};
use crate::loader::work::Done;
use crate::pg::own_xact;
use crate::shmem::Shared;
use crate::shmem::generators::Refusal;
use crate::shmem::mailbox::{Answer, LoaderRequest, Request};

/// Whether a request is one of these.
pub fn is_registration(asked: &LoaderRequest) -> bool {
    asked.registration().is_some()
}

/// Leases to all who ask, in one transaction; if that fails, to each alone.
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
        let leased = catalog::as_owner(|| registration::register_nodes(&nodes, &wanted));
        Some((catalog, leased))
    };
    let settle = |(catalog, leased): (u32, Vec<Result<Leased, Report>>)| {
        let mut leased = leased.into_iter();
        let mut answer = |request: &Request| {
            // Otherwise the extension was dropped.
            let is_of_catalog = request.key.catalog == catalog;
            match is_of_catalog.then(|| leased.next()).flatten() {
                Some(Ok(Leased { lease, scheme, .. })) => Answer::Leased { lease, scheme },
                Some(Err(error)) => Answer::Refused(Refusal::of(&error)),
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
