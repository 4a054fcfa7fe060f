//! What sessions ask of their database's loader: to reserve blocks, to take back their
//! unused ends, to create tags, and to lease worker ids to nodes.
//!
//! The states of a request are `Free → Posted → Taken → Answered → Free`. The session
//! posts it, and collects the answer or withdraws it; the loader takes it, and answers
//! it or puts it back. A request that is withdrawn while it is taken is `Abandoned`,
//! and the loader frees it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use leaf_core::Run;
use leaf_core::snowflake::Scheme;
use leaf_core::time::{Monotonic, WallTime};

use super::failures::Failures;
use super::generators::{Lease, Refusal};
use super::key::{Key, KeyRef, OwnedKey};
use super::text::Text;
use super::upstream::Unfed;
use crate::pg::condvar::CondVar;
use crate::pg::lwlock::LockedSlice;
use crate::pg::{clock, process, shm};

/// How many requests of other clusters a loader takes at once.
const FEEDS_AT_ONCE: usize = 32;

/// The requests of all databases: at most one per session.
pub struct Mailbox {
    places: LockedSlice<Place>,
    /// Places from this one on have never been used.
    used: &'static AtomicUsize,
    /// For each place, what its session sleeps on.
    answered: &'static [CondVar],
    /// What sessions sleep on that wait for a free place: requests that were withdrawn may
    /// occupy some for a moment.
    room: &'static CondVar,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Status {
    Free,
    Posted,
    Taken,
    Answered,
    Abandoned,
}

/// What a session asks for.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives in shared memory, where nothing can be boxed"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Asked {
    /// A block of this many ids.
    Block { count: u64 },
    /// Numbers for a fed tag of another cluster: so many, or, unless `exact`, fewer if the tag
    /// has fewer left.
    Feed { count: u64, exact: bool },
    /// To take unused ids back.
    TakeBack { unused: Run },
    /// To create the tag, with the defaults and this role as its owner.
    Tag { owner: u32 },
    /// A worker id for a node.
    WorkerId(Registration),
}

impl Asked {
    /// Whether it concerns a tag.
    pub fn is_of_tag(&self) -> bool {
        !matches!(self, Asked::WorkerId(_))
    }
}

/// A node that asks for a worker id, and its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Registration {
    /// Its name, in UTF-8: at most 256 characters.
    pub node: Text<1024>,
    /// The worker id that it requires, if any.
    pub worker_id: Option<u64>,
    /// Its clock, and the registry's at the same time.
    pub clock: WallTime,
    pub now: WallTime,
    /// How far ahead of the clock its ceiling should be.
    pub ahead: Duration,
    /// With the same nonce, the same lease.
    pub nonce: Option<[u8; 16]>,
    /// The role that registers it, and how many worker ids that may hold.
    pub role: u32,
    pub max_leases: u64,
}

/// The loader's answer to a request.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives in shared memory, where nothing can be boxed"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Answer {
    /// The block.
    Granted { run: Run },
    /// The request to take ids back was processed. They were taken back only if they were
    /// the last that the tag had granted.
    TakenBack { was_last: bool },
    /// The tag has fewer ids left than asked for.
    Exhausted,
    /// The tag is fed, and feeds no others.
    IsFed,
    /// The tag's row may lack numbers that were fed before.
    MayLackFeeds,
    /// The tag is fed, and gets nothing from the centre for a reason that does not pass soon.
    Unfed(Unfed),
    /// The worker id, with the layout and epoch of its ids.
    Leased { lease: Lease, scheme: Scheme },
    /// There is no worker id.
    Refused(Refusal),
    /// The tag is no longer the one that the session requested ids of, or it was created:
    /// the session has to look it up again.
    Changed,
}

/// A request in shared memory.
#[repr(C)]
struct Place {
    status: Status,
    /// Distinguishes this use of the place from others.
    serial: u64,
    key: Key,
    asked: Asked,
    answer: Answer,
    posted_at: Monotonic,
    /// When the loader may take it again.
    retry_at: Monotonic,
    failures: Failures,
}

impl Place {
    const FREE: Place = Place {
        status: Status::Free,
        serial: 0,
        key: Key::NOBODYS,
        asked: Asked::Block { count: 0 },
        answer: Answer::Changed,
        posted_at: Monotonic::ZERO,
        retry_at: Monotonic::ZERO,
        failures: Failures::NONE,
    };

    fn is_posted_to(&self, database: u32) -> bool {
        self.status == Status::Posted && self.key.get().database == database
    }
}

/// A request that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestId {
    place: usize,
    serial: u64,
}

/// A request as the loader sees it.
#[derive(Clone, Debug)]
pub struct Request {
    /// Identifies the request.
    pub id: RequestId,
    /// The tag.
    pub key: OwnedKey,
    /// The identity of the row that the session was allowed to draw from.
    pub incarnation: [u8; 16],
    /// What the session asks for.
    pub asked: Asked,
}

impl Mailbox {
    /// Requests the memory; only in the request hook.
    pub(super) fn request_memory() {
        LockedSlice::<Place>::request_memory(process::most_sessions());
        shm::request::<AtomicUsize>(1);
        shm::request::<CondVar>(process::most_sessions());
        shm::request::<CondVar>(1);
    }

    /// Attaches to that memory; only in the startup hook.
    pub(super) fn attach(tranche: i32) -> Self {
        let count = process::most_sessions();
        let names = (c"leaf mailbox lock", c"leaf mailbox");
        Mailbox {
            places: LockedSlice::attach(names, count, tranche, || Place::FREE),
            used: &shm::attach(c"leaf mailbox used", 1, |_| AtomicUsize::new(0))[0],
            answered: shm::attach(c"leaf answers", count, |_| CondVar::new()),
            room: &shm::attach(c"leaf mailbox room", 1, |_| CondVar::new())[0],
        }
    }

    /// Signalled when the request may have been answered.
    pub fn answered(&self, id: RequestId) -> &CondVar {
        &self.answered[id.place]
    }

    /// Signalled when there may be a free place for a request.
    pub fn room(&self) -> &CondVar {
        self.room
    }

    /// Posts a request about the row with that incarnation; `None` if there is no free
    /// place.
    pub fn post(&self, key: KeyRef<'_>, incarnation: [u8; 16], asked: Asked) -> Option<RequestId> {
        let now = clock::monotonic();
        let mut places = self.places.write();
        let is_free = |place: &Place| place.status == Status::Free;
        let number = places.iter().position(is_free)?;
        self.used.fetch_max(number + 1, Ordering::Relaxed);
        let place = &mut places[number];
        place.status = Status::Posted;
        place.serial += 1;
        place.key.set(key, incarnation);
        place.asked = asked;
        place.posted_at = now;
        place.retry_at = Monotonic::ZERO;
        place.failures = Failures::NONE;
        Some(RequestId {
            place: number,
            serial: place.serial,
        })
    }

    /// Takes the answer, if there is one; this ends the request.
    pub fn collect(&self, id: RequestId) -> Option<Answer> {
        let mut places = self.places.write();
        let place = get(&mut places, id)?;
        if place.status != Status::Answered {
            return None;
        }
        place.status = Status::Free;
        let answer = place.answer;
        drop(places);
        self.room.broadcast();
        Some(answer)
    }

    /// Ends a request, whatever its state.
    pub fn withdraw(&self, id: RequestId) {
        let mut places = self.places.write();
        if let Some(place) = get(&mut places, id) {
            place.status = match place.status {
                Status::Taken | Status::Abandoned => Status::Abandoned,
                Status::Free | Status::Posted | Status::Answered => Status::Free,
            };
        }
        drop(places);
        self.room.broadcast();
    }

    /// Why the request has not been answered yet, if the loader has tried.
    pub fn last_failure(&self, id: RequestId) -> Option<String> {
        let mut places = self.places.write();
        get(&mut places, id)?.failures.message()
    }

    /// When the next request of a kind to the loader of `database` may be taken, if there is
    /// one.
    pub fn next_try(&self, database: u32, is_it: impl Fn(&Asked) -> bool) -> Option<Monotonic> {
        let places = self.places.read();
        let places = places[..self.used()].iter();
        let posted = places.filter(|place| place.is_posted_to(database) && is_it(&place.asked));
        posted.map(|place| place.retry_at).min()
    }

    /// Takes all requests of a kind posted to the loader of `database` that may be tried
    /// now.
    ///
    /// Of requests of other clusters, only [`FEEDS_AT_ONCE`], the oldest first, so that they
    /// do not hold up the others.
    pub fn take(&self, database: u32, is_it: impl Fn(&Asked) -> bool) -> Vec<Request> {
        let now = clock::monotonic();
        let used = self.used();
        let mut taken = Vec::with_capacity(used);
        let mut feeds = Vec::with_capacity(used);
        let mut places = self.places.write();
        let is_due = |place: &Place| {
            place.is_posted_to(database) && place.retry_at <= now && is_it(&place.asked)
        };
        let places_of_feeds = places[..used].iter().enumerate();
        feeds.extend(
            places_of_feeds
                .filter(|(_, place)| is_due(place) && matches!(place.asked, Asked::Feed { .. }))
                .map(|(number, place)| (place.posted_at, number)),
        );
        feeds.sort_unstable();
        feeds.truncate(FEEDS_AT_ONCE);
        for (number, place) in places[..used].iter_mut().enumerate() {
            let is_feed = matches!(place.asked, Asked::Feed { .. });
            let is_its_turn = !is_feed || feeds.iter().any(|&(_, other)| other == number);
            if !is_due(place) || !is_its_turn {
                continue;
            }
            place.status = Status::Taken;
            taken.push(Request {
                id: RequestId {
                    place: number,
                    serial: place.serial,
                },
                key: place.key.get().to_owned(),
                incarnation: place.key.incarnation(),
                asked: place.asked,
            });
        }
        taken
    }

    /// Answers a taken request. If the session has withdrawn it, a granted block is lost.
    pub fn answer(&self, id: RequestId, answer: Answer) {
        self.settle(id, |place| {
            place.answer = answer;
            Status::Answered
        });
    }

    /// Puts a taken request back, to be tried again, and records the reason.
    pub fn put_back(&self, id: RequestId, failure: &str) {
        self.settle(id, |place| {
            place.retry_at = place.failures.record(failure).retry_at;
            Status::Posted
        });
    }

    /// Puts back all requests that a loader took and did not settle before it ended.
    ///
    /// It may have committed them. A block that was granted is then a gap; but what was taken
    /// back must not be taken back again, because it may have been granted since.
    pub fn put_back_all(&self, database: u32) {
        let mut places = self.places.write();
        for place in places[..self.used()].iter_mut() {
            if place.key.get().database == database {
                place.status = match (place.status, place.asked) {
                    (
                        Status::Taken,
                        Asked::Block { .. }
                        | Asked::Feed { .. }
                        | Asked::Tag { .. }
                        | Asked::WorkerId(_),
                    ) => Status::Posted,
                    (Status::Taken, Asked::TakeBack { .. }) => {
                        place.answer = Answer::TakenBack { was_last: false };
                        Status::Answered
                    }
                    (Status::Abandoned, _) => Status::Free,
                    (Status::Free | Status::Posted | Status::Answered, _) => place.status,
                };
            }
        }
        drop(places);
        for answered in &self.answered[..self.used()] {
            answered.broadcast();
        }
        self.room.broadcast();
    }

    fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    fn settle(&self, id: RequestId, change: impl FnOnce(&mut Place) -> Status) {
        let mut places = self.places.write();
        if let Some(place) = get(&mut places, id) {
            place.status = match place.status {
                Status::Taken | Status::Posted => change(place),
                Status::Abandoned => Status::Free,
                Status::Free | Status::Answered => place.status,
            };
        }
        drop(places);
        self.answered[id.place].broadcast();
        self.room.broadcast();
    }
}

fn get(places: &mut [Place], id: RequestId) -> Option<&mut Place> {
    let place = &mut places[id.place];
    (place.serial == id.serial).then_some(place)
}
