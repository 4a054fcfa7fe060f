//! Which worker id a node gets, according to the registry, the files of ceilings and the
//! settings. Of a large registry, only the rows are read that can matter.

use std::ops::Range;

use leaf_core::snowflake::Scheme;
use leaf_core::snowflake::choice::{Holder, Refused, RegistryRow, Request, choose, random_unused};
use leaf_core::time::WallTime;
use pgrx::PgSqlErrorCode as Code;
use uuid::Uuid;

use super::ceilings::{self, PER_FILE};
use super::error::{self, at};
use super::{Claimant, SERVER, kept_ceiling, may_begin, unusable};
use crate::catalog::registry::{self, Registered};
use crate::error::Report;
use crate::history;
use crate::pg::database;
use crate::settings::snowflake as settings;

/// How many rows whose leases ran out are considered. Of most of them, the first one can
/// be leased.
const MAX_EXPIRED: i64 = 100;

/// How many worker ids are tried at random.
const MAX_TRIES: usize = 50;

/// Chooses a worker id for a claimant of the database's present history. Returns its row,
/// too, if it has one.
pub fn choose_worker_id(
    claimant: &Claimant,
    history: &str,
    scheme: Scheme,
) -> Result<(u64, Option<Registered>), Report> {
    let request = Request {
        worker_id: claimant.worker_id,
        worker_ids: scheme.layout.worker_ids(),
        now: claimant.now,
        reuse_after: settings::worker_reuse_after(),
    };
    let mut rows = candidates(claimant, history, &request);
    loop {
        let (worker_id, row) = choose_among(claimant, history, scheme, &request, &mut rows)?;
        if registry::lock_at_once(worker_id as i64) {
            return Ok((worker_id, row));
        }
        // Its holder is renewing or ending the lease, in a transaction that may last.
        if request.worker_id.is_some() || rows.is_empty() {
            return Err(error::contended());
        }
        rows.retain(|row| row.worker_id != worker_id as i64);
    }
}

/// Chooses among the rows that can matter.
fn choose_among(
    claimant: &Claimant,
    history: &str,
    scheme: Scheme,
    request: &Request,
    rows: &mut Vec<Registered>,
) -> Result<(u64, Option<Registered>), Report> {
    let mut held = held(claimant, rows, history);
    let chosen = match choose(&held, request, || unused(history, request)) {
        Err(Refused::NoneLeft) => {
            let reuse_after_us = request.reuse_after.as_micros() as i64;
            let before = request.now.plus_us(-reuse_after_us);
            let row = registry::expired_elsewhere(history, before, request.worker_ids);
            *rows = row.into_iter().collect();
            held = self::held(claimant, rows, history);
            choose(&held, request, || None)
        }
        chosen => chosen,
    };
    match chosen {
        Ok(worker_id) => {
            let mut rows = rows.iter();
            let row = rows.find(|row| row.worker_id == worker_id as i64);
            Ok((worker_id, row.cloned()))
        }
        Err(refused) => Err(error(refused, request, scheme, rows, &held)),
    }
}

fn error(
    refused: Refused,
    request: &Request,
    scheme: Scheme,
    rows: &[Registered],
    held: &[RegistryRow],
) -> Report {
    let worker_id = request.worker_id.unwrap_or_default();
    let row = rows.iter().find(|row| row.worker_id == worker_id as i64);
    let node = row.map_or_else(String::new, |row| row.node.clone());
    let until = held.iter().find(|row| row.worker_id == worker_id);
    let until = until.map(|row| row.leased_until).unwrap_or_default();
    match refused {
        // When: `leaf.worker_id`, or the argument of `leaf_worker_register`, is not one of the
        // layout
        Refused::OutOfRange => Report::new(
            Code::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("worker id {worker_id} is out of range"),
            "Choose a worker id within the range; or leave it out, which is -1 in leaf.worker_id, to lease any.",
        )
        .detail(format!("Layout {} has the worker ids 0 to {}.", scheme.layout, scheme.layout.worker_ids() - 1)),
        // When: `leaf.worker_id`, or `leaf_worker_register` with a worker id; DETAIL says until
        // when
        Refused::Held => Report::new(
            Code::ERRCODE_OBJECT_IN_USE,
            format!("worker id {worker_id} is held by another node"),
            "Choose another worker id, or try again after that time.",
        )
        .detail(format!("Its holder is \"{node}\", whose lease lasts until {} unless it is renewed.", at(until))),
        // When: `leaf.worker_id`, or `leaf_worker_register` with a worker id, after a promotion, a
        // restore or a copy
        Refused::HeldInOtherHistory => Report::not_ready(
            format!("worker id {worker_id} was leased in another history of this database"),
            "Choose another worker id; or, if its holder does not run any more, call leaf_worker_take_over with the worker id.",
        )
        .detail(format!("Its holder, \"{node}\", may still be running there.")),
        Refused::NoneLeft => {
            let most = registry::most_leases(request.now).map(|(node, count)| {
                format!(" Node \"{node}\" has most of them: {count}.")
            });
            // When: all worker ids of the layout are leased
            Report::new(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                "no worker id is left for snowflake ids",
                "Delete rows of leaf.worker whose nodes are gone, or wait until their leases expire. After promotions, leaf_worker_take_over vouches that the former primaries are gone.",
            )
            .detail(format!(
                "All worker ids of layout {} are leased; their number is {}.{}",
                scheme.layout,
                scheme.layout.worker_ids(),
                most.unwrap_or_default()
            ))
        }
    }
}

/// The rows that can matter: that of the required worker id, or the claimant's own and
/// those of this history whose leases ran out first.
fn candidates(claimant: &Claimant, history: &str, request: &Request) -> Vec<Registered> {
    if let Some(worker_id) = request.worker_id {
        return registry::row(worker_id as i64).into_iter().collect();
    }
    if claimant.is_server {
        let own = registry::rows_of_server(&claimant.node);
        if !own.is_empty() {
            return own;
        }
        let mut former = registry::rows_of_former_servers();
        former.retain(is_of_former_self);
        if !former.is_empty() {
            return former;
        }
    }
    registry::expired(history, request.now, request.worker_ids, MAX_EXPIRED)
}

fn held(claimant: &Claimant, rows: &[Registered], history: &str) -> Vec<RegistryRow> {
    let held = |row: &Registered| {
        let worker_id = row.worker_id as u64;
        let mut ceiling = row.ceiling;
        if claimant.worker_id.is_none()
            && let Some(kept) = kept_ceiling(worker_id)
        {
            ceiling = ceiling.max(kept.ceiling);
        }
        RegistryRow {
            worker_id,
            holder: if claimant.is_server && is_of_former_self(row) {
                Holder::Claimant
            } else if row.history != history {
                Holder::OtherHistory
            } else if claimant.is_server && row.node == claimant.node {
                Holder::Claimant
            } else {
                Holder::Other
            },
            // Until the clock comes near the ceiling, a new lease could not begin, so the
            // worker id counts as held.
            leased_until: match may_begin(ceiling, claimant.now) {
                true => row.leased_until,
                false => row.leased_until.max(ceiling),
            },
        }
    };
    rows.iter().map(held).collect()
}

/// Whether the lease was that of this database on the primary whose standby this server was, and
/// which issues nothing any more.
fn is_of_former_self(row: &Registered) -> bool {
    row.node.strip_prefix(SERVER) == Some(&row.history) && history::is_continued(&row.history)
}

/// A worker id without a row: the lowest one, or one that is quickly found in a large
/// registry. Where copies of the registry may be choosing at the same time, a random one.
fn unused(history: &str, request: &Request) -> Option<u64> {
    let (count, now) = (request.worker_ids, request.now);
    let random = || Uuid::new_v4().as_u64_pair().0;
    // As in the files of ceilings.
    let part = |number: u64| number * PER_FILE..count.min((number + 1) * PER_FILE);
    let parts = count.div_ceil(PER_FILE);
    let at_random = || {
        let mut tries = (0..MAX_TRIES).map(|_| random() % count);
        tries.find(|&worker_id| unused_in(worker_id..worker_id + 1, 0, now).is_some())
    };
    if registry::has_other_histories(history) {
        let first = random();
        let mut all = (0..parts).map(|number| part((number + first % parts) % parts));
        return match parts {
            1 => all.next().and_then(|part| unused_in(part, first, now)),
            _ => at_random().or_else(|| all.find_map(|part| unused_in(part, first, now))),
        };
    }
    let above = || {
        let from = registry::highest_worker_id()? + 1;
        (from < count).then(|| from..count.min((from / PER_FILE + 1) * PER_FILE))
    };
    unused_in(part(0), 0, now)
        .or_else(|| unused_in(above()?, 0, now))
        .or_else(at_random)
        .or_else(|| (1..parts).find_map(|number| unused_in(part(number), 0, now)))
}

/// A worker id of a range without a row; those of the range are in one file of ceilings.
///
/// A registration that was rolled back has no row, but its worker id has a ceiling in the
/// file. If that is far ahead of the clock, no node can use the worker id until then.
fn unused_in(range: Range<u64>, random: u64, now: WallTime) -> Option<u64> {
    let mut taken = registry::worker_ids_in(&range);
    let kept = ceilings::all_beside(database::current(), range.start);
    let kept = kept.unwrap_or_else(|error| unusable("read", range.start, error));
    let undone = kept
        .iter()
        .filter(|(_, kept)| !may_begin(kept.ceiling, now));
    taken.extend(undone.map(|(worker_id, _)| *worker_id));
    random_unused(&taken, range, random)
}
