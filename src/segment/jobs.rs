//! The grants to be made: segments for slots that run low, and what sessions ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;

use leaf_core::grant::{Past, Wanted};
use leaf_core::time::Monotonic;
use pgrx::pg_sys;

use crate::pg::clock;
use crate::shmem::Shared;
use crate::shmem::index::Found;
use crate::shmem::key::OwnedKey;
use crate::shmem::leftovers::Leftover;
use crate::shmem::mailbox::{Asked, Request};
use crate::shmem::slot::Verdict;

/// One grant to be made.
#[derive(Clone, Debug)]
pub enum Job {
    /// A segment for a slot, with the slot's epoch when the job was collected. The row is
    /// read after this, and what it grants is published only if the epoch is still the
    /// same.
    Segment { key: OwnedKey, found: Found },
    /// What a session has asked for.
    Request(Request),
    /// To take back the unused ids of an evicted slot.
    Leftover(Leftover),
}

impl Job {
    /// The tag whose row grants it.
    pub fn key(&self) -> &OwnedKey {
        match self {
            Job::Segment { key, .. } => key,
            Job::Request(request) => &request.key,
            Job::Leftover(leftover) => &leftover.key,
        }
    }

    /// The incarnation of the row that grants it.
    pub fn incarnation(&self) -> [u8; 16] {
        match self {
            Job::Segment { found, .. } => found.incarnation,
            Job::Request(request) => request.incarnation,
            Job::Leftover(leftover) => leftover.incarnation,
        }
    }

    /// What is requested of the tag; `None` to create it.
    pub fn wanted(&self) -> Option<Wanted> {
        Some(match self {
            Job::Segment { .. } => Wanted::Segment,
            Job::Request(request) => match request.asked {
                Asked::Block { count } => Wanted::Block { count },
                Asked::TakeBack { unused } => Wanted::TakeBack { unused },
                Asked::Tag { .. } => return None,
            },
            Job::Leftover(leftover) => Wanted::TakeBack {
                unused: leftover.unused,
            },
        })
    }

    /// The owner of the tag that is to be created.
    pub fn owner_of_new_tag(&self) -> Option<pg_sys::Oid> {
        match self {
            Job::Request(Request {
                asked: Asked::Tag { owner },
                ..
            }) => Some(pg_sys::Oid::from(*owner)),
            Job::Request(_) | Job::Segment { .. } | Job::Leftover(_) => None,
        }
    }

    /// The tag's grants so far, as recorded in shared memory.
    pub fn past(&self, shared: &Shared) -> Past {
        let found = match self {
            Job::Segment { found, .. } => Some(*found),
            Job::Request(Request { key, .. }) | Job::Leftover(Leftover { key, .. }) => {
                shared.index.find(key.as_ref())
            }
        };
        let Some(found) = found.filter(|found| found.incarnation == self.incarnation()) else {
            return Past::NONE;
        };
        let state = shared.index.slot(found.number).state.read();
        Past {
            high_water: state.high_water,
            step: state.step,
            lasted: clock::monotonic().since(state.loaded_at),
        }
    }

    /// Whether the slot has begun a new epoch since the job was collected. A grant from
    /// its row, which is locked by now, could then not be published. Changes drop a
    /// slot's ids before they become visible.
    pub fn is_stale(&self, shared: &Shared) -> bool {
        match self {
            Job::Segment { found, .. } => {
                shared.index.slot(found.number).buffer.epoch() != found.epoch
            }
            Job::Request(_) | Job::Leftover(_) => false,
        }
    }
}

/// All jobs that can be done now for the database.
pub fn collect(shared: &Shared, database: u32) -> Vec<Job> {
    let now = clock::monotonic();
    // What is taken back can be granted again at once.
    let leftovers = shared.leftovers.take(database);
    let requests = shared.mailbox.take(database);
    let leftovers = leftovers.into_iter().map(Job::Leftover);
    let mut jobs: Vec<Job> = leftovers
        .chain(requests.into_iter().map(Job::Request))
        .collect();
    for number in shared.index.requests_of(database) {
        let slot = shared.index.slot(number);
        if slot.retry_at.get() > now {
            continue;
        }
        shared.index.take_request(number);
        // Before the slot's tag is read, so that it is not evicted after that.
        slot.is_loading.store(true, Ordering::Release);
        match shared.index.owner_of(number) {
            Some((key, found))
                if key.database == database && slot.buffer.is_due() && slot.buffer.has_room() =>
            {
                jobs.push(Job::Segment { key, found });
            }
            _ => slot.is_loading.store(false, Ordering::Release),
        }
    }
    jobs
}

/// Requests the segments that sessions should have requested but did not.
pub fn request_overdue(shared: &Shared, database: u32) {
    shared.index.each_of(database, |_, number, slot| {
        let buffer = &slot.buffer;
        if buffer.has_ids()
            && buffer.is_due()
            && buffer.has_room()
            && slot.state.read().verdict == Verdict::Loadable
        {
            shared.index.request(number, database);
        }
    });
}

/// When the next job may be tried, if there is one.
pub fn next_try(shared: &Shared, database: u32) -> Option<Monotonic> {
    let requests = shared.index.requests_of(database);
    let slots = requests.map(|number| shared.index.slot(number).retry_at.get());
    slots
        .chain(shared.mailbox.next_try(database))
        .chain(shared.leftovers.next_try(database))
        .min()
}

/// Whether all jobs are of one tag.
pub fn are_of_one_tag(jobs: &[Job]) -> bool {
    let tags: BTreeSet<_> = jobs.iter().map(|job| &job.key().tag).collect();
    tags.len() == 1
}

/// The jobs of each tag.
pub fn by_tag(jobs: Vec<Job>) -> impl Iterator<Item = Vec<Job>> {
    let mut groups: BTreeMap<Vec<u8>, Vec<Job>> = BTreeMap::new();
    for job in jobs {
        groups.entry(job.key().tag.clone()).or_default().push(job);
    }
    groups.into_values()
}

/// The loader of the database has ended its loads.
pub fn end_loading(shared: &Shared, database: u32) {
    shared.index.each_of(database, |_, _, slot| {
        slot.is_loading.store(false, Ordering::Release);
    });
}
