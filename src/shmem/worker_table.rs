//! Which of leaf's background workers run, and which are being started: the loaders, each
//! for its database, and the link.

use std::time::Duration;

use leaf_core::time::Monotonic;

use crate::pg::latch::LatchRef;
use crate::pg::lwlock::{LockedSlice, Names};
use crate::pg::shm::{Request, Shareable, Startup};
use crate::pg::{clock, process};

/// After this time, a requested worker that has not started is no longer expected.
const START_PATIENCE: Duration = Duration::from_secs(2);

/// Workers of a kind, one place for each that runs. A worker is known by a number that is not
/// 0: a loader by the OID of its database.
pub struct WorkerTable(LockedSlice<Place>);

#[derive(Clone, Copy)]
#[repr(C)]
struct Place {
    /// The worker's number; 0 for a free place.
    worker: u32,
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
        worker: 0,
        pid: 0,
        latch: LatchRef::NONE,
        claimed_at: Monotonic::ZERO,
    };

    /// Whether a requested start may still succeed.
    fn is_starting(&self, now: Monotonic) -> bool {
        self.claimed_at != Monotonic::ZERO && now.since(self.claimed_at) < START_PATIENCE
    }
}

/// Which process starts a worker that is not running.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The caller.
    Mine,
    /// Another process, or the worker is running by now.
    Others,
    /// None: there is no place left for another worker.
    Full,
}

fn of(places: &mut [Place], worker: u32) -> Option<&mut Place> {
    places.iter_mut().find(|place| place.worker == worker)
}

/// The place of `worker`; if it has none, a free or abandoned one is assigned to it.
fn take(places: &mut [Place], worker: u32) -> Option<&mut Place> {
    let now = clock::monotonic();
    let find = |wanted: &dyn Fn(&Place) -> bool| places.iter().position(wanted);
    let own = find(&|place| place.worker == worker);
    let free = || find(&|place| place.worker == 0);
    let abandoned = || find(&|place| place.pid == 0 && !place.is_starting(now));
    let place = &mut places[own.or_else(free).or_else(abandoned)?];
    if place.worker != worker {
        *place = Place {
            worker,
            ..Place::FREE
        };
    }
    Some(place)
}

impl WorkerTable {
    /// Requests the memory.
    pub(super) fn request_memory(request: &Request, count: usize) {
        LockedSlice::<Place>::request_memory(request, count);
    }

    /// Attaches to that memory.
    pub(super) fn attach(startup: &Startup, names: Names, count: usize) -> Self {
        WorkerTable(LockedSlice::attach(
            startup,
            names,
            || (),
            count,
            |_| Place::FREE,
        ))
    }

    /// The latch of `worker`, if it runs.
    pub fn latch_of(&self, worker: u32) -> Option<LatchRef> {
        self.of_running(worker, |place| place.latch)
    }

    /// The process ID of `worker`, if it runs.
    pub fn pid_of(&self, worker: u32) -> Option<i32> {
        self.of_running(worker, |place| place.pid)
    }

    fn of_running<T>(&self, worker: u32, get: impl Fn(&Place) -> T) -> Option<T> {
        let places = self.0.read();
        let place = places.iter().find(|place| place.worker == worker)?;
        (place.pid != 0).then(|| get(place))
    }

    /// Whether this process should start `worker`, because no other process has claimed
    /// this recently. A worker that is running is woken.
    pub fn claim_start(&self, worker: u32) -> Claim {
        let now = clock::monotonic();
        let mut places = self.0.write();
        let Some(place) = take(&mut places, worker) else {
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

    /// Ends a claim because the worker could not be started.
    pub fn abandon_start(&self, worker: u32) {
        let mut places = self.0.write();
        if let Some(place) = of(&mut places, worker)
            && place.pid == 0
        {
            *place = Place::FREE;
        }
    }

    /// Makes this process `worker`; `false` if there is one already.
    pub fn enter(&self, worker: u32) -> bool {
        let (pid, latch) = (process::my_pid(), LatchRef::mine());
        let mut places = self.0.write();
        match take(&mut places, worker) {
            Some(place) if place.pid == 0 => {
                place.pid = pid;
                place.latch = latch;
                true
            }
            _ => false,
        }
    }

    /// Removes this process as `worker`, unless `stay` returns that there
    /// is work. Processes that request work afterwards start a new one. Returns whether
    /// this process was removed.
    pub fn leave(&self, worker: u32, stay: impl FnOnce() -> bool) -> bool {
        let pid = process::my_pid();
        let mut places = self.0.write();
        if stay() {
            return false;
        }
        if let Some(place) = of(&mut places, worker)
            && place.pid == pid
        {
            *place = Place::FREE;
        }
        true
    }
}
