//! One grant that the loader has to make.

use leaf_core::grant::{Fed, Past, Wanted};
use pgrx::pg_sys;

use crate::pg::clock;
use crate::shmem::Shared;
use crate::shmem::index::Found;
use crate::shmem::key::OwnedKey;
use crate::shmem::leftovers::Leftover;
use crate::shmem::mailbox::{Asked, Request};

/// One grant to be made.
#[derive(Clone, Debug)]
pub enum Job {
    /// A segment for a slot, with the slot's epoch when the job was collected. The row is
    /// read after this, and what it grants is published only if the epoch is still the
    /// same.
    Segment { key: OwnedKey, found: Found },
    /// What a session has asked for.
    Request(Box<Request>),
    /// To take back the unused ids of an evicted slot.
    Leftover(Leftover),
    /// Another job, for which the centre has granted numbers.
    Fed { job: Box<Job>, fed: Fed },
}

impl Job {
    /// The tag whose row grants it.
    pub fn key(&self) -> &OwnedKey {
        match self {
            Job::Segment { key, .. } => key,
            Job::Request(request) => &request.key,
            Job::Leftover(leftover) => &leftover.key,
            Job::Fed { job, .. } => job.key(),
        }
    }

    /// What the centre has granted for the job, if it has.
    pub fn fed(&self) -> Option<Fed> {
        match self {
            Job::Fed { fed, .. } => Some(*fed),
            Job::Segment { .. } | Job::Request(_) | Job::Leftover(_) => None,
        }
    }

    /// The incarnation of the row that grants it.
    pub fn incarnation(&self) -> [u8; 16] {
        match self {
            Job::Segment { found, .. } => found.incarnation,
            Job::Request(request) => request.incarnation,
            Job::Leftover(leftover) => leftover.incarnation,
            Job::Fed { job, .. } => job.incarnation(),
        }
    }

    /// What is requested of the tag; `None` to create it.
    pub fn wanted(&self) -> Option<Wanted> {
        Some(match self {
            Job::Segment { .. } => Wanted::Segment,
            Job::Request(request) => match request.asked {
                Asked::Block { count } => Wanted::Block { count },
                Asked::Feed { count, exact } => Wanted::Feed { count, exact },
                Asked::TakeBack { unused } => Wanted::TakeBack { unused },
                Asked::Tag { .. } | Asked::WorkerId(_) => return None,
            },
            Job::Leftover(leftover) => Wanted::TakeBack {
                unused: leftover.unused,
            },
            Job::Fed { job, .. } => return job.wanted(),
        })
    }

    /// The owner of the tag that is to be created.
    pub fn owner_of_new_tag(&self) -> Option<pg_sys::Oid> {
        match self {
            Job::Request(request) => match request.asked {
                Asked::Tag { owner } => Some(pg_sys::Oid::from(owner)),
                _ => None,
            },
            Job::Segment { .. } | Job::Leftover(_) | Job::Fed { .. } => None,
        }
    }

    /// The tag's grants so far, as recorded in shared memory.
    pub fn past(&self, shared: &Shared) -> Past {
        let found = match self {
            Job::Fed { job, .. } => return job.past(shared),
            Job::Segment { found, .. } => Some(*found),
            Job::Request(_) | Job::Leftover(_) => {
                let key = self.key();
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
            Job::Fed { job, .. } => job.is_stale(shared),
        }
    }
}
