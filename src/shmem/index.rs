//! Which slot serves which tag: a chained hash table over the slots.
//!
//! All of it is guarded by one lock, which is taken to read for a lookup and to write
//! to claim or free a slot. A session looks a tag up when it uses the tag for the first
//! time, not when it draws.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};

use leaf_core::time::Monotonic;

use super::key::{Key, KeyRef, OwnedKey};
use super::leftovers::Leftover;
use super::queue::Queue;
use super::slot::Slot;
use crate::pg::lwlock::Locked;
use crate::pg::{clock, shm};

/// No slot.
const NONE: u32 = u32::MAX;

/// The slots, and the hash table over them.
pub struct Index {
    heads: &'static Locked<Heads>,
    buckets: &'static [Bucket],
    slots: &'static [Slot],
    /// For each slot, the database whose loader should load it; 0 for none. Separate
    /// from the slots, so that a loader scans few cache lines.
    requested: &'static [AtomicU32],
}

/// The first slot of a hash bucket. Index lock.
#[repr(C)]
struct Bucket(AtomicU32);

/// What the index lock guards in addition to the chains.
#[repr(C)]
struct Heads {
    /// The first free slot.
    free: u32,
    /// The slot at which the next search for an idle slot begins.
    hand: u32,
    /// The sessions that wait for a slot.
    queue: Queue,
}

/// What a claim of a slot has come to.
pub enum Claim {
    /// The slot, and the unused ids of the tag that was evicted from it, if any.
    Slot(Found, Option<Leftover>),
    /// No slot can be evicted, or other sessions have waited longer.
    Wait,
}

/// A slot, and the epoch at which it served the key that was looked up.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The slot's number.
    pub number: usize,
    /// The buffer's epoch.
    pub epoch: u64,
    /// The incarnation of the tag's row whose ids the slot has.
    pub incarnation: [u8; 16],
}

fn buckets_for(slots: usize) -> usize {
    slots.next_power_of_two()
}

impl Index {
    /// Requests the memory for this number of slots; only in the request hook.
    pub(super) fn request_memory(slots: usize) {
        shm::request::<Locked<Heads>>(1);
        shm::request::<Bucket>(buckets_for(slots));
        shm::request::<Slot>(slots);
        shm::request::<AtomicU32>(slots);
    }

    /// Attaches to that memory; only in the startup hook.
    pub(super) fn attach(slots: usize, tranche: i32) -> Self {
        let next = |index| match index + 1 < slots {
            true => index as u32 + 1,
            false => NONE,
        };
        Index {
            heads: &shm::attach(c"leaf index", 1, |_| {
                let free = if slots == 0 { NONE } else { 0 };
                let queue = Queue::EMPTY;
                Locked::new(
                    Heads {
                        free,
                        hand: 0,
                        queue,
                    },
                    tranche,
                )
            })[0],
            buckets: shm::attach(c"leaf buckets", buckets_for(slots), |_| {
                Bucket(AtomicU32::new(NONE))
            }),
            slots: shm::attach(c"leaf slots", slots, |index| {
                Slot::new(next(index), tranche)
            }),
            requested: shm::attach(c"leaf requests", slots, |_| AtomicU32::new(0)),
        }
    }

    /// The number of slots; their numbers are below it.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// A slot by its number.
    pub fn slot(&self, number: usize) -> &'static Slot {
        &self.slots[number]
    }

    /// The slot that serves `key`, if there is one.
    pub fn find(&self, key: KeyRef<'_>) -> Option<Found> {
        let _lock = self.heads.read();
        self.walk(key).map(|number| self.found(number))
    }

    /// The slot that serves `key`; if there is none, a free or idle slot is assigned to
    /// it, in the order in which sessions have begun to wait, each of them at `since`. If
    /// the slot has ids of another incarnation of the row, they are dropped.
    pub fn claim(&self, key: KeyRef<'_>, incarnation: [u8; 16], since: Monotonic) -> Claim {
        let mut heads = self.heads.write();
        if let Some(number) = self.walk(key) {
            let slot = &self.slots[number];
            if self.stored_key(slot).incarnation() != incarnation {
                slot.begin_anew();
                // SAFETY: the index lock is held to write.
                unsafe { &mut *slot.key.0.get() }.set(key, incarnation);
            }
            heads.queue.leave();
            return Claim::Slot(self.found(number), None);
        }
        if !heads.queue.is_turn(since) {
            return Claim::Wait;
        }
        let mut leftover = None;
        let number = match heads.free {
            NONE => {
                let Some((number, unused)) = self.evict(&mut heads) else {
                    return Claim::Wait;
                };
                leftover = unused;
                number
            }
            free => {
                heads.free = self.slots[free as usize].next.load(Ordering::Relaxed);
                self.slots[free as usize].begin_anew();
                free as usize
            }
        };
        heads.queue.leave();
        let slot = &self.slots[number];
        // SAFETY: the index lock is held to write.
        unsafe { &mut *slot.key.0.get() }.set(key, incarnation);
        let bucket = self.bucket(key);
        slot.next
            .store(bucket.0.load(Ordering::Relaxed), Ordering::Relaxed);
        slot.seen.store(slot.buffer.drawn(), Ordering::Relaxed);
        bucket.0.store(number as u32, Ordering::Relaxed);
        Claim::Slot(self.found(number), leftover)
    }

    /// Ends the wait of this session for a slot.
    pub fn stop_waiting(&self) {
        self.heads.write().queue.leave();
    }

    /// Requests the slot's next segment from the loader of `database`.
    pub fn request(&self, number: usize, database: u32) {
        self.requested[number].store(database, Ordering::Release);
    }

    /// The slots whose next segment is requested from the loader of `database`.
    pub fn requests_of(&self, database: u32) -> impl Iterator<Item = usize> + use<'_> {
        let requested = self.requested.iter().enumerate();
        requested
            .filter(move |(_, requested)| requested.load(Ordering::Acquire) == database)
            .map(|(number, _)| number)
    }

    /// Clears a request before its buffer is examined, so that a later one is not lost.
    pub fn take_request(&self, number: usize) {
        self.requested[number].store(0, Ordering::SeqCst);
    }

    /// Drops all requests to the loader of `database`; sessions that are still waiting
    /// repeat theirs.
    pub fn forget_requests(&self, database: u32) {
        for requested in self.requested {
            let _ = requested.compare_exchange(database, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }

    /// Frees the slot of a tag that no longer exists.
    pub fn free(&self, key: KeyRef<'_>) {
        let mut heads = self.heads.write();
        if let Some(number) = self.walk(key) {
            self.give_back(&mut heads, number);
        }
    }

    /// Frees all slots of the database for whose catalog's OID `gone` returns true.
    pub fn free_all(&self, database: u32, gone: impl Fn(u32) -> bool) {
        let mut heads = self.heads.write();
        for number in 0..self.slots.len() {
            let key = self.key(&self.slots[number]);
            if key.database == database && gone(key.catalog) {
                self.give_back(&mut heads, number);
            }
        }
    }

    /// Calls `act` for the slot that serves `key`, if there is one. During the call, the
    /// slot continues to serve that key.
    pub fn with(&self, key: KeyRef<'_>, act: impl FnOnce(&Slot)) {
        let _lock = self.heads.read();
        if let Some(number) = self.walk(key) {
            act(&self.slots[number]);
        }
    }

    /// Calls `visit` for every slot of the database.
    pub fn each_of(&self, database: u32, mut visit: impl FnMut(KeyRef<'_>, usize, &Slot)) {
        let _lock = self.heads.read();
        for (number, slot) in self.slots.iter().enumerate() {
            let key = self.key(slot);
            if key.database == database {
                visit(key, number, slot);
            }
        }
    }

    /// The keys of all slots of a catalog.
    pub fn keys_of(&self, database: u32, catalog: u32) -> Vec<OwnedKey> {
        let mut keys = Vec::new();
        self.each_of(database, |key, _, _| {
            if key.catalog == catalog {
                keys.push(key.to_owned());
            }
        });
        keys
    }

    /// The key and epoch of a slot now, if it serves any tag.
    pub fn owner_of(&self, number: usize) -> Option<(OwnedKey, Found)> {
        let _lock = self.heads.read();
        let key = self.key(&self.slots[number]);
        (key.database != 0).then(|| (key.to_owned(), self.found(number)))
    }

    fn give_back(&self, heads: &mut Heads, number: usize) {
        self.unlink(number);
        let slot = &self.slots[number];
        slot.begin_anew();
        slot.next.store(heads.free, Ordering::Relaxed);
        heads.free = number as u32;
    }

    fn found(&self, number: usize) -> Found {
        let slot = &self.slots[number];
        Found {
            number,
            epoch: slot.buffer.epoch(),
            incarnation: self.stored_key(slot).incarnation(),
        }
    }

    /// The key of a slot. The index lock is held.
    fn key<'a>(&self, slot: &'a Slot) -> KeyRef<'a> {
        self.stored_key(slot).get()
    }

    /// The key of a slot, with the row's incarnation. The index lock is held.
    fn stored_key<'a>(&self, slot: &'a Slot) -> &'a Key {
        // SAFETY: every caller holds the index lock.
        unsafe { &*slot.key.0.get() }
    }

    fn bucket(&self, key: KeyRef<'_>) -> &Bucket {
        let mut hasher = DefaultHasher::new();
        key.hash(&mut hasher);
        &self.buckets[hasher.finish() as usize & (self.buckets.len() - 1)]
    }

    /// The slot that serves `key`. The index lock is held.
    fn walk(&self, key: KeyRef<'_>) -> Option<usize> {
        let mut number = self.bucket(key).0.load(Ordering::Relaxed);
        while number != NONE {
            let slot = &self.slots[number as usize];
            if self.key(slot) == key {
                return Some(number as usize);
            }
            number = slot.next.load(Ordering::Relaxed);
        }
        None
    }

    /// Removes a slot from its chain, so that it serves no key. The index lock is held
    /// to write.
    fn unlink(&self, number: usize) {
        let slot = &self.slots[number];
        let next = slot.next.load(Ordering::Relaxed);
        let mut link = &self.bucket(self.key(slot)).0;
        while link.load(Ordering::Relaxed) != number as u32 {
            link = &self.slots[link.load(Ordering::Relaxed) as usize].next;
        }
        link.store(next, Ordering::Relaxed);
        // SAFETY: the index lock is held to write.
        unsafe { *slot.key.0.get() = Key::NOBODYS };
        self.requested[number].store(0, Ordering::Relaxed);
    }

    /// Finds a slot that no session has drawn from since the hand last passed it and
    /// that no session waits for, and removes it from its tag. A second round takes any
    /// slot that no session waits for. Returns the slot and the tag's unused ids.
    fn evict(&self, heads: &mut Heads) -> Option<(usize, Option<Leftover>)> {
        let count = self.slots.len();
        let now = clock::monotonic();
        for step in 0..count * 2 {
            let number = heads.hand as usize % count;
            heads.hand = ((number + 1) % count) as u32;
            let slot = &self.slots[number];
            let drawn = slot.buffer.drawn();
            let idle = slot.seen.swap(drawn, Ordering::Relaxed) == drawn || step >= count;
            if idle && !slot.is_awaited(now) {
                let key = self.key(slot).to_owned();
                let incarnation = self.stored_key(slot).incarnation();
                self.unlink(number);
                let unused = slot.begin_anew().last_consecutive();
                let leftover = unused.map(|unused| Leftover {
                    key,
                    incarnation,
                    unused,
                });
                return Some((number, leftover));
            }
        }
        None
    }
}
