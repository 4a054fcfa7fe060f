//! Granting: lock the rows, move them, commit, and only then publish.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::time::Duration;

use leaf_core::grant::{Exhausted, Grant, history_skip};
use pgrx::pg_sys;

use super::jobs::Job;
use crate::catalog::{self, GrantRow, GrantUpdate, Locked};
use crate::pg::{self, timeout, worker, xact};
use crate::shmem::mailbox::Answer;
use crate::shmem::slot::{Verdict, next_pause_us};
use crate::shmem::{Shared, index::Found};
use crate::{history, settings, transaction};

/// A grant that takes longer is cancelled and tried again. Below the five
/// seconds that `DROP DATABASE` waits for others.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(3);

/// What a job came to inside the transaction.
#[derive(Clone, Copy, Debug)]
enum Outcome {
    /// `step` is the size a segment should have had; near the tag's end the
    /// grant is smaller.
    Granted {
        grant: Grant,
        step: u64,
    },
    Exhausted,
    /// There is no row.
    Missing,
    /// The row is not the one the session asked for.
    Changed,
    /// Somebody else has locked the row.
    Busy,
    /// The row lies below what was handed out of it.
    Below {
        high_water: i64,
    },
}

/// What the whole transaction came to.
enum Work {
    Done(Vec<Outcome>),
    /// The database is wanted, or leaf is not in it any more.
    Leave,
}

/// Does the jobs, all in one transaction if possible; when that fails, tag by
/// tag, so that one bad row holds up nobody else. `false` when the loader must
/// leave the database.
pub fn run(shared: &Shared, database: u32, jobs: Vec<Job>) -> bool {
    let refill = Refill { shared, database };
    match refill.attempt(&jobs) {
        Ok(stays) => return stays,
        Err(failure) if is_one_tag(&jobs) => {
            refill.all_failed(&jobs, &failure.message);
            return true;
        }
        Err(_) => {}
    }
    for group in by_tag(jobs) {
        match refill.attempt(&group) {
            Ok(true) => {}
            Ok(false) => return false,
            Err(failure) => refill.all_failed(&group, &failure.message),
        }
    }
    true
}

fn is_one_tag(jobs: &[Job]) -> bool {
    jobs.iter()
        .map(Job::key)
        .map(|key| &key.tag)
        .collect::<BTreeSet<_>>()
        .len()
        == 1
}

fn by_tag(jobs: Vec<Job>) -> Vec<Vec<Job>> {
    let mut groups: BTreeMap<Vec<u8>, Vec<Job>> = BTreeMap::new();
    for job in jobs {
        groups.entry(job.key().tag.clone()).or_default().push(job);
    }
    groups.into_values().collect()
}

/// The loader at work on one list of jobs.
struct Refill<'a> {
    shared: &'a Shared,
    database: u32,
}

impl Refill<'_> {
    /// One transaction for the jobs. Nothing of it is published unless it has
    /// committed. `false` when the loader must leave.
    fn attempt(&self, jobs: &[Job]) -> Result<bool, xact::Failure> {
        let (shared, database) = (self.shared, self.database);
        let mut stays = true;
        xact::run(
            || {
                timeout::start(STATEMENT_TIMEOUT);
                let work = work(shared, database, jobs);
                timeout::stop();
                work
            },
            |work, is_reliable| match work {
                Work::Done(outcomes) if is_reliable => {
                    for (job, outcome) in jobs.iter().zip(outcomes) {
                        self.settle(job, outcome);
                    }
                }
                // The wait for the standby was cut short: a failover may lose
                // the grants, so nobody may have them. The loader ends next,
                // and the jobs are there for its successor.
                Work::Done(_) => {}
                Work::Leave => stays = false,
            },
        )?;
        Ok(stays)
    }

    /// Makes an outcome known. Raises no error.
    fn settle(&self, job: &Job, outcome: Outcome) {
        match (job, outcome) {
            (Job::Segment { found, .. }, Outcome::Granted { grant, step }) => self.publish(*found, grant, step),
            (Job::Segment { found, .. }, Outcome::Exhausted) => self.pointless(*found, Verdict::Exhausted),
            (Job::Segment { found, .. }, Outcome::Missing | Outcome::Changed) => {
                self.pointless(*found, Verdict::Missing);
            }
            (Job::Block(order), Outcome::Granted { grant, .. }) => {
                self.shared.answer(order.ticket, Answer::Granted { first: grant.first });
            }
            (Job::Block(order), Outcome::Exhausted) => self.shared.answer(order.ticket, Answer::Exhausted),
            (Job::Block(order), Outcome::Missing | Outcome::Changed) => {
                self.shared.answer(order.ticket, Answer::Changed);
            }
            (job, Outcome::Busy) => self.failed(job, "the tag's row is locked by another transaction"),
            (job, Outcome::Below { high_water }) => self.failed(
                job,
                &format!("the tag's row lies below {high_water}, which has been handed out; raise its max_id"),
            ),
        }
    }

    /// Gives a committed grant to whoever draws from the slot, unless the slot
    /// has begun a new epoch since the job was collected.
    fn publish(&self, found: Found, grant: Grant, step: u64) {
        let slot = &self.shared.slots[found.number];
        let now = pg::monotonic_us();
        let mut state = slot.state.exclusive();
        if slot.buffer.epoch() != found.epoch {
            return;
        }
        let prefetch_after = settings::prefetch_after(grant.len);
        let Ok(is_due) = slot.buffer.publish(grant.first, grant.len, prefetch_after) else {
            return;
        };
        let lasted = now.saturating_sub(state.loaded_at).max(1);
        if state.loads > 0 {
            state.ids_per_second = state.step as f64 * 1e6 / lasted as f64;
        }
        state.high_water = grant.first + grant.len as i64;
        state.step = step;
        state.loaded_at = now;
        state.loads += 1;
        state.verdict = Verdict::Loadable;
        state.pause_us = 0;
        slot.retry_at.store(0, Ordering::Relaxed);
        drop(state);
        slot.changed.broadcast();
        if is_due {
            self.shared.request(found.number, self.database);
        }
    }

    /// Tells who waits for the slot that no load will help.
    fn pointless(&self, found: Found, verdict: Verdict) {
        let slot = &self.shared.slots[found.number];
        let mut state = slot.state.exclusive();
        if slot.buffer.epoch() == found.epoch {
            state.verdict = verdict;
        }
        drop(state);
        slot.changed.broadcast();
    }

    fn all_failed(&self, jobs: &[Job], message: &str) {
        for job in jobs {
            self.failed(job, message);
        }
    }

    /// Records a failure that another try may mend, and asks for that try.
    fn failed(&self, job: &Job, message: &str) {
        match job {
            Job::Block(order) => self.shared.put_back(order.ticket, message),
            Job::Segment { found, .. } => {
                if self.slot_failed(*found, message) {
                    let tag = catalog::display(&job.key().tag);
                    pg::log(&format!("could not load ids for tag \"{tag}\": {message}"));
                }
            }
        }
    }

    /// Notes a failure in the slot, unless it has begun a new epoch. Whether it
    /// is the first in a row.
    fn slot_failed(&self, found: Found, message: &str) -> bool {
        let slot = &self.shared.slots[found.number];
        let (now, monotonic) = (pg::now(), pg::monotonic_us());
        let mut state = slot.state.exclusive();
        if slot.buffer.epoch() != found.epoch {
            return false;
        }
        let is_first = state.pause_us == 0;
        state.error.set(now, message);
        state.pause_us = next_pause_us(state.pause_us);
        slot.retry_at
            .store(monotonic + state.pause_us, Ordering::Relaxed);
        drop(state);
        let requested = &self.shared.requested[found.number];
        requested.store(self.database, Ordering::Release);
        is_first
    }
}

/// The transaction's work: decides and writes every job's grant.
fn work(shared: &Shared, database: u32, jobs: &[Job]) -> Work {
    if !worker::database_is_free(pg_sys::Oid::from(database)) {
        return Work::Leave;
    }
    let Some(alloc) = catalog::alloc() else {
        shared.free_all(database, |_| true);
        return Work::Leave;
    };
    if jobs.iter().any(|job| job.key().catalog != alloc.to_u32()) {
        // Slots of an extension that was dropped: nobody can draw from them.
        shared.free_all(database, |catalog| catalog != alloc.to_u32());
    }
    catalog::as_owner(|| grant_all(shared, alloc.to_u32(), jobs))
}

fn grant_all(shared: &Shared, alloc: u32, jobs: &[Job]) -> Work {
    // Read before the rows are: see `Outcome::Below`.
    let states: Vec<_> = jobs.iter().map(|job| Past::of(shared, job)).collect();
    let history = history::current(shared);
    let tags: Vec<&[u8]> = jobs
        .iter()
        .map(|job| job.key().tag.as_slice())
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    let mut rows: Vec<Ledger> = catalog::lock_for_grant(&tags, &history)
        .into_iter()
        .map(Ledger::new)
        .collect();
    let outcomes = jobs
        .iter()
        .zip(&states)
        .map(|(job, past)| {
            if job.key().catalog != alloc || is_stale(shared, job) {
                return Outcome::Changed;
            }
            let row = tags
                .binary_search(&job.key().tag.as_slice())
                .expect("every job's tag is listed");
            rows[row].grant(job, past)
        })
        .collect();
    let updates: Vec<_> = tags
        .iter()
        .zip(&rows)
        .filter_map(|(tag, ledger)| ledger.update(tag))
        .collect();
    if !updates.is_empty() {
        transaction::granting(|| catalog::store_grants(&updates, &history));
    }
    Work::Done(outcomes)
}

/// Whether the slot has begun a new epoch since the job was collected: what its row,
/// locked by now, would grant could not be published. Changes drop a slot's ids
/// before they are visible.
fn is_stale(shared: &Shared, job: &Job) -> bool {
    match job {
        Job::Segment { found, .. } => shared.slots[found.number].buffer.epoch() != found.epoch,
        Job::Block(_) => false,
    }
}

/// What is known of a slot's loads so far.
struct Past {
    high_water: i64,
    step: u64,
    lasted: Duration,
}

impl Past {
    fn of(shared: &Shared, job: &Job) -> Self {
        let slot = match job {
            Job::Segment { found, .. } => Some(*found),
            Job::Block(order) => shared.find(order.key.as_ref()),
        };
        let Some(found) = slot else {
            return Past {
                high_water: i64::MIN,
                step: 0,
                lasted: Duration::ZERO,
            };
        };
        let state = shared.slots[found.number].state.shared();
        let lasted = pg::monotonic_us().saturating_sub(state.loaded_at);
        Past {
            high_water: state.high_water,
            step: state.step,
            lasted: Duration::from_micros(lasted.max(0) as u64),
        }
    }
}

/// A tag's row while jobs are granted from it, one after the other.
struct Ledger {
    row: Locked,
    is_changed: bool,
}

impl Ledger {
    /// The first grant in another history of the cluster leaves room for grants
    /// that this copy may have missed.
    fn new(mut locked: Locked) -> Self {
        if let Locked::Row(row) = &mut locked
            && row.from_other_history
        {
            let skipped = history_skip(
                settings::history_skip(),
                row.last_grant,
                row.largest_reserve,
            );
            row.position.skip(skipped);
        }
        Ledger {
            row: locked,
            is_changed: false,
        }
    }

    fn grant(&mut self, job: &Job, past: &Past) -> Outcome {
        let row = match &mut self.row {
            Locked::Row(row) => row,
            Locked::Busy => return Outcome::Busy,
            Locked::Missing => return Outcome::Missing,
        };
        let outcome = match job {
            Job::Segment { .. } => segment(row, past),
            Job::Block(order) => block(row, past, order.incarnation, order.count),
        };
        self.is_changed |= matches!(outcome, Outcome::Granted { .. });
        outcome
    }

    fn update<'t>(&self, tag: &'t [u8]) -> Option<GrantUpdate<'t>> {
        let Locked::Row(row) = &self.row else {
            return None;
        };
        self.is_changed.then_some(GrantUpdate {
            tag,
            max_id: row.position.max_id,
            last_grant: row.last_grant,
            largest_reserve: row.largest_reserve,
        })
    }
}

fn segment(row: &mut GrantRow, past: &Past) -> Outcome {
    if row.position.max_id < past.high_water {
        return Outcome::Below {
            high_water: past.high_water,
        };
    }
    let step = settings::step_policy().next_step(past.step, row.step, past.lasted);
    match row.position.grant_up_to(step) {
        Ok(grant) => {
            row.last_grant = grant.len;
            Outcome::Granted { grant, step }
        }
        Err(Exhausted) => Outcome::Exhausted,
    }
}

fn block(row: &mut GrantRow, past: &Past, incarnation: [u8; 16], count: u64) -> Outcome {
    if row.incarnation != incarnation {
        return Outcome::Changed;
    }
    if row.position.max_id < past.high_water {
        return Outcome::Below {
            high_water: past.high_water,
        };
    }
    match row.position.grant_block(count) {
        Ok(grant) => {
            row.largest_reserve = row.largest_reserve.max(grant.len);
            Outcome::Granted { grant, step: 0 }
        }
        Err(Exhausted) => Outcome::Exhausted,
    }
}
