//! Requests to the centre, which loaders and sessions post and the link passes on.

use std::time::Duration;

use leaf_core::Run;
use leaf_core::snowflake::Terms;
use leaf_core::snowflake::lease::Identity;
use leaf_core::tag;
use leaf_core::time::{Monotonic, WallTime};

use super::failures::Failures;
use super::requests::{Id, Table};
use super::text::Text;
use crate::pg::clock;
use crate::pg::lwlock::Locked;
use crate::pg::shm::{Request, Shareable, Startup};

/// How many requests there can be at once. A loader that finds no free place tries again.
const PLACES: usize = 256;

/// How many of them loaders leave to sessions, and to what concerns leases.
const SPARE: usize = 64;

/// For how many tags a loader may ask before anybody draws from them.
pub const MOST_AHEAD: usize = 128;

/// How many bytes the name of a tag of the centre can have, in UTF-8: 128 characters.
pub const TAG_BYTES: usize = tag::MAX_BYTES;

/// What is asked of the centre.
#[derive(Clone, Copy)]
pub enum Demand {
    /// Numbers of a tag.
    Numbers {
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
    /// Whether it is about a tag.
    pub fn is_of_tag(&self) -> bool {
        matches!(self, Demand::Numbers { .. })
    }

    /// Whether it is for numbers, and not only about where a tag stands: that may be any name.
    pub fn is_for_numbers(&self) -> bool {
        matches!(self, Demand::Numbers { count: 1.., .. })
    }

    /// What it is about, for the log.
    pub fn subject(&self) -> String {
        match self {
            Demand::Numbers { tag, .. } => format!("ids of the centre's tag \"{}\"", tag.get()),
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
    Granted {
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

impl Registry {
    /// Which registry it is.
    pub fn identity(&self) -> Identity {
        Identity {
            incarnation: self.incarnation,
            history: self.history.get(),
        }
    }
}

/// Why there is nothing from the centre, as far as every role may know it. The cause is
/// in the log and in `leaf.stat_upstream`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Denial {
    /// `leaf.upstream` is not set, or no connection string.
    NoUpstream,
    /// The centre cannot be reached, or does not answer.
    Away,
    /// The centre that has granted the lease cannot be reached, or does not answer.
    SameAway,
    /// Another centre than the one that has granted the lease cannot be reached, or does not
    /// answer.
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

impl Denial {
    /// Whether another attempt may succeed while a caller waits. If not, callers get an error
    /// at once.
    pub fn may_pass_soon(self) -> bool {
        !matches!(
            self,
            Denial::NoUpstream | Denial::Missing | Denial::OtherTag | Denial::Exhausted
        )
    }

    /// Whether the centre has done nothing, and will not if it is asked again.
    pub fn is_definite(self) -> bool {
        !self.is_unreached() && self != Denial::NoUpstream
    }

    /// Whether no answer has come.
    pub fn is_unreached(self) -> bool {
        matches!(self, Denial::Away | Denial::SameAway | Denial::OtherAway)
    }

    /// The text for those who wait.
    pub fn message(self) -> &'static str {
        match self {
            Denial::NoUpstream => "leaf.upstream is not set",
            Denial::Away | Denial::SameAway => "the centre cannot be reached",
            Denial::OtherAway => {
                "the centre that leaf.upstream names now cannot be reached, and the worker id is leased from another one"
            }
            Denial::Busy => "the centre could not do it in time",
            Denial::Missing => "the centre has no such tag",
            Denial::OtherTag => "the centre's tag was dropped and created again",
            Denial::Exhausted => "the centre's tag has reached its maximum value",
            Denial::LeaseLost => "the centre has leased the worker id to another node",
            Denial::Clock => "this server's clock is too far from the centre's",
            Denial::Refused => "the centre refuses the request",
        }
    }
}

/// The outcome of a request.
pub type Answer = Result<Reply, Denial>;

/// The requests, and how the link fares.
pub struct Upstream {
    pub requests: Table<Demand, Answer>,
    state: &'static Locked<LinkState>,
}

// SAFETY: they have no pointers.
unsafe impl Shareable for Demand {}
// SAFETY: as above.
unsafe impl Shareable for Answer {}

/// How the link fares.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct LinkState {
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
unsafe impl Shareable for LinkState {}

impl LinkState {
    const NEW: LinkState = LinkState {
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

impl Upstream {
    /// Requests the memory.
    pub(super) fn request_memory(request: &Request) {
        Table::<Demand, Answer>::request_memory(request, PLACES);
        request.room_for::<Locked<LinkState>>(1);
    }

    /// Attaches to that memory.
    pub(super) fn attach(startup: &Startup) -> Self {
        let names = [
            c"leaf upstream lock",
            c"leaf upstream",
            c"leaf upstream used",
        ];
        let state = || Locked::new(LinkState::NEW, startup);
        Upstream {
            requests: Table::attach(startup, names, PLACES),
            state: startup.attach_one(c"leaf upstream state", state),
        }
    }

    /// Posts a loader's request for numbers; `None` if there is no room for it.
    pub fn post_of_loader(&self, demand: &Demand) -> Option<Id> {
        let demand = std::slice::from_ref(demand);
        self.requests.post_all(demand, SPARE).pop()
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
    pub fn state(&self) -> LinkState {
        *self.state.read()
    }

    /// Records how the link fares. `change` must not raise an error.
    pub fn note(&self, change: impl FnOnce(&mut LinkState)) {
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
            if let Reply::Granted { run, .. } = reply {
                state.feeds += 1;
                state.numbers += run.len;
            }
        });
    }
}
