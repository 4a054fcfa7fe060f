//! What there is to load: slots whose ids run low, and blocks to reserve.

use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::shmem::Shared;
use crate::shmem::index::{Found, OwnedKey};
use crate::shmem::mailbox::Order;

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
pub fn collect(shared: &Shared, database: u32, backoffs: &mut Backoffs) -> Vec<Job> {
    let mut jobs = Vec::new();
    if backoffs.may_take_mail() {
        jobs.extend(shared.take_mail(database).into_iter().map(Job::Block));
    }
    for (number, requested) in shared.requested.iter().enumerate() {
        if requested.load(Ordering::Acquire) != database || !backoffs.may_load(number) {
            continue;
        }
        requested.store(0, Ordering::SeqCst);
        let Some((key, found)) = shared.owner_of(number) else {
            continue;
        };
        let buffer = &shared.slots[number].buffer;
        if key.database == database && buffer.is_due() && buffer.has_room() {
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
            if slot.buffer.has_ids() && slot.buffer.is_due() && slot.buffer.has_room() {
                self.requested[number].store(database, Ordering::Release);
            }
        });
    }

    /// Whether anything waits for the loader of the database.
    pub fn has_requests(&self, database: u32) -> bool {
        let requested =
            |slot: &std::sync::atomic::AtomicU32| slot.load(Ordering::Acquire) == database;
        self.requested.iter().any(requested) || self.has_mail(database)
    }

    /// Drops what was requested of the loader; who still waits asks again.
    pub fn forget_requests(&self, database: u32) {
        for requested in self.requested {
            let _ = requested.compare_exchange(database, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}

/// After a failed load the next try waits, longer each time, so that one bad
/// row costs little.
#[derive(Default)]
pub struct Backoffs {
    slots: HashMap<usize, Backoff>,
    mail: Option<Backoff>,
}

#[derive(Clone, Copy)]
struct Backoff {
    not_before: Instant,
    pause: Duration,
}

impl Backoff {
    const FIRST: Duration = Duration::from_millis(10);
    const LONGEST: Duration = Duration::from_millis(500);

    fn after(previous: Option<Backoff>) -> Self {
        let pause = previous.map_or(Self::FIRST, |it| (it.pause * 2).min(Self::LONGEST));
        Backoff {
            not_before: Instant::now() + pause,
            pause,
        }
    }

    fn is_over(&self) -> bool {
        Instant::now() >= self.not_before
    }
}

impl Backoffs {
    fn may_load(&self, slot: usize) -> bool {
        self.slots.get(&slot).is_none_or(Backoff::is_over)
    }

    fn may_take_mail(&self) -> bool {
        self.mail.as_ref().is_none_or(Backoff::is_over)
    }

    /// The slot's load has failed. Whether it is the first failure in a row.
    pub fn slot_failed(&mut self, slot: usize) -> bool {
        let next = Backoff::after(self.slots.get(&slot).copied());
        self.slots.insert(slot, next).is_none()
    }

    /// The slot's load has succeeded, or is pointless.
    pub fn slot_settled(&mut self, slot: usize) {
        self.slots.remove(&slot);
    }

    /// A block could not be granted.
    pub fn mail_failed(&mut self) {
        self.mail = Some(Backoff::after(self.mail));
    }

    /// All blocks were granted or refused.
    pub fn mail_settled(&mut self) {
        self.mail = None;
    }

    /// How long until something may be tried again.
    pub fn next_try(&self) -> Option<Duration> {
        let all = self.slots.values().chain(self.mail.as_ref());
        all.map(|it| it.not_before.saturating_duration_since(Instant::now()))
            .min()
    }
}
