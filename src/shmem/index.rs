//! Which slot serves which tag: a chained hash table over the slots.
//!
//! All of it is guarded by one lock, which is taken to read for a lookup and to write
//! to claim or free a slot. A session looks a tag up when it uses the tag for the first
//! time, not when it draws.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};

use leaf_core::time::Monotonic;

use super::key::{KeyRef, LongNames, OwnedKey, SlotKey};
use super::leftovers::{Leftover, Leftovers};
use super::queue::Queue;
use super::slot::Slot;
use crate::pg::clock;
use crate::pg::lwlock::LockedSlice;
use crate::pg::shm::{Request, Shareable, Startup};

/// No slot.
const NONE: u32 = u32::MAX;

/// The slots, and the hash table over them.
pub struct Index {
    /// The hash table: an entry for each slot, or for each bucket if these are more.
    table: LockedSlice<Entry, Heads>,
    slots: &'static [Slot],
    /// For each slot, the database whose loader should load it; 0 for none. Separate
    /// from the slots, so that a loader scans few cache lines.
    requested: &'static [AtomicU32],
}

/// A slot's place in the hash table, and a bucket of it: there are as many of both.
#[repr(C)]
struct Entry {
    /// The key that the slot serves.
    key: SlotKey,
    /// The next slot of the same bucket, or of the free list.
    next: u32,
    /// The first slot of the bucket with this number.
    first: u32,
    /// How many ids of the slot had been drawn when a search for an idle one last passed.
    seen: u64,
}

/// The heads of the lists, which the index lock guards in addition to the entries.
#[repr(C)]
struct Heads {
    /// The first free slot.
    free: u32,
    /// The slot at which the next search for an idle slot begins.
    hand: u32,
    /// The sessions that wait for a slot.
    queue: Queue,
    /// The names that have no room in their entries.
    long: LongNames,
    /// How many tags were evicted.
    evictions: u64,
}

// SAFETY: they have no pointers.
unsafe impl Shareable for Entry {}
// SAFETY: as above.
unsafe impl Shareable for Heads {}

/// The result of a claim of a slot.
pub enum Claim {
    /// The slot, and the database whose loader has ids of an evicted tag to take back, if any.
    Slot(FoundSlot, Option<u32>),
    /// No slot can be evicted, or other sessions have waited longer.
    Wait,
}

/// A slot, and the epoch at which it served the key that was looked up.
#[derive(Clone, Copy, Debug)]
pub struct FoundSlot {
    /// The slot's number.
    pub number: usize,
    /// The buffer's epoch.
    pub epoch: u64,
    /// The incarnation of the tag's row whose ids the slot has.
    pub incarnation: [u8; 16],
}

impl Index {
    /// Requests the memory for this number of slots.
    pub(super) fn request_memory(request: &Request, slots: usize) {
        LockedSlice::<Entry, Heads>::request_memory(request, slots);
        request.room_for::<Slot>(slots);
        request.room_for::<AtomicU32>(slots);
    }

    /// Attaches to that memory.
    pub(super) fn attach(startup: &Startup, slots: usize) -> Self {
        let from = |number| if number < slots { number as u32 } else { NONE };
        let heads = || Heads {
            free: from(0),
            hand: 0,
            queue: Queue::EMPTY,
            long: LongNames::EMPTY,
            evictions: 0,
        };
        let free = |number| Entry {
            key: SlotKey::NOBODYS,
            next: from(number + 1),
            first: NONE,
            seen: 0,
        };
        let names = (c"leaf index", c"leaf entries");
        Index {
            table: LockedSlice::attach(startup, names, heads, slots, free),
            slots: startup.attach(c"leaf slots", slots, |_| Slot::new(startup)),
            requested: startup.attach(c"leaf requests", slots, |_| AtomicU32::new(0)),
        }
    }

    /// The number of slots; their numbers are below it.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// How many tags of all databases were evicted since the server started.
    pub fn evictions(&self) -> u64 {
        self.table.read().head().evictions
    }

    /// A slot by its number.
    pub fn slot(&self, number: usize) -> &'static Slot {
        &self.slots[number]
    }

    /// The slot that serves `key`, if there is one.
    pub fn find(&self, key: KeyRef<'_>) -> Option<FoundSlot> {
        let entries = self.table.read();
        walk(entries.head(), &entries, key).map(|number| self.found(&entries, number))
    }

    /// The slot that serves `key`; if there is none, a free or idle slot is assigned to
    /// it, in the order in which sessions have begun to wait, each of them at `since`. If
    /// the slot has ids of another incarnation of the row, they are dropped. The unused ids of
    /// the tag that is evicted are among the leftovers before the tag can have another slot.
    pub fn claim(
        &self,
        key: KeyRef<'_>,
        incarnation: [u8; 16],
        since: Monotonic,
        leftovers: &Leftovers,
    ) -> Claim {
        let mut table = self.table.write();
        let (heads, entries) = table.parts();
        if let Some(number) = walk(heads, entries, key) {
            let stored = &mut entries[number].key;
            if stored.incarnation() != incarnation {
                self.slots[number].begin_anew();
                stored.set_incarnation(incarnation);
            }
            heads.queue.leave();
            return Claim::Slot(self.found(entries, number), None);
        }
        if !heads.queue.is_turn(since) {
            return Claim::Wait;
        }
        let mut of_database = None;
        let has_room = heads.long.have_room_for(key);
        let free = Some(heads.free).filter(|&free| has_room && free != NONE);
        let number = match free {
            None => {
                let Some((number, leftover)) = self.evict(heads, entries, !has_room) else {
                    if !has_room {
                        // Others, who need no such room, do not wait for it.
                        heads.queue.leave();
                    }
                    return Claim::Wait;
                };
                if let Some(leftover) = leftover {
                    leftovers.post(&leftover, Monotonic::ZERO);
                    of_database = Some(leftover.key.database);
                }
                number
            }
            Some(free) => {
                heads.free = entries[free as usize].next;
                self.slots[free as usize].begin_anew();
                free as usize
            }
        };
        heads.queue.leave();
        let bucket = bucket(entries, key);
        let first = std::mem::replace(&mut entries[bucket].first, number as u32);
        let entry = &mut entries[number];
        entry.key.set(key, incarnation, &mut heads.long);
        entry.next = first;
        entry.seen = self.slots[number].buffer.drawn();
        Claim::Slot(self.found(entries, number), of_database)
    }

    /// Ends the wait of this session for a slot.
    pub fn stop_waiting(&self) {
        self.table.write().parts().0.queue.leave();
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
        let mut table = self.table.write();
        let (heads, entries) = table.parts();
        if let Some(number) = walk(heads, entries, key) {
            self.give_back(heads, entries, number);
        }
    }

    /// Frees all slots of the database for whose catalog's OID `gone` returns true.
    pub fn free_all(&self, database: u32, gone: impl Fn(u32) -> bool) {
        let mut table = self.table.write();
        let (heads, entries) = table.parts();
        for number in 0..entries.len() {
            let key = &entries[number].key;
            if key.database() == database && gone(key.catalog()) {
                self.give_back(heads, entries, number);
            }
        }
    }

    /// Calls `act` for the slot that serves `key`, if there is one. During the call, the
    /// slot continues to serve that key.
    pub fn with(&self, key: KeyRef<'_>, act: impl FnOnce(&Slot)) {
        let entries = self.table.read();
        if let Some(number) = walk(entries.head(), &entries, key) {
            act(&self.slots[number]);
        }
    }

    /// Calls `visit` for every slot of the database.
    pub fn each_of(&self, database: u32, mut visit: impl FnMut(KeyRef<'_>, usize, &Slot)) {
        let entries = self.table.read();
        for (number, entry) in entries.iter().enumerate() {
            if entry.key.database() == database {
                let key = entry.key.get(&entries.head().long);
                visit(key, number, &self.slots[number]);
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
    pub fn owner_of(&self, number: usize) -> Option<(OwnedKey, FoundSlot)> {
        let entries = self.table.read();
        let key = entries[number].key.get(&entries.head().long);
        (key.database != 0).then(|| (key.to_owned(), self.found(&entries, number)))
    }

    fn give_back(&self, heads: &mut Heads, entries: &mut [Entry], number: usize) {
        self.unlink(heads, entries, number);
        self.slots[number].begin_anew();
        entries[number].next = heads.free;
        heads.free = number as u32;
    }

    fn found(&self, entries: &[Entry], number: usize) -> FoundSlot {
        FoundSlot {
            number,
            epoch: self.slots[number].buffer.epoch(),
            incarnation: entries[number].key.incarnation(),
        }
    }

    /// Removes a slot from its chain, so that it serves no key.
    fn unlink(&self, heads: &mut Heads, entries: &mut [Entry], number: usize) {
        let bucket = bucket(entries, entries[number].key.get(&heads.long));
        let next = entries[number].next;
        let mut link = &mut entries[bucket].first;
        while *link != number as u32 {
            let before = *link as usize;
            link = &mut entries[before].next;
        }
        *link = next;
        entries[number].key.clear(&mut heads.long);
        self.requested[number].store(0, Ordering::Relaxed);
    }

    /// Finds a slot of which no session has drawn an id, or used one of its cache, since the hand
    /// last passed it, and that no session waits for, and removes it from its tag. A second round takes any
    /// slot that no session waits for. Returns the slot and the tag's unused ids. Only a slot with a
    /// long name if there is to be room for another one.
    fn evict(
        &self,
        heads: &mut Heads,
        entries: &mut [Entry],
        is_for_long: bool,
    ) -> Option<(usize, Option<Leftover>)> {
        let count = self.slots.len();
        let now = clock::monotonic();
        for step in 0..count * 2 {
            let number = heads.hand as usize % count;
            heads.hand = ((number + 1) % count) as u32;
            let (slot, entry) = (&self.slots[number], &mut entries[number]);
            if is_for_long && !entry.key.is_long() {
                continue;
            }
            let drawn = slot.buffer.drawn();
            let is_used = slot.buffer.take_used();
            let same = std::mem::replace(&mut entry.seen, drawn) == drawn;
            let idle = (same && !is_used) || step >= count;
            if idle && !slot.is_awaited(now) {
                let key = entry.key.get(&heads.long).to_owned();
                let incarnation = entry.key.incarnation();
                self.unlink(heads, entries, number);
                // Those that make room for a long name are none that more slots would prevent.
                heads.evictions += u64::from(!is_for_long);
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

/// The number of the bucket for a key.
fn bucket(entries: &[Entry], key: KeyRef<'_>) -> usize {
    let mut hasher = DefaultHasher::new();
    key.hash(&mut hasher);
    hasher.finish() as usize % entries.len()
}

/// The slot that serves `key`.
fn walk(heads: &Heads, entries: &[Entry], key: KeyRef<'_>) -> Option<usize> {
    let mut number = entries[bucket(entries, key)].first;
    while number != NONE {
        let entry = &entries[number as usize];
        if entry.key.get(&heads.long) == key {
            return Some(number as usize);
        }
        number = entry.next;
    }
    None
}
