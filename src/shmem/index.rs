//! Which slot serves which tag: a chained hash table over the slots.
//!
//! All of it is guarded by one lock, taken shared to look up and exclusive to
//! claim or free a slot. Looking up happens when a session meets a tag for the
//! first time, not when it draws.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::atomic::{AtomicU32, Ordering};

use super::slot::TAG_BYTES;
use super::{Shared, Slot};
use crate::pg;

/// A waiter repeats its request much more often than this, in microseconds.
const REQUEST_LIFE_US: i64 = 2_000_000;

/// No slot.
pub const NONE: u32 = u32::MAX;

/// The first slot of a hash bucket. Index lock.
#[repr(C)]
pub struct Bucket(AtomicU32);

impl Bucket {
    /// An empty bucket.
    pub fn new() -> Self {
        Bucket(AtomicU32::new(NONE))
    }
}

/// How many buckets serve so many slots.
pub fn buckets_for(slots: usize) -> usize {
    slots.next_power_of_two()
}

/// What the index lock guards beside the chains.
#[repr(C)]
pub struct Heads {
    /// The first free slot.
    free: u32,
    /// Where the next search for an idle slot begins.
    hand: u32,
}

impl Heads {
    /// All slots free.
    pub fn new(slots: usize) -> Self {
        Heads {
            free: if slots == 0 { NONE } else { 0 },
            hand: 0,
        }
    }
}

/// Whose slot it is. The catalog's oid is part of it, so that an extension that
/// was dropped and created again never meets its predecessor's slots.
#[repr(C)]
pub struct Key {
    database: u32,
    catalog: u32,
    len: u32,
    tag: [u8; TAG_BYTES],
}

impl Default for Key {
    fn default() -> Self {
        Key {
            database: 0,
            catalog: 0,
            len: 0,
            tag: [0; TAG_BYTES],
        }
    }
}

/// A [`Key`] by reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyRef<'a> {
    /// The database's oid.
    pub database: u32,
    /// The oid of its `leaf.alloc`.
    pub catalog: u32,
    /// The tag, in the database's encoding.
    pub tag: &'a [u8],
}

impl Key {
    fn get(&self) -> KeyRef<'_> {
        KeyRef {
            database: self.database,
            catalog: self.catalog,
            tag: &self.tag[..self.len as usize],
        }
    }

    fn set(&mut self, key: KeyRef<'_>) {
        self.database = key.database;
        self.catalog = key.catalog;
        self.len = key.tag.len() as u32;
        self.tag[..key.tag.len()].copy_from_slice(key.tag);
    }
}

/// A slot and the epoch at which it served the key that was asked for.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// The slot's number.
    pub number: usize,
    /// The buffer's epoch.
    pub epoch: u64,
}

impl Shared {
    /// The slot that serves `key`, if there is one.
    pub fn find(&self, key: KeyRef<'_>) -> Option<Found> {
        let _lock = self.index.shared();
        self.walk(key).map(|number| self.found(number))
    }

    /// The slot that serves `key`; if there is none, a free or idle one is
    /// made to. `None` when every slot is waiting for a load.
    pub fn claim(&self, key: KeyRef<'_>) -> Option<Found> {
        let mut heads = self.index.exclusive();
        if let Some(number) = self.walk(key) {
            return Some(self.found(number));
        }
        let number = match heads.free {
            NONE => self.evict(&mut heads)?,
            free => {
                heads.free = self.slots[free as usize].next.load(Ordering::Relaxed);
                free as usize
            }
        };
        let slot = &self.slots[number];
        slot.begin_anew();
        // SAFETY: the index lock is held exclusively.
        unsafe { &mut *slot.key.0.get() }.set(key);
        let bucket = self.bucket(key);
        slot.next
            .store(bucket.0.load(Ordering::Relaxed), Ordering::Relaxed);
        slot.seen.store(slot.buffer.drawn(), Ordering::Relaxed);
        bucket.0.store(number as u32, Ordering::Relaxed);
        Some(self.found(number))
    }

    /// Asks the loader of `database` to load the slot.
    pub fn request(&self, number: usize, database: u32) {
        let asked_at = &self.slots[number].asked_at;
        asked_at.store(pg::monotonic_us(), Ordering::Relaxed);
        self.requested[number].store(database, Ordering::Release);
    }

    /// Frees the slot of a tag that is no more.
    pub fn free(&self, key: KeyRef<'_>) {
        let mut heads = self.index.exclusive();
        if let Some(number) = self.walk(key) {
            self.give_back(&mut heads, number);
        }
    }

    /// Frees all slots of the database whose catalog's oid `gone` approves.
    pub fn free_all(&self, database: u32, gone: impl Fn(u32) -> bool) {
        let mut heads = self.index.exclusive();
        for number in 0..self.slots.len() {
            let key = self.key(&self.slots[number]);
            if key.database == database && gone(key.catalog) {
                self.give_back(&mut heads, number);
            }
        }
    }

    /// Begins a new epoch for the same tag; see [`Slot::reconsider`].
    pub fn reconsider(&self, key: KeyRef<'_>, discard: bool) {
        let _lock = self.index.shared();
        if let Some(number) = self.walk(key) {
            self.slots[number].reconsider(discard);
        }
    }

    fn give_back(&self, heads: &mut Heads, number: usize) {
        self.unlink(number);
        let slot = &self.slots[number];
        slot.begin_anew();
        slot.next.store(heads.free, Ordering::Relaxed);
        heads.free = number as u32;
    }

    /// Calls `visit` for every slot of the database.
    pub fn each_of(&self, database: u32, mut visit: impl FnMut(KeyRef<'_>, usize, &Slot)) {
        let _lock = self.index.shared();
        for (number, slot) in self.slots.iter().enumerate() {
            let key = self.key(slot);
            if key.database == database {
                visit(key, number, slot);
            }
        }
    }

    /// The keys of all slots of a catalog.
    pub fn keys_of(&self, database: u32, catalog: u32) -> Vec<OwnedKey> {
        let _lock = self.index.shared();
        let numbers = 0..self.slots.len();
        let keys = numbers.filter_map(|number| {
            let key = self.key(&self.slots[number]);
            (key.database == database && key.catalog == catalog).then(|| self.owned_key(number))
        });
        keys.collect()
    }

    /// The key and epoch of a slot now, if it serves any tag.
    pub fn owner_of(&self, number: usize) -> Option<(OwnedKey, Found)> {
        let _lock = self.index.shared();
        let key = self.owned_key(number);
        (key.database != 0).then(|| (key, self.found(number)))
    }

    fn owned_key(&self, number: usize) -> OwnedKey {
        let key = self.key(&self.slots[number]);
        OwnedKey {
            database: key.database,
            catalog: key.catalog,
            tag: key.tag.to_vec(),
        }
    }

    fn found(&self, number: usize) -> Found {
        Found {
            number,
            epoch: self.slots[number].buffer.epoch(),
        }
    }

    /// The key of a slot. The index lock is held.
    fn key<'a>(&self, slot: &'a Slot) -> KeyRef<'a> {
        // SAFETY: every caller holds the index lock.
        unsafe { &*slot.key.0.get() }.get()
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

    /// Takes a slot out of its chain and makes it nobody's. The index lock is
    /// held exclusively.
    fn unlink(&self, number: usize) {
        let slot = &self.slots[number];
        let next = slot.next.load(Ordering::Relaxed);
        let mut link = &self.bucket(self.key(slot)).0;
        while link.load(Ordering::Relaxed) != number as u32 {
            link = &self.slots[link.load(Ordering::Relaxed) as usize].next;
        }
        link.store(next, Ordering::Relaxed);
        // SAFETY: the index lock is held exclusively.
        unsafe { *slot.key.0.get() = Key::default() };
        self.requested[number].store(0, Ordering::Relaxed);
    }

    /// Finds a slot that nobody has drawn from since the hand last passed it
    /// and nobody waits for, and takes it from its tag. A second round takes
    /// any slot nobody waits for.
    fn evict(&self, heads: &mut Heads) -> Option<usize> {
        let count = self.slots.len();
        let now = pg::monotonic_us();
        for step in 0..count * 2 {
            let number = heads.hand as usize % count;
            heads.hand = ((number + 1) % count) as u32;
            let slot = &self.slots[number];
            let drawn = slot.buffer.drawn();
            let idle = slot.seen.swap(drawn, Ordering::Relaxed) == drawn || step >= count;
            let is_awaited = self.requested[number].load(Ordering::Acquire) != 0
                && now - slot.asked_at.load(Ordering::Relaxed) < REQUEST_LIFE_US;
            if idle && !is_awaited {
                self.unlink(number);
                return Some(number);
            }
        }
        None
    }
}

impl OwnedKey {
    /// The key by reference.
    pub fn as_ref(&self) -> KeyRef<'_> {
        KeyRef {
            database: self.database,
            catalog: self.catalog,
            tag: &self.tag,
        }
    }
}

/// A [`Key`] by value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct OwnedKey {
    /// The database's oid.
    pub database: u32,
    /// The oid of its `leaf.alloc`.
    pub catalog: u32,
    /// The tag, in the database's encoding.
    pub tag: Vec<u8>,
}
