//! The jobs to be done: segments for slots that run low, what sessions ask for, and what evicted
//! slots have left.

use std::sync::atomic::Ordering;

use leaf_core::grant::{Delivery, GrantRequest, Past};
use leaf_core::time::Monotonic;

use crate::pg::clock;
use crate::shmem::Shared;
use crate::shmem::index::FoundSlot;
use crate::shmem::key::OwnedKey;
use crate::shmem::leftovers::Leftover;
use crate::shmem::mailbox::{LoaderRequest, Request};
use crate::shmem::slot::Verdict;

/// One grant to be made.
#[derive(Clone, Debug)]
pub struct Job {
    pub what: What,
    /// The numbers that the centre has granted for it, if it has been asked and has answered.
    pub delivery: Option<Delivery>,
}

/// The purpose of a grant.
#[derive(Clone, Debug)]
pub enum What {
    /// A segment for a slot, with the slot's epoch when the job was collected. The row is
    /// read after this, and what it grants is published only if the epoch is still the
    /// same.
    Segment { key: OwnedKey, found: FoundSlot },
    /// A request of a session.
    Request(Box<Request>),
    /// To take back the unused ids of an evicted slot.
    Leftover(Leftover),
}

impl Job {
    fn new(what: What) -> Self {
        let delivery = None;
        Job { what, delivery }
    }

    /// The tag.
    pub fn key(&self) -> &OwnedKey {
        match &self.what {
            What::Segment { key, .. } => key,
            What::Request(request) => &request.key,
            What::Leftover(leftover) => &leftover.key,
        }
    }

    /// The incarnation of the tag's row.
    pub fn incarnation(&self) -> [u8; 16] {
        match &self.what {
            What::Segment { found, .. } => found.incarnation,
            What::Request(request) => request.incarnation,
            What::Leftover(leftover) => leftover.incarnation,
        }
    }

    /// The slot for which it is a segment.
    pub fn slot(&self) -> Option<FoundSlot> {
        match &self.what {
            What::Segment { found, .. } => Some(*found),
            What::Request(_) | What::Leftover(_) => None,
        }
    }

    /// The request to the tag's row.
    pub fn wanted(&self) -> Option<GrantRequest> {
        match &self.what {
            What::Segment { .. } => Some(GrantRequest::Segment),
            What::Request(request) => request.asked.grant(),
            What::Leftover(leftover) => Some(GrantRequest::TakeBack {
                unused: leftover.unused,
            }),
        }
    }

    /// The tag's grants so far, as recorded in shared memory.
    pub fn past(&self, shared: &Shared) -> Past {
        let find = || shared.index.find(self.key().as_ref());
        let found = self.slot().or_else(find);
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

    /// Whether it is still of use to the session that has asked for it.
    pub fn is_awaited(&self, shared: &Shared) -> bool {
        match &self.what {
            What::Request(request) => shared.mailbox.is_awaited(request.id),
            What::Segment { .. } | What::Leftover(_) => true,
        }
    }

    /// Whether the slot has begun a new epoch since the job was collected. A grant from
    /// its row, which is locked by now, could then not be published. Changes drop a
    /// slot's ids before they become visible.
    pub fn is_stale(&self, shared: &Shared) -> bool {
        self.slot()
            .is_some_and(|found| shared.index.slot(found.number).buffer.epoch() != found.epoch)
    }
}

fn is_grant(asked: &LoaderRequest) -> bool {
    asked.grant().is_some()
}

/// All jobs that can be done now for the database, but segments that are under way already.
pub fn collect(
    shared: &Shared,
    database: u32,
    is_under_way: impl Fn(&dyn Fn(&FoundSlot) -> bool) -> bool,
) -> Vec<Job> {
    let now = clock::monotonic();
    let requests = shared.mailbox.take_of(database, is_grant);
    let requests = requests.into_iter().map(|it| What::Request(Box::new(it)));
    let mut jobs: Vec<What> = requests.collect();
    for number in shared.index.requests_of(database) {
        let slot = shared.index.slot(number);
        if slot.retry_at.get() > now {
            continue;
        }
        shared.index.take_request(number);
        // Before the slot's tag is read, so that it is not evicted after that.
        slot.is_loading.store(true, Ordering::Release);
        let is_asked = |found: FoundSlot| {
            is_under_way(&|other| (other.number, other.epoch) == (found.number, found.epoch))
        };
        match shared.index.owner_of(number) {
            Some((key, found))
                if key.database == database
                    && slot.buffer.is_due()
                    && slot.buffer.has_room()
                    && !is_asked(found) =>
            {
                jobs.push(What::Segment { key, found });
            }
            _ => slot.is_loading.store(
                is_under_way(&|other| other.number == number),
                Ordering::Release,
            ),
        }
    }
    // Ids that are taken back can be granted again at once. Whatever was evicted before it was asked for again is
    // among these: they are looked at last, and come first.
    let leftovers = shared.leftovers.take(database);
    let leftovers = leftovers.into_iter().map(What::Leftover);
    leftovers.chain(jobs).map(Job::new).collect()
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
        .chain(shared.mailbox.next_try_of(database, is_grant))
        .chain(shared.leftovers.next_try(database))
        .min()
}

/// The loader has ended the loads of slots, but for the segments that are under way.
pub fn end_loading(
    shared: &Shared,
    slots: impl IntoIterator<Item = usize>,
    is_under_way: impl Fn(&dyn Fn(&FoundSlot) -> bool) -> bool,
) {
    for number in slots {
        let is_loading = is_under_way(&|other| other.number == number);
        let slot = shared.index.slot(number);
        slot.is_loading.store(is_loading, Ordering::Release);
    }
}
