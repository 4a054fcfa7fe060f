//! Which databases have a loader, and for which one is being started.

use std::time::Duration;

use leaf_core::time::Monotonic;

use crate::pg::latch::LatchRef;
use crate::pg::lwlock::LockedSlice;
use crate::pg::{bgworker, clock, process};

/// After this time, a requested loader that has not started is no longer expected.
const START_PATIENCE: Duration = Duration::from_secs(2);

/// The loaders, one place per database that has one. There are as many as background
/// workers can run, because each loader is one.
pub struct LoaderTable(LockedSlice<Place>);

#[derive(Clone, Copy)]
#[repr(C)]
struct Place {
    /// The database's OID; 0 for a free place.
    database: u32,
    /// The loader's process; 0 while it is being started.
    pid: i32,
    latch: LatchRef,
    /// When a start of a loader was last requested; 0 for never.
    claimed_at: Monotonic,
}

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
    /// None: there is no place left for another database.
    Full,
}

fn of(places: &mut [Place], database: u32) -> Option<&mut Place> {
    places.iter_mut().find(|place| place.database == database)
}

/// The place of `database`; if it has none, a free or abandoned one is assigned to it.
fn take(places: &mut [Place], database: u32) -> Option<&mut Place> {
    let now = clock::monotonic();
    let find = |wanted: &dyn Fn(&Place) -> bool| places.iter().position(wanted);
    let own = find(&|place| place.database == database);
    let free = || find(&|place| place.database == 0);
    let abandoned = || find(&|place| place.pid == 0 && !place.is_starting(now));
    let place = &mut places[own.or_else(free).or_else(abandoned)?];
    if place.database != database {
        *place = Place {
            database,
            ..Place::FREE
        };
    }
    Some(place)
}

impl LoaderTable {
    /// Requests the memory; only in the request hook.
    pub(super) fn request_memory() {
        LockedSlice::<Place>::request_memory(bgworker::most());
    }

    /// Attaches to that memory; only in the startup hook.
    pub(super) fn attach(tranche: i32) -> Self {
        let names = (c"leaf loaders lock", c"leaf loaders");
        let places = LockedSlice::attach(names, bgworker::most(), tranche, || Place::FREE);
        LoaderTable(places)
    }

    /// The latch of the loader of `database`, if it runs.
    pub fn latch_of(&self, database: u32) -> Option<LatchRef> {
        let places = self.0.read();
        let place = places.iter().find(|place| place.database == database)?;
        (place.pid != 0).then_some(place.latch)
    }

    /// Whether this process should start the loader, because no other process has claimed
    /// this recently. A loader that is running is woken.
    pub fn claim_start(&self, database: u32) -> Claim {
        let now = clock::monotonic();
        let mut places = self.0.write();
        let Some(place) = take(&mut places, database) else {
            return Claim::Full;
        };
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
        let mut places = self.0.write();
        if let Some(place) = of(&mut places, database)
            && place.pid == 0
        {
            *place = Place::FREE;
        }
    }

    /// Makes this process the loader of `database`; `false` if there is one already.
    pub fn enter(&self, database: u32) -> bool {
        let (pid, latch) = (process::my_pid(), LatchRef::mine());
        let mut places = self.0.write();
        match take(&mut places, database) {
            Some(place) if place.pid == 0 => {
                place.pid = pid;
                place.latch = latch;
                true
            }
            _ => false,
        }
    }

    /// Removes this process as the loader of `database`, unless `stay` returns that there
    /// is work. Sessions that request work afterwards start a new loader. Returns whether
    /// this process was removed.
    pub fn leave(&self, database: u32, stay: impl FnOnce() -> bool) -> bool {
        let pid = process::my_pid();
        let mut places = self.0.write();
        if stay() {
            return false;
        }
        if let Some(place) = of(&mut places, database)
            && place.pid == pid
        {
            *place = Place::FREE;
        }
        true
    }
}
