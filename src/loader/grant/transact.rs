//! The transactions that grant: the tags' rows are locked, [`Ledger`]s decide what each job gets,
//! and the rows are written. `catalog::alloc` has the statements; the table's triggers recognise
//! the update as a grant by its `catalog::intent`.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};

use leaf_core::grant::{Decision, GrantRequest, Ledger, Row};
use pgrx::pg_sys::Oid;

use super::collect::Job;
use super::rows;
use crate::catalog::alloc::Places;
use crate::catalog::{self, alloc, engine, relation};
use crate::history;
use crate::pg::own_xact::{self, Failure};
use crate::settings::segment as settings;
use crate::shmem::Shared;
use crate::shmem::key::KeyRef;

thread_local! {
    /// Whether this loader has seen that the database is a worker of Citus.
    static IS_WORKER: Cell<bool> = const { Cell::new(false) };
    static PLACES: RefCell<Places> = RefCell::default();
}

/// The decision on a job.
pub struct Decided {
    pub decision: Decision,
    /// The tag's row after this, if it was found.
    pub row: Option<Row>,
    /// The centre's tag, in UTF-8, if the decision is to ask it.
    pub tag_of_centre: Option<String>,
}

/// Does the jobs, all in one transaction if possible, and after it those of other clusters in
/// another one. If one fails, each of its tags gets its own transaction, so that one bad row does
/// not delay other tags. Calls `settle`, which raises no error, with what has become of some jobs,
/// only after the commit: nothing may be handed out before. `false` if the loader must leave the
/// database.
pub fn transact(
    shared: &Shared,
    database: u32,
    jobs: Vec<Job>,
    mut settle: impl FnMut(&[Job], Result<Vec<Decided>, &str>),
) -> bool {
    // Those who draw here do not wait for what many shards ask for at once.
    let (of_shards, own): (Vec<_>, Vec<_>) =
        (jobs.into_iter()).partition(|job| job.wanted().is_some_and(|it| it.is_of_shard()));
    let mut groups = vec![of_shards, own];
    groups.retain(|jobs| !jobs.is_empty());
    while let Some(jobs) = groups.pop() {
        match attempt(shared, database, &jobs, &mut settle) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(failure) if are_of_one_tag(&jobs) => settle(&jobs, Err(&failure.message)),
            // Many that are slow one by one may have become too late.
            Err(failure) => {
                let (jobs, late): (Vec<_>, Vec<_>) =
                    (jobs.into_iter()).partition(|job| job.is_awaited(shared));
                settle(&late, Err(&failure.message));
                groups.extend(by_tag(jobs));
            }
        }
    }
    true
}

fn are_of_one_tag(jobs: &[Job]) -> bool {
    let tags: BTreeSet<_> = jobs.iter().map(|job| &job.key().tag).collect();
    tags.len() == 1
}

fn by_tag(jobs: Vec<Job>) -> impl Iterator<Item = Vec<Job>> {
    let mut groups: BTreeMap<Vec<u8>, Vec<Job>> = BTreeMap::new();
    for job in jobs {
        groups.entry(job.key().tag.clone()).or_default().push(job);
    }
    groups.into_values()
}

/// One transaction for the jobs. `false` if the loader must leave the database.
fn attempt(
    shared: &Shared,
    database: u32,
    jobs: &[Job],
    settle: &mut impl FnMut(&[Job], Result<Vec<Decided>, &str>),
) -> Result<bool, Failure> {
    own_xact::run_briefly(
        || decide(shared, database, jobs),
        |decided| settle(jobs, Ok(decided)),
    )
}

/// Decides on each job, in their order, and writes what is granted; `None` if the extension no
/// longer exists in the database.
fn decide(shared: &Shared, database: u32, jobs: &[Job]) -> Option<Vec<Decided>> {
    let Some(alloc) = relation::alloc() else {
        shared.index.free_all(database, |_| true);
        return None;
    };
    let is_of_other = |job: &Job| job.key().catalog != alloc.to_u32();
    if jobs.iter().any(is_of_other) {
        // Slots of an extension that was dropped: no session can draw from them.
        let is_other = |catalog| catalog != alloc.to_u32();
        shared.index.free_all(database, is_other);
    }
    forget_if_worker(shared, database, alloc);
    let jobs: Vec<Task<'_>> = (jobs.iter())
        .map(|job| (job, job.wanted().filter(|_| !is_of_other(job))))
        .collect();
    PLACES.with_borrow_mut(|places| {
        places.keep(shared.index.len());
        let of = (database, alloc.to_u32());
        Some(catalog::as_owner(|| grant(shared, of, &jobs, places)))
    })
}

/// Once the database is a worker of Citus: frees the slots of the tags whose numbers other nodes
/// may grant, which were granted before.
fn forget_if_worker(shared: &Shared, database: u32, catalog: Oid) {
    if IS_WORKER.get() || !engine::is_worker() {
        return;
    }
    for tag in catalog::as_owner(alloc::local) {
        let catalog = catalog.to_u32();
        shared.index.free(KeyRef {
            database,
            catalog,
            tag: &tag,
        });
    }
    IS_WORKER.set(true);
}

/// A job, and what is wanted of the tag's row, if anything is: not of one of an earlier catalog.
type Task<'a> = (&'a Job, Option<GrantRequest>);

/// Grants from the tags' rows, in a catalog of a database.
fn grant(
    shared: &Shared,
    (database, catalog): (u32, u32),
    jobs: &[Task<'_>],
    places: &mut Places,
) -> Vec<Decided> {
    let history = history::current();
    let tags = jobs.iter().filter(|(_, wanted)| wanted.is_some());
    let tags: BTreeSet<&[u8]> = tags.map(|(job, _)| &*job.key().tag).collect();
    let tags: Vec<&[u8]> = tags.into_iter().collect();
    // Read before the rows.
    let pasts: Vec<_> = jobs.iter().map(|(job, _)| job.past(shared)).collect();
    let mut rows = alloc::lock_for_grant(&tags, &history, places);
    rows::compare(database, catalog, shared.index.len(), &tags, &mut rows);
    let rows = rows.into_iter().map(Ledger::new);
    let mut ledgers: BTreeMap<&[u8], Ledger> = tags.iter().copied().zip(rows).collect();
    let mut decisions = Vec::with_capacity(jobs.len());
    for ((job, wanted), past) in jobs.iter().zip(&pasts) {
        let ledger = ledgers.get_mut(&*job.key().tag);
        decisions.push(match (ledger, wanted, &job.delivery) {
            _ if job.is_stale(shared) => Decision::Changed,
            (Some(ledger), Some(wanted), Some(delivery)) => {
                ledger.receive(delivery, wanted, job.incarnation(), past)
            }
            (Some(ledger), Some(wanted), None) => {
                let policy = settings::step_policy(ledger.grantor());
                ledger.decide(wanted, job.incarnation(), past, &policy)
            }
            // Sessions look a tag that was created up.
            (None, ..) | (_, None, _) => Decision::Changed,
        });
    }
    let changed: Vec<_> = (ledgers.iter())
        .filter_map(|(tag, ledger)| Some((*tag, ledger.changed()?, ledger.moves_back())))
        .collect();
    alloc::store_grants(&changed, &history, places);
    let mut decided: Vec<_> = (jobs.iter().zip(decisions))
        .map(|((job, _), decision)| Decided {
            decision,
            row: ledgers.get(&*job.key().tag).and_then(Ledger::row).copied(),
            tag_of_centre: None,
        })
        .collect();
    name_tags_of_centre(jobs, &mut decided);
    decided
}

/// Adds what the centre has to be asked for.
fn name_tags_of_centre(jobs: &[Task<'_>], decided: &mut [Decided]) {
    let is_to_ask = |it: &Decided| matches!(it.decision, Decision::Ask { .. });
    let asked: Vec<_> = (jobs.iter().zip(decided))
        .filter(|(_, decided)| is_to_ask(decided))
        .collect();
    let tags: Vec<&[u8]> = asked.iter().map(|((job, _), _)| &*job.key().tag).collect();
    let names = alloc::tags_of_centre(&tags);
    for ((_, decided), name) in asked.into_iter().zip(names) {
        decided.tag_of_centre = name;
    }
}
