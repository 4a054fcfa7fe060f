//! What there is to load: slots whose ids run low, and blocks to reserve.

use std::sync::atomic::Ordering;

use crate::pg;
use crate::shmem::Shared;
use crate::shmem::index::{Found, OwnedKey};
use crate::shmem::mailbox::Order;
use crate::shmem::slot::Verdict;

/// One grant to be made.
#[derive(Clone, Debug)]
pub enum Job {
    /// A segment for a slot, as it was when the loader looked: the row is read
    /// after this, and what it grants is published only if the epoch is still
    /// the same.
    Segment { key: OwnedKey, found: Found },
    /// A block for a session.
    Block(Order),
}

impl Job {
    /// The tag whose row grants it.
    pub fn key(&self) -> &OwnedKey {
        match self {
            Job::Segment { key, .. } => key,
            Job::Block(order) => &order.key,
        }
    }
}

/// All that can be done now for the database. A request that is taken up is
/// cleared before its buffer is looked at, so that a later one is not lost.
pub fn collect(shared: &Shared, database: u32) -> Vec<Job> {
    let now = pg::monotonic_us();
    let orders = shared.take_mail(database);
    let mut jobs: Vec<Job> = orders.into_iter().map(Job::Block).collect();
    for (number, requested) in shared.requested.iter().enumerate() {
        let slot = &shared.slots[number];
        if requested.load(Ordering::Acquire) != database
            || slot.retry_at.load(Ordering::Relaxed) > now
        {
            continue;
        }
        requested.store(0, Ordering::SeqCst);
        let Some((key, found)) = shared.owner_of(number) else {
            continue;
        };
        if key.database == database && slot.buffer.is_due() && slot.buffer.has_room() {
            jobs.push(Job::Segment { key, found });
        }
    }
    jobs
}

impl Shared {
    /// Requests what somebody should have requested and has not: a session that
    /// is killed between its draw and its call leaves such a gap.
    pub fn request_overdue(&self, database: u32) {
        self.each_of(database, |_, number, slot| {
            let buffer = &slot.buffer;
            if buffer.has_ids()
                && buffer.is_due()
                && buffer.has_room()
                && slot.state.shared().verdict == Verdict::Loadable
            {
                self.request(number, database);
            }
        });
    }

    /// Whether a segment or a block waits for the loader of the database.
    pub fn has_requests(&self, database: u32) -> bool {
        let requested =
            |slot: &std::sync::atomic::AtomicU32| slot.load(Ordering::Acquire) == database;
        self.requested.iter().any(requested) || self.has_mail(database)
    }

    /// When something that was requested may be tried, in monotonic
    /// microseconds.
    pub fn next_try(&self, database: u32) -> Option<i64> {
        let requested = self.requested.iter().zip(self.slots);
        let slots = requested
            .filter(|(requested, _)| requested.load(Ordering::Acquire) == database)
            .map(|(_, slot)| slot.retry_at.load(Ordering::Relaxed));
        slots.chain(self.next_mail(database)).min()
    }

    /// Drops what was requested of the loader; who still waits asks again.
    pub fn forget_requests(&self, database: u32) {
        for requested in self.requested {
            let _ = requested.compare_exchange(database, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}
