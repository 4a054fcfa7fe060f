//! The requests of sessions to their database's loader: to reserve blocks, to take back their
//! unused ends, to lease worker ids to nodes, and where tags of the centre stand.

use std::time::Duration;

use leaf_core::grant::{Decision, GrantRequest};
use leaf_core::snowflake::Scheme;
use leaf_core::time::{Monotonic, WallTime};

use super::generators::{Lease, Refusal};
use super::key::{Key, KeyRef, OwnedKey, TAG_BYTES};
use super::requests::{Id, Table};
use super::text::Text;
use super::upstream::Denial;
use crate::pg::process;
use crate::pg::shm::Shareable;
use crate::settings::upstream::CentreDigest;

/// Of how many tags a loader takes requests of other clusters at once.
const FED_AT_ONCE: usize = 40;

/// How many requests there can be beside one of each session: those of sessions that ask for
/// numbers of several tags.
const FURTHER: usize = 1024;

/// The requests of all databases.
pub type Mailbox = Table<Ask, Answer>;

/// A request to the loader of a database.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Ask {
    key: Key,
    asked: LoaderRequest,
}

// SAFETY: they have no pointers.
unsafe impl Shareable for Ask {}
// SAFETY: as above.
unsafe impl Shareable for Answer {}

/// The request of a session.
#[expect(
    clippy::large_enum_variant,
    reason = "it lives in shared memory, where nothing can be boxed"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum LoaderRequest {
    /// A grant, or to take ids back.
    Grant(GrantRequest),
    /// A worker id for a node.
    WorkerId(Registration),
    /// Where a tag of the centre stands. With its name, in UTF-8.
    Position(Text<TAG_BYTES>),
}

impl LoaderRequest {
    /// The request to the row of a tag.
    pub fn grant(&self) -> Option<GrantRequest> {
        match self {
            LoaderRequest::Grant(wanted) => Some(*wanted),
            LoaderRequest::WorkerId(_) | LoaderRequest::Position(_) => None,
        }
    }

    /// The node that asks for a worker id.
    pub fn registration(&self) -> Option<&Registration> {
        match self {
            LoaderRequest::WorkerId(node) => Some(node),
            LoaderRequest::Grant(_) | LoaderRequest::Position(_) => None,
        }
    }

    /// The tag of the centre whose position is asked for.
    pub fn tag_of_centre(&self) -> Option<String> {
        match self {
            LoaderRequest::Position(tag) => Some(tag.get()),
            LoaderRequest::Grant(_) | LoaderRequest::WorkerId(_) => None,
        }
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
    /// The decision on a grant. `Changed` also if the tag was created: the session has to look
    /// it up again.
    Decided(Decision),
    /// The centre has denied it, for a reason that does not pass soon.
    Denied(Denial),
    /// The worker id, with the layout and epoch of its ids.
    Leased { lease: Lease, scheme: Scheme },
    /// There is no worker id.
    Refused(Refusal),
    /// Where the centre's tag stands, and the tag's identity. With the digest of `leaf.upstream` as
    /// the loader had it.
    Position(CentreDigest, Result<(i64, [u8; 16]), Denial>),
}

/// A request as the loader sees it.
#[derive(Clone, Debug)]
pub struct Request {
    /// Identifies the request.
    pub id: Id,
    /// The tag.
    pub key: OwnedKey,
    /// The identity of the row that the session was allowed to draw from.
    pub incarnation: [u8; 16],
    /// The request of the session.
    pub asked: LoaderRequest,
}

impl Ask {
    /// A request about the row with that incarnation.
    pub fn of(key: KeyRef<'_>, incarnation: [u8; 16], asked: LoaderRequest) -> Self {
        let mut of_tag = Key::NOBODYS;
        of_tag.set(key, incarnation);
        Ask { key: of_tag, asked }
    }

    fn is_to(&self, database: u32) -> bool {
        self.key.get().database == database
    }
}

impl Mailbox {
    /// How many requests there can be.
    pub(super) fn places() -> usize {
        process::most_sessions() + FURTHER
    }

    /// Posts the requests of a session, the first ones: one, and as many others as there is room
    /// for if there is a place left for each session.
    pub fn post_of_session(&self, asks: &[Ask]) -> Vec<Id> {
        match self.post_all(asks, process::most_sessions()) {
            posted if posted.is_empty() => self.post_all(&asks[..asks.len().min(1)], 0),
            posted => posted,
        }
    }

    /// When the next request of a kind to the loader of `database` may be taken, if there is
    /// one.
    pub fn next_try_of(
        &self,
        database: u32,
        is_it: impl Fn(&LoaderRequest) -> bool,
    ) -> Option<Monotonic> {
        self.next_try(|ask| ask.is_to(database) && is_it(&ask.asked))
    }

    /// Takes all requests of a kind posted to the loader of `database` that may be tried
    /// now.
    ///
    /// Of requests of other clusters, only those of [`FED_AT_ONCE`] tags, so that they do not hold
    /// up the others. What many shards ask of one tag costs little more than what one does.
    pub fn take_of(&self, database: u32, is_it: impl Fn(&LoaderRequest) -> bool) -> Vec<Request> {
        let mut fed = Vec::with_capacity(FED_AT_ONCE);
        let taken = self.take(|ask| {
            let is_taken = ask.is_to(database) && is_it(&ask.asked);
            if !is_taken || !ask.asked.grant().is_some_and(|wanted| wanted.is_of_shard()) {
                return is_taken;
            }
            let tag = ask.key.incarnation();
            if fed.contains(&tag) {
                return true;
            }
            let has_room = fed.len() < FED_AT_ONCE;
            if has_room {
                fed.push(tag);
            }
            has_room
        });
        let request = |(id, Ask { key, asked }): (Id, Ask)| Request {
            id,
            key: key.get().to_owned(),
            incarnation: key.incarnation(),
            asked,
        };
        taken.into_iter().map(request).collect()
    }

    /// Settles what the loader of `database` has taken before it ended.
    ///
    /// It may have committed that. A block that was granted is then a gap; but what was taken
    /// back must not be taken back again, because it may have been granted since.
    pub fn hand_over(&self, database: u32) {
        self.settle_taken(
            |ask| ask.is_to(database),
            |ask| match ask.asked {
                LoaderRequest::Grant(GrantRequest::TakeBack { .. }) => {
                    Some(Answer::Decided(Decision::NotLast))
                }
                LoaderRequest::Grant(_)
                | LoaderRequest::WorkerId(_)
                | LoaderRequest::Position(_) => None,
            },
        );
    }
}
