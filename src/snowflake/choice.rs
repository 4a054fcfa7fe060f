//! Which worker id a node gets, according to the registry, the file of ceilings and the
//! settings.

use leaf_core::snowflake::Scheme;
use leaf_core::snowflake::choice::{Held, Holder, Refused, Request, choose};
use leaf_core::time::WallTime;
use uuid::Uuid;

use super::ceilings;
use super::error::Error;
use super::lease::{Claimant, may_begin, unusable};
use crate::catalog::registry::Registered;
use crate::pg::database;
use crate::settings::snowflake as settings;

/// Chooses a worker id for a claimant of the database's present history.
pub fn choose_worker_id(
    claimant: &Claimant,
    rows: &[Registered],
    history: &str,
    scheme: Scheme,
) -> Result<u64, Error> {
    let mut held: Vec<Held> = rows
        .iter()
        .map(|row| held(claimant, row, history))
        .collect();
    if claimant.worker_id.is_none() {
        hold_what_was_undone(&mut held, claimant.now);
    }
    let request = Request {
        worker_id: claimant.worker_id,
        worker_ids: scheme.layout.worker_ids(),
        now: claimant.now,
        reuse_after: settings::worker_reuse_after(),
        random: Uuid::new_v4().as_u64_pair().0,
    };
    choose(&held, &request).map_err(|refused| {
        let worker_id = request.worker_id.unwrap_or_default();
        let row = rows.iter().find(|row| row.worker_id == worker_id as i64);
        let node = row.map_or_else(String::new, |row| row.node.clone());
        match refused {
            Refused::OutOfRange => Error::OutOfRange { worker_id, scheme },
            Refused::Held => Error::Held {
                worker_id,
                node,
                until: until_of(&held, worker_id),
            },
            Refused::HeldInOtherHistory => Error::HeldInOtherHistory { worker_id, node },
            Refused::NoneLeft => Error::NoWorkerId(scheme),
        }
    })
}

/// Until when a worker id is held.
fn until_of(held: &[Held], worker_id: u64) -> WallTime {
    let row = held.iter().find(|row| row.worker_id == worker_id);
    row.map(|row| row.leased_until).unwrap_or_default()
}

fn held(claimant: &Claimant, row: &Registered, history: &str) -> Held {
    Held {
        worker_id: row.worker_id as u64,
        holder: if row.history != history {
            Holder::OtherHistory
        } else if claimant.is_server && row.node == claimant.node {
            Holder::Self_
        } else {
            Holder::Other
        },
        // Until the clock comes near the ceiling, a new lease could not begin, so the
        // worker id counts as held.
        leased_until: match may_begin(row.ceiling, claimant.now) {
            true => row.leased_until,
            false => row.leased_until.max(row.ceiling),
        },
    }
}

/// A registration that was rolled back has no row, but its worker id has a ceiling. If
/// the ceiling is far ahead of the clock, no node can use the worker id until then.
fn hold_what_was_undone(held: &mut Vec<Held>, now: WallTime) {
    let kept = ceilings::all(database::current());
    for (worker_id, kept) in kept.unwrap_or_else(|error| unusable("read", error)) {
        let ceiling = kept.ceiling;
        if may_begin(ceiling, now) {
            continue;
        }
        match held.iter_mut().find(|row| row.worker_id == worker_id) {
            Some(row) => row.leased_until = row.leased_until.max(ceiling),
            None => held.push(Held {
                worker_id,
                holder: Holder::Other,
                leased_until: ceiling,
            }),
        }
    }
}
