//! The conversations of this server's databases with the centre: how each of them
//! fares, and why it has nothing.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use leaf_core::time::WallTime;

use super::failures::Failures;
use super::text::Text;
use crate::pg::clock;
use crate::pg::lwlock::Locked;
use crate::pg::shm::{Shareable, Startup};

/// How the loader of a database fares with the centre.
#[repr(C)]
pub struct Contact {
    /// Changes when a connection is made, and when one is lost. The thread that speaks with the
    /// centre stores this itself: the loader's main thread may be waiting for a standby.
    connections: AtomicU64,
    /// Since when it is connected; 0 if it is not.
    connected_at: AtomicI64,
    state: Locked<ContactState>,
}

/// The conversation, as the loader's main thread has seen it.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct ContactState {
    /// Where it is connected, or was last.
    pub host: Text<254>,
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

// SAFETY: they have no pointers.
unsafe impl Shareable for ContactState {}
// SAFETY: as above.
unsafe impl Shareable for Contact {}

impl ContactState {
    /// The state of a database that has not asked a centre.
    pub const NEW: ContactState = ContactState {
        host: Text::EMPTY,
        answered_at: None,
        feeds: 0,
        numbers: 0,
        failed: 0,
        failures: Failures::NONE,
    };
}

impl Contact {
    /// No conversation yet.
    pub(super) fn new(startup: &Startup) -> Self {
        Contact {
            connections: AtomicU64::new(0),
            connected_at: AtomicI64::new(0),
            state: Locked::new(ContactState::NEW, startup),
        }
    }

    /// It becomes that of another database.
    pub(super) fn reset(&self) {
        self.disconnected();
        *self.state.write() = ContactState::NEW;
    }

    /// Which connection this is, or, if there is none, which one was lost last. Not the same number
    /// before and after.
    pub fn connection(&self) -> u64 {
        self.connections.load(Ordering::Acquire)
    }

    /// Since when there is a connection, if there is one.
    pub fn connected_at(&self) -> Option<WallTime> {
        let at = self.connected_at.load(Ordering::Relaxed);
        (at != 0).then_some(WallTime::from_unix_us(at))
    }

    /// Records a new connection. Calls nothing of PostgreSQL's server.
    pub fn connected(&self) {
        let now = clock::now().unix_us();
        self.connected_at.store(now, Ordering::Relaxed);
        self.connections.fetch_add(1, Ordering::Release);
    }

    /// Records that there is no connection any more. Calls nothing of PostgreSQL's server.
    pub fn disconnected(&self) {
        self.connected_at.store(0, Ordering::Relaxed);
        self.connections.fetch_add(1, Ordering::Release);
    }

    /// The state that the main thread has seen.
    pub fn state(&self) -> ContactState {
        *self.state.read()
    }

    /// Records what the main thread has seen. `change` must not raise an error.
    pub fn note(&self, change: impl FnOnce(&mut ContactState)) {
        change(&mut self.state.write());
    }
}

/// Why there is nothing for a tag, mostly from the centre, as far as every role may know it. The
/// centre's cause is in the log and in `leaf.stat_upstream`.
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
    /// The tag's row is not the one from which ids were granted, and leaf's triggers did not see it
    /// being written.
    Replaced,
}

impl Denial {
    /// Whether another attempt may succeed while a caller waits. If not, callers get an error
    /// at once.
    pub fn may_pass_soon(self) -> bool {
        !matches!(
            self,
            Denial::NoUpstream
                | Denial::Missing
                | Denial::OtherTag
                | Denial::Exhausted
                | Denial::Replaced
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
            Denial::Replaced => "the tag's row was replaced",
        }
    }
}
