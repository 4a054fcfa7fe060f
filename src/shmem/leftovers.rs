//! Unused ids of slots that were evicted, to be taken back by the loaders of their
//! databases. What finds no place here is a gap.

use std::sync::atomic::{AtomicUsize, Ordering};

use leaf_core::Run;
use leaf_core::time::Monotonic;

use super::key::{Key, OwnedKey};
use crate::pg::clock;
use crate::pg::lwlock::LockedSlice;
use crate::pg::shm::{Request, Shareable, Startup};

/// How many evicted slots can wait for their loaders.
const ROOM: usize = 256;

/// The unused ids of evicted slots.
pub struct Leftovers {
    places: LockedSlice<Place>,
    /// How many places are occupied.
    occupied: &'static AtomicUsize,
}

#[repr(C)]
struct Place {
    /// The tag; free if it has no database.
    key: Key,
    unused: Run,
    /// When the loader may take it.
    at: Monotonic,
}

// SAFETY: it has no pointers.
unsafe impl Shareable for Place {}

impl Place {
    const FREE: Place = Place {
        key: Key::NOBODYS,
        unused: Run { first: 0, len: 0 },
        at: Monotonic::ZERO,
    };
}

/// The unused ids of an evicted slot.
#[derive(Clone, Debug)]
pub struct Leftover {
    /// The tag.
    pub key: OwnedKey,
    /// The incarnation of its row.
    pub incarnation: [u8; 16],
    /// The ids.
    pub unused: Run,
}

impl Leftovers {
    /// Requests the memory.
    pub(super) fn request_memory(request: &Request) {
        LockedSlice::<Place>::request_memory(request, ROOM);
        request.room_for::<AtomicUsize>(1);
    }

    /// Attaches to that memory.
    pub(super) fn attach(startup: &Startup) -> Self {
        let names = (c"leaf leftovers lock", c"leaf leftovers");
        Leftovers {
            places: LockedSlice::attach(startup, names, || (), ROOM, |_| Place::FREE),
            occupied: startup.attach_one(c"leaf leftovers occupied", || AtomicUsize::new(0)),
        }
    }

    /// Leaves ids to the loader of their database, which may take them from `at` on.
    pub fn post(&self, leftover: &Leftover, at: Monotonic) {
        let mut places = self.places.write();
        let is_free = |place: &Place| place.key.get().database == 0;
        if let Some(number) = places.iter().position(is_free) {
            let place = &mut places[number];
            place.key.set(leftover.key.as_ref(), leftover.incarnation);
            place.unused = leftover.unused;
            place.at = at;
            self.occupied.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Takes what the loader of `database` may take now.
    pub fn take(&self, database: u32) -> Vec<Leftover> {
        if self.is_empty() {
            return Vec::new();
        }
        let now = clock::monotonic();
        let mut taken = Vec::with_capacity(ROOM);
        let mut places = self.places.write();
        for place in places.iter_mut() {
            let key = place.key.get();
            if key.database == database && place.at <= now {
                taken.push(Leftover {
                    key: key.to_owned(),
                    incarnation: place.key.incarnation(),
                    unused: place.unused,
                });
                *place = Place::FREE;
                self.occupied.fetch_sub(1, Ordering::Relaxed);
            }
        }
        taken
    }

    /// When the loader of `database` may take the next, if there is one.
    pub fn next_try(&self, database: u32) -> Option<Monotonic> {
        if self.is_empty() {
            return None;
        }
        let places = self.places.read();
        let of_database = |place: &&Place| place.key.get().database == database;
        places
            .iter()
            .filter(of_database)
            .map(|place| place.at)
            .min()
    }

    /// Forgets the ids of a database that has been dropped.
    pub fn forget(&self, database: u32) {
        let mut places = self.places.write();
        for place in places.iter_mut() {
            if place.key.get().database == database {
                *place = Place::FREE;
                self.occupied.fetch_sub(1, Ordering::Relaxed);
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.occupied.load(Ordering::Relaxed) == 0
    }
}
