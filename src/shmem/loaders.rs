//! Which loaders run, and which are being started, each for its database; and how each fares with
//! the centre.

use std::time::Duration;

use leaf_core::time::Monotonic;

use super::upstream::Contact;
use crate::pg::latch::LatchRef;
use crate::pg::lwlock::{LockedSlice, Names};
use crate::pg::shm::{Request, Shareable, Startup};
use crate::pg::{clock, process};

/// After this time, a requested loader that has not started is no longer expected.
const START_PATIENCE: Duration = Duration::from_secs(2);

/// The loaders, one place for each that runs, or has run lately.
pub struct Loaders {
    places: LockedSlice<Place>,
    /// One for each place.
    contacts: &'static [Contact],
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Place {
    /// The loader's database; 0 for a free place.
    database: u32,
    /// Its process; 0 while it is being started.
    pid: i32,
    latch: LatchRef,
    /// When a start was last requested; 0 for never.
    claimed_at: Monotonic,
}

// SAFETY: numbers, and the address of a latch, which is the same in all processes.
unsafe impl Shareable for Place {}

impl Place {
    const FREE: Place = Place {
        database: 0,
        pid: 0,
        latch: LatchRef::NONE,
        claimed_at: Monotonic::ZERO,
    };

    /// Whether a requested start may still succeed.
    fn is_starting(&self, now: Monotonic) -> bool {
        self.claimed_at != Monotonic::ZERO && now.since(self.claimed_at) < START_PATIENCE
    }
}

/// Which process starts a loader that is not running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The caller.
    Mine,
    /// Another process, or the loader is running by now.
    Others,
    /// None: there is no place left for another loader.
    Full,
}

fn of(places: &[Place], database: u32) -> Option<usize> {
    places.iter().position(|place| place.database == database)
}

impl Loaders {
    /// Requests the memory.
    pub(super) fn request_memory(request: &Request, count: usize) {
        LockedSlice::<Place>::request_memory(request, count);
        request.room_for::<Contact>(count);
    }

    /// Attaches to that memory.
    pub(super) fn attach(startup: &Startup, names: Names, count: usize) -> Self {
        Loaders {
            places: LockedSlice::attach(startup, names, || (), count, |_| Place::FREE),
            contacts: startup.attach(c"leaf contacts", count, |_| Contact::new(startup)),
        }
    }

    /// The place of the loader of `database`; if it has none, a free one is assigned to it, or one
    /// whose loader does not run.
    fn take(&self, places: &mut [Place], database: u32) -> Option<usize> {
        let now = clock::monotonic();
        let is_idle = |place: &Place| place.pid == 0 && !place.is_starting(now);
        let number = of(places, database)
            .or_else(|| of(places, 0))
            .or_else(|| places.iter().position(is_idle))?;
        if places[number].database != database {
            places[number] = Place {
                database,
                ..Place::FREE
            };
            self.contacts[number].reset();
        }
        Some(number)
    }

    /// The latch of the loader of `database`, if it runs.
    pub fn latch_of(&self, database: u32) -> Option<LatchRef> {
        self.of_running(database, |place| place.latch)
    }

    /// The process ID of the loader of `database`, if it runs.
    pub fn pid_of(&self, database: u32) -> Option<i32> {
        self.of_running(database, |place| place.pid)
    }

    fn of_running<T>(&self, database: u32, get: impl Fn(&Place) -> T) -> Option<T> {
        let places = self.places.read();
        let place = &places[of(&places, database)?];
        (place.pid != 0).then(|| get(place))
    }

    /// How the loader of `database` fares with the centre, if it has run.
    pub fn contact_of(&self, database: u32) -> Option<&'static Contact> {
        let number = of(&self.places.read(), database)?;
        Some(&self.contacts[number])
    }

    /// Whether this process should start the loader of `database`, because no other process has
    /// claimed this recently. A loader that is running is woken.
    pub fn claim_start(&self, database: u32) -> Claim {
        let now = clock::monotonic();
        let mut places = self.places.write();
        let Some(number) = self.take(&mut places, database) else {
            return Claim::Full;
        };
        let place = &mut places[number];
        if place.pid != 0 {
            place.latch.set();
            return Claim::Others;
        }
        if place.is_starting(now) {
            return Claim::Others;
        }
        place.claimed_at = now;
        Claim::Mine
    }

    /// Ends a claim because the loader could not be started.
    pub fn abandon_start(&self, database: u32) {
        self.end(&mut self.places.write(), database, 0);
    }

    /// Makes this process the loader of `database`; `None` if there is one already.
    pub fn enter(&self, database: u32) -> Option<&'static Contact> {
        let (pid, latch) = (process::my_pid(), LatchRef::mine());
        let mut places = self.places.write();
        let number = self.take(&mut places, database)?;
        let place = &mut places[number];
        if place.pid != 0 {
            return None;
        }
        (place.pid, place.latch) = (pid, latch);
        Some(&self.contacts[number])
    }

    /// Removes this process as the loader of `database`, unless `stay` returns that there
    /// is work. Processes that request work afterwards start a new one. Returns whether
    /// this process was removed.
    pub fn leave(&self, database: u32, stay: impl FnOnce() -> bool) -> bool {
        let mut places = self.places.write();
        if stay() {
            return false;
        }
        self.end(&mut places, database, process::my_pid());
        true
    }

    /// The loader of `database` does not run any more, if it was this process, or nobody starts it,
    /// for 0. Its place stays its own until another one needs it.
    fn end(&self, places: &mut [Place], database: u32, pid: i32) {
        let number = of(places, database).filter(|&number| places[number].pid == pid);
        if let Some(number) = number {
            places[number] = Place {
                database,
                ..Place::FREE
            };
        }
    }

    /// Forgets a database that was dropped: a later one may get its OID.
    pub fn forget(&self, database: u32) {
        let mut places = self.places.write();
        let number = of(&places, database).filter(|&number| places[number].pid == 0);
        if let Some(number) = number {
            places[number] = Place::FREE;
        }
    }
}
