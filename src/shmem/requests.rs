//! Requests to the loader of a database ([mailbox](super::mailbox)).
//!
//! | stage | begins when | ends when |
//! |---|---|---|
//! | `Free` | the answer was collected, or nobody waits for it any more | somebody posts a request |
//! | `Posted` | it was posted, or put back after a failure | the worker takes it, or it is withdrawn |
//! | `Taken` | the worker has taken it | the worker answers it or puts it back |
//! | `Answered` | the worker has answered it | the answer is collected, or it is withdrawn |
//! | `Abandoned` | it was withdrawn while the worker had it | the worker settles it |
//!
//! A worker settles each request that it takes, even when it ends. A process that posts a request
//! wakes the worker; the end of the request wakes the process. A process may have several
//! requests under way.

use std::ffi::CStr;
use std::sync::atomic::{AtomicUsize, Ordering};

use leaf_core::time::Monotonic;

use super::failures::Failures;
use crate::pg::clock;
use crate::pg::latch::LatchRef;
use crate::pg::lwlock::LockedSlice;
use crate::pg::shm::{Request, Shareable, Startup};

/// A table of requests: what is asked is an `A`, what is answered an `R`.
pub struct Table<A: 'static, R: 'static> {
    places: LockedSlice<Place<A, R>>,
    /// Places from this one on have never been used.
    used: &'static AtomicUsize,
}

#[derive(Clone, Copy)]
#[repr(C)]
enum Stage<A, R> {
    Free,
    Posted(A),
    Taken(A),
    Answered(R),
    Abandoned(A),
}

/// A request in shared memory.
#[repr(C)]
struct Place<A, R> {
    stage: Stage<A, R>,
    /// Distinguishes this use of the place from others.
    serial: u64,
    /// Who waits for the answer.
    latch: LatchRef,
    posted_at: Monotonic,
    /// When the worker may take it again.
    retry_at: Monotonic,
    failures: Failures,
}

// SAFETY: no pointers but the address of a latch, which is the same in all processes.
unsafe impl<A: Shareable, R: Shareable> Shareable for Place<A, R> {}

impl<A, R> Place<A, R> {
    const FREE: Self = Place {
        stage: Stage::Free,
        serial: 0,
        latch: LatchRef::NONE,
        posted_at: Monotonic::ZERO,
        retry_at: Monotonic::ZERO,
        failures: Failures::NONE,
    };
}

/// A request that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    place: usize,
    serial: u64,
}

/// The names of the memory of a table: those of its lock, its places, and how many are used.
pub type Names = [&'static CStr; 3];

impl<A: Shareable + Copy, R: Shareable + Copy> Table<A, R> {
    /// Requests the memory for `count` requests at once.
    pub(super) fn request_memory(request: &Request, count: usize) {
        LockedSlice::<Place<A, R>>::request_memory(request, count);
        request.room_for::<AtomicUsize>(1);
    }

    /// Attaches to that memory.
    pub(super) fn attach(startup: &Startup, names: Names, count: usize) -> Self {
        let [lock, places, used] = names;
        Table {
            places: LockedSlice::attach(startup, (lock, places), || (), count, |_| Place::FREE),
            used: startup.attach_one(used, || AtomicUsize::new(0)),
        }
    }

    /// Posts requests at once, whose answers will set this process's latch: the first ones, so that `spare` places stay free.
    pub fn post_all(&self, asks: &[A], spare: usize) -> Vec<Id> {
        let (now, latch) = (clock::monotonic(), LatchRef::mine());
        let mut posted = Vec::with_capacity(asks.len());
        let mut asks = asks.iter();
        let mut places = self.places.write();
        let is_free = |place: &Place<A, R>| matches!(place.stage, Stage::Free);
        let mut room = asks.len();
        if spare > 0 {
            let free = places.iter().filter(|place| is_free(place)).count();
            room = room.min(free.saturating_sub(spare));
        }
        for (number, place) in places.iter_mut().enumerate() {
            if room == 0 {
                break;
            }
            if is_free(place)
                && let Some(ask) = asks.next()
            {
                *place = Place {
                    stage: Stage::Posted(*ask),
                    serial: place.serial + 1,
                    latch,
                    posted_at: now,
                    ..Place::FREE
                };
                self.used.fetch_max(number + 1, Ordering::Relaxed);
                posted.push(Id {
                    place: number,
                    serial: place.serial,
                });
                room -= 1;
            }
        }
        posted
    }

    /// Takes the answers that are not there yet; this ends their requests.
    pub fn collect_each(&self, ids: &[Id], answers: &mut [Option<R>]) {
        let mut places = self.places.write();
        let missing = ids.iter().zip(answers).filter(|(_, it)| it.is_none());
        for (id, answer) in missing {
            if let Some(place) = get(&mut places, *id)
                && let Stage::Answered(found) = place.stage
            {
                place.stage = Stage::Free;
                *answer = Some(found);
            }
        }
    }

    /// Ends a request, whatever its stage. What is granted for it from now on is lost.
    pub fn withdraw(&self, id: Id) {
        let mut places = self.places.write();
        if let Some(place) = get(&mut places, id) {
            place.stage = match place.stage {
                Stage::Taken(ask) | Stage::Abandoned(ask) => Stage::Abandoned(ask),
                Stage::Free | Stage::Posted(_) | Stage::Answered(_) => Stage::Free,
            };
        }
    }

    /// Whether somebody still waits for the answer to a taken request.
    pub fn is_awaited(&self, id: Id) -> bool {
        let mut places = self.places.write();
        get(&mut places, id).is_some_and(|place| matches!(place.stage, Stage::Taken(_)))
    }

    /// Why the request has not been answered yet, if the worker has tried.
    pub fn last_failure(&self, id: Id) -> Option<String> {
        let mut places = self.places.write();
        get(&mut places, id)?.failures.message()
    }

    /// When the next of the requests for which `is_it` returns true may be taken, if there is one.
    pub fn next_try(&self, is_it: impl Fn(&A) -> bool) -> Option<Monotonic> {
        let places = self.places.read();
        let places = places[..self.used()].iter();
        let tries = places.filter_map(|place| match &place.stage {
            Stage::Posted(ask) if is_it(ask) => Some(place.retry_at),
            _ => None,
        });
        tries.min()
    }

    /// Takes the requests that may be tried now and for which `is_it` returns true. It is asked
    /// about the oldest first.
    pub fn take(&self, mut is_it: impl FnMut(&A) -> bool) -> Vec<(Id, A)> {
        let now = clock::monotonic();
        let used = self.used();
        let (mut due, mut taken) = (Vec::with_capacity(used), Vec::with_capacity(used));
        let mut places = self.places.write();
        let posted = places[..used].iter().enumerate();
        let posted = posted.filter(|(_, place)| matches!(place.stage, Stage::Posted(_)));
        due.extend(
            posted
                .filter(|(_, place)| place.retry_at <= now)
                .map(|(number, place)| (place.posted_at, number)),
        );
        due.sort_unstable();
        for (_, number) in due {
            let place = &mut places[number];
            if let Stage::Posted(ask) = place.stage
                && is_it(&ask)
            {
                place.stage = Stage::Taken(ask);
                let serial = place.serial;
                let id = Id {
                    place: number,
                    serial,
                };
                taken.push((id, ask));
            }
        }
        taken
    }

    /// Answers a taken request. If it was withdrawn, what was granted for it is lost.
    pub fn answer(&self, id: Id, answer: R) {
        self.answer_all(&[(id, answer)]);
    }

    /// Answers taken requests at once, so that who has posted several of them wakes once.
    pub fn answer_all(&self, answers: &[(Id, R)]) {
        let mut latches = Vec::with_capacity(answers.len());
        let mut places = self.places.write();
        for (id, answer) in answers {
            latches.extend(settle(&mut places, *id, |_, _| Stage::Answered(*answer)));
        }
        drop(places);
        latches.sort_unstable();
        latches.dedup();
        latches.into_iter().for_each(LatchRef::set);
    }

    /// Puts a taken request back, to be tried again, and records the reason.
    pub fn put_back(&self, id: Id, failure: &str) {
        self.settle(id, |place, ask| {
            place.retry_at = place.failures.record(failure).retry_at;
            Stage::Posted(ask)
        });
    }

    /// Records why a taken request cannot be answered yet.
    pub fn note_failure(&self, id: Id, failure: &str) {
        self.settle(id, |place, ask| {
            place.failures.note(failure);
            Stage::Taken(ask)
        });
    }

    fn settle(&self, id: Id, settled: impl FnOnce(&mut Place<A, R>, A) -> Stage<A, R>) {
        let mut places = self.places.write();
        let latch = settle(&mut places, id, settled);
        drop(places);
        latch.into_iter().for_each(LatchRef::set);
    }

    /// Settles what a worker has taken before it ended, of the requests for which `is_it` returns
    /// true: with what `answer` returns, or by putting the request back.
    pub fn settle_taken(&self, is_it: impl Fn(&A) -> bool, answer: impl Fn(&A) -> Option<R>) {
        let used = self.used();
        let mut latches = Vec::with_capacity(used);
        let mut places = self.places.write();
        for place in places[..used].iter_mut() {
            place.stage = match place.stage {
                Stage::Taken(ask) if is_it(&ask) => {
                    latches.push(place.latch);
                    answer(&ask).map_or(Stage::Posted(ask), Stage::Answered)
                }
                Stage::Abandoned(ask) if is_it(&ask) => Stage::Free,
                stage => stage,
            };
        }
        drop(places);
        latches.into_iter().for_each(LatchRef::set);
    }

    fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }
}

/// Settles a taken request; returns who has posted it.
fn settle<A: Copy, R: Copy>(
    places: &mut [Place<A, R>],
    id: Id,
    settled: impl FnOnce(&mut Place<A, R>, A) -> Stage<A, R>,
) -> Option<LatchRef> {
    let place = get(places, id)?;
    place.stage = match place.stage {
        Stage::Taken(ask) => settled(place, ask),
        Stage::Abandoned(_) => Stage::Free,
        stage @ (Stage::Free | Stage::Posted(_) | Stage::Answered(_)) => stage,
    };
    Some(place.latch)
}

fn get<A, R>(places: &mut [Place<A, R>], id: Id) -> Option<&mut Place<A, R>> {
    let place = &mut places[id.place];
    (place.serial == id.serial).then_some(place)
}
