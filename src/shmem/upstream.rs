//! Requests to the centre, which loaders and sessions post and the link passes on.
//!
//! The states of a request are `Free → Posted → Taken → Answered → Free`, as those of the
//! [mailbox](super::mailbox). A request that is withdrawn while the link has it is
//! `Abandoned`: numbers that the centre grants for it are lost.

use std::time::Duration;

use leaf_core::Run;
use leaf_core::snowflake::Terms;
use leaf_core::tag;
use leaf_core::time::{Monotonic, WallTime};

use super::failures::Failures;
use super::text::Text;
use crate::pg::clock;
use crate::pg::latch::LatchRef;
use crate::pg::lwlock::{Locked, LockedSlice};
use crate::pg::shm::{Request, Shareable, Startup};

/// How many requests there can be at once. A loader that finds no free place tries again.
const PLACES: usize = 256;

/// How many bytes the name of a tag of the centre can have, in UTF-8: 128 characters.
pub const TAG_BYTES: usize = tag::MAX_BYTES;

/// What is asked of the centre.
#[derive(Clone, Copy)]
pub enum Demand {
    /// Numbers of a tag.
    Feed {
        /// The centre's tag, in UTF-8.
        tag: Text<TAG_BYTES>,
        /// How many numbers; 0 to find out only where the tag stands.
        count: u64,
        /// Whether fewer are of no use.
        exact: bool,
    },
    /// A lease of a worker id.
    Register {
        /// The name of this node.
        node: Text<254>,
        /// The worker id that it requires, if any.
        worker_id: Option<u64>,
        /// With the same nonce, the same lease.
        nonce: [u8; 16],
        /// How far ahead of the clock the ceiling should be.
        ahead: Duration,
    },
    /// A higher ceiling for a lease.
    Renew {
        worker_id: u64,
        nonce: [u8; 16],
        token: i64,
        /// With the same next token, the same renewal.
        next_token: i64,
        /// How far ahead of the clock the ceiling should be.
        ahead: Duration,
        /// Where the lease is from. If nothing answers, it is compared with where the centre
        /// should be now.
        address: Address,
    },
}

/// Hosts, ports and the name of a database, as `host:port,host:port/database`.
pub type Address = Text<500>;

impl Demand {
    /// What it is about, for the log.
    pub fn subject(&self) -> String {
        match self {
            Demand::Feed { tag, .. } => format!("ids of the centre's tag \"{}\"", tag.get()),
            Demand::Register { .. } => "a worker id of the centre".into(),
            Demand::Renew { worker_id, .. } => {
                format!("the centre's renewal of worker id {worker_id}")
            }
        }
    }
}

/// What the centre has answered.
#[derive(Clone, Copy)]
pub enum Reply {
    /// Numbers.
    Fed {
        /// The numbers granted. Without any, where the tag stands.
        run: Run,
        /// The identity of the centre's tag.
        incarnation: [u8; 16],
    },
    /// A lease.
    Leased {
        nonce: [u8; 16],
        token: i64,
        terms: Terms,
        from: Registry,
    },
    /// A lease with a higher ceiling.
    Renewed {
        token: i64,
        ceiling: WallTime,
        from: Registry,
    },
}

/// The registry that has answered.
#[derive(Clone, Copy)]
pub struct Registry {
    pub incarnation: [u8; 16],
    pub history: Text<160>,
    pub address: Address,
    /// The number of the connection.
    pub connection: u64,
}

/// Why there is nothing from the centre, as far as every role may know it. The cause is
/// in the log and in `leaf.stat_upstream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unfed {
    /// `leaf.upstream` is not set, or no connection string.
    NoUpstream,
    /// The centre cannot be reached, or does not answer.
    Away,
    /// The same, and it would be the centre that has granted the lease.
    SameAway,
    /// The same, and it would be another one.
    OtherAway,
    /// The centre has answered that it could not do it in time.
    Busy,
    /// The centre has no such tag.
    Missing,
    /// The centre's tag has too few numbers left, or its layout no worker id.
    Exhausted,
    /// The lease of the worker id is lost.
    LeaseLost,
    /// This server's clock is too far from the centre's.
    Clock,
    /// The centre's tag is not the one that the tag was attached to.
    OtherTag,
    /// The centre has answered with another error.
    Refused,
}

impl Unfed {
    /// Whether another attempt may succeed while a caller waits. If not, callers get an error
    /// at once.
    pub fn may_pass_soon(self) -> bool {
        match self {
            Unfed::Away
            | Unfed::SameAway
            | Unfed::OtherAway
            | Unfed::Busy
            | Unfed::Refused
            | Unfed::LeaseLost
            | Unfed::Clock => true,
            Unfed::NoUpstream | Unfed::Missing | Unfed::OtherTag | Unfed::Exhausted => false,
        }
    }

    /// Whether the centre has done nothing, and will not if it is asked again.
    pub fn is_definite(self) -> bool {
        !self.is_unreached() && self != Unfed::NoUpstream
    }

    /// Whether no answer has come.
    pub fn is_unreached(self) -> bool {
        matches!(self, Unfed::Away | Unfed::SameAway | Unfed::OtherAway)
    }

    /// The text for those who wait.
    pub fn message(self) -> &'static str {
        match self {
            Unfed::NoUpstream => "leaf.upstream is not set",
            Unfed::Away | Unfed::SameAway => "the centre cannot be reached",
            Unfed::OtherAway => {
                "the centre that leaf.upstream names now cannot be reached, and the worker id is leased from another one"
            }
            Unfed::Busy => "the centre could not do it in time",
            Unfed::Missing => "the centre has no such tag",
            Unfed::OtherTag => "the centre's tag was dropped and created again",
            Unfed::Exhausted => "the centre's tag has reached its maximum value",
            Unfed::LeaseLost => "the centre has leased the worker id to another node",
            Unfed::Clock => "this server's clock is too far from the centre's",
            Unfed::Refused => "the centre refuses the request",
        }
    }
}

/// The outcome of a request.
pub type Answer = Result<Reply, Unfed>;

/// The requests, and how the link fares.
pub struct Upstream {
    places: LockedSlice<Place>,
    state: &'static Locked<State>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(C)]
enum Status {
    Free,
    Posted,
    Taken,
    Answered,
    Abandoned,
}

/// A request in shared memory.
#[repr(C)]
struct Place {
    status: Status,
    /// Distinguishes this use of the place from others.
    serial: u64,
    /// Who waits for the answer.
    latch: LatchRef,
    demand: Demand,
    answer: Answer,
}

// SAFETY: no pointers but the address of a latch, which is the same in all processes.
unsafe impl Shareable for Place {}

impl Place {
    const FREE: Place = Place {
        status: Status::Free,
        serial: 0,
        latch: LatchRef::NONE,
        demand: Demand::Feed {
            tag: Text::EMPTY,
            count: 0,
            exact: false,
        },
        answer: Err(Unfed::Away),
    };
}

/// How the link fares.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct State {
    /// Where it is connected, or was last.
    pub host: Text<254>,
    /// Since when it is connected.
    pub connected_at: Option<WallTime>,
    /// How often it has connected.
    pub connections: u64,
    /// Until when it must stay connected at least.
    pub watched_until: Monotonic,
    /// When the centre answered last.
    pub answered_at: Option<WallTime>,
    /// How often it has granted numbers.
    pub feeds: u64,
    /// How many numbers it has granted.
    pub numbers: u64,
    /// How many requests have failed.
    pub failed: u64,
    /// The last failure, with its whole cause.
    pub failures: Failures,
}

// SAFETY: it has no pointers.
unsafe impl Shareable for State {}

impl State {
    const NEW: State = State {
        host: Text::EMPTY,
        connected_at: None,
        connections: 0,
        watched_until: Monotonic::ZERO,
        answered_at: None,
        feeds: 0,
        numbers: 0,
        failed: 0,
        failures: Failures::NONE,
    };
}

/// A request that was posted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DemandId {
    place: usize,
    serial: u64,
}

impl Upstream {
    /// Requests the memory.
    pub(super) fn request_memory(request: &Request) {
        LockedSlice::<Place>::request_memory(request, PLACES);
        request.room_for::<Locked<State>>(1);
    }

    /// Attaches to that memory.
    pub(super) fn attach(startup: &Startup) -> Self {
        let names = (c"leaf upstream lock", c"leaf upstream");
        let state = || Locked::new(State::NEW, startup);
        Upstream {
            places: LockedSlice::attach(startup, names, || (), PLACES, |_| Place::FREE),
            state: startup.attach_one(c"leaf upstream state", state),
        }
    }

    /// Posts a request, whose answer will set this process's latch; `None` if there is no free
    /// place.
    pub fn post(&self, demand: &Demand) -> Option<DemandId> {
        let latch = LatchRef::mine();
        let mut places = self.places.write();
        let is_free = |place: &Place| place.status == Status::Free;
        let number = places.iter().position(is_free)?;
        let place = &mut places[number];
        *place = Place {
            status: Status::Posted,
            serial: place.serial + 1,
            latch,
            demand: *demand,
            ..Place::FREE
        };
        Some(DemandId {
            place: number,
            serial: place.serial,
        })
    }

    /// Takes the answer, if there is one; this ends the request.
    pub fn collect(&self, id: DemandId) -> Option<Answer> {
        let mut places = self.places.write();
        let place = get(&mut places, id)?;
        if place.status != Status::Answered {
            return None;
        }
        place.status = Status::Free;
        Some(place.answer)
    }

    /// Ends a request, whatever its state.
    pub fn withdraw(&self, id: DemandId) {
        let mut places = self.places.write();
        if let Some(place) = get(&mut places, id) {
            place.status = match place.status {
                Status::Taken | Status::Abandoned => Status::Abandoned,
                Status::Free | Status::Posted | Status::Answered => Status::Free,
            };
        }
    }

    /// Whether a request waits for the link.
    pub fn has_posted(&self) -> bool {
        let places = self.places.read();
        places.iter().any(|place| place.status == Status::Posted)
    }

    /// Takes all requests that were posted.
    pub fn take(&self) -> Vec<(DemandId, Demand)> {
        let mut taken = Vec::with_capacity(PLACES);
        let mut places = self.places.write();
        for (number, place) in places.iter_mut().enumerate() {
            if place.status == Status::Posted {
                place.status = Status::Taken;
                let id = DemandId {
                    place: number,
                    serial: place.serial,
                };
                taken.push((id, place.demand));
            }
        }
        taken
    }

    /// Answers a taken request. If it was withdrawn, the numbers are lost.
    pub fn answer(&self, id: DemandId, answer: Answer) {
        let mut places = self.places.write();
        let Some(place) = get(&mut places, id) else {
            return;
        };
        place.status = match place.status {
            Status::Taken => {
                place.answer = answer;
                Status::Answered
            }
            Status::Abandoned => Status::Free,
            Status::Free | Status::Posted | Status::Answered => place.status,
        };
        let latch = place.latch;
        drop(places);
        latch.set();
    }

    /// Answers all requests that a link has taken before it ended.
    pub fn answer_all_taken(&self, answer: Answer) {
        let mut latches = Vec::with_capacity(PLACES);
        let mut places = self.places.write();
        for place in places.iter_mut() {
            match place.status {
                Status::Taken => {
                    place.status = Status::Answered;
                    place.answer = answer;
                    latches.push(place.latch);
                }
                Status::Abandoned => place.status = Status::Free,
                Status::Free | Status::Posted | Status::Answered => {}
            }
        }
        drop(places);
        latches.into_iter().for_each(LatchRef::set);
    }

    /// Keeps the link connected for a while, because a lease of the centre is in use.
    pub fn watch(&self, until: Monotonic) {
        self.state.write().watched_until = until;
    }

    /// Whether it has to stay connected.
    pub fn is_watched(&self) -> bool {
        self.state.read().watched_until > clock::monotonic()
    }

    /// How the link fares.
    pub fn state(&self) -> State {
        *self.state.read()
    }

    /// Records how the link fares. `change` must not raise an error.
    pub fn note(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.write());
    }

    /// Records a failure of the link or of one request, with its whole cause.
    pub fn note_failure(&self, cause: &str) {
        self.note(|state| state.failures.note(cause));
    }

    /// Records that the centre has answered, with whatever.
    pub fn note_answer(&self) {
        let now = clock::now();
        self.note(|state| state.answered_at = Some(now));
    }

    /// Records that the centre has done what was asked.
    pub fn note_reply(&self, reply: &Reply) {
        self.note_answer();
        self.note(|state| {
            if let Reply::Fed { run, .. } = reply {
                state.feeds += 1;
                state.numbers += run.len;
            }
        });
    }
}

fn get(places: &mut [Place], id: DemandId) -> Option<&mut Place> {
    let place = &mut places[id.place];
    (place.serial == id.serial).then_some(place)
}
