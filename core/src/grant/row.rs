//! The row of a tag, a request to it, and the decision on it.

use std::time::Duration;

use super::position::Position;
use crate::run::Run;
use crate::step::StepPolicy;

/// A tag's row, as it is before a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    /// How far its ids are granted, as of this history of the cluster.
    pub position: Position,
    /// The `max_id` that the row itself has.
    pub stored: i64,
    /// The smallest number of ids in a segment.
    pub step: u64,
    /// The largest number of ids in a segment that is chosen for the tag; `None` if the
    /// policy's applies.
    pub max_step: Option<u64>,
    /// The identity of the row: a tag that was dropped and created again has
    /// another one.
    pub incarnation: [u8; 16],
    /// Ids in the last segment; of a stripe, the number that a whole block would have given.
    pub last_grant: u64,
    /// Ids in the largest block reserved so far.
    pub largest_reserve: u64,
    /// Unused ids below are not taken back: the tag was moved here, or ids below may be
    /// in use otherwise.
    pub floor: i64,
    /// The identity of the centre's tag from which the ids come, if the tag is fed.
    pub upstream: Option<[u8; 16]>,
    /// Whether another node may grant the numbers of the row, too: then it grants none.
    pub is_elsewhere: bool,
    /// Whether leaf's triggers have seen the row being written, or somebody has said that it is right.
    pub is_signed: bool,
    /// Whether the row may lack numbers that were fed to shards, because nobody vouches for it in
    /// the current history. The skip at the beginning of a history is meant for one cluster's
    /// buffers, not for those of any number of shards.
    pub may_lack_feeds: bool,
    /// Whether numbers were fed to a shard, by the grants that are being made.
    pub has_fed: bool,
}

/// Who grants a tag's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Grantor {
    /// The tag's row.
    Row,
    /// A tag of the centre, to which the row is attached.
    Centre,
}

impl Row {
    /// Who grants the tag's numbers.
    pub fn grantor(&self) -> Grantor {
        match self.upstream {
            None => Grantor::Row,
            Some(_) => Grantor::Centre,
        }
    }

    /// Whether other nodes have numbers of the tag, too: a centre grants them, or the tag has a
    /// stripe of them.
    pub fn is_shared(&self) -> bool {
        self.grantor() == Grantor::Centre || self.position.numbers.stripe().width().is_some()
    }

    /// The step policy of this tag.
    pub fn policy(&self, policy: &StepPolicy) -> StepPolicy {
        StepPolicy {
            max_step: self.max_step.unwrap_or(policy.max_step),
            ..*policy
        }
    }

    /// Skips numbers, because the row was made, or last granted ids, in another history of the
    /// cluster.
    pub fn enter_history(&mut self, skip_factor: u64) {
        self.position.skip(self.skipped(skip_factor));
    }

    /// How many numbers are left with what the row has skipped in this history.
    pub fn left_as_stored(&self) -> u64 {
        let stored = Position {
            max_id: self.stored,
            ..self.position
        };
        stored.left()
    }

    /// How many numbers the row skips in another history: `skip_factor` times the last segment and
    /// the largest reserved block, because a standby that was promoted may have missed that many
    /// grants. A row without a grant may have missed its first ones, each of `step` ids. That is
    /// enough as long as none of these was larger than the last ones that it has.
    /// `leaf.max_reserve` keeps one absurd block from making the skip exhaust the tag.
    pub fn skipped(&self, skip_factor: u64) -> u64 {
        // The numbers of a fed tag come from elsewhere.
        if self.grantor() == Grantor::Centre {
            return 0;
        }
        let segment = match self.last_grant {
            0 => self.step.min(self.position.most_at_once()),
            last_grant => last_grant,
        };
        skip_factor.saturating_mul(segment.saturating_add(self.largest_reserve))
    }
}

/// The result of a search for a tag's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// The row, locked for the grant.
    Row(Row),
    /// The row is locked by another transaction.
    Busy,
    /// There is no row.
    Missing,
    /// The row is not the one from which ids were granted, and leaf's triggers did not see it being
    /// written: it may be that of another node, which grants the same numbers.
    Replaced,
}

/// A request to a tag's row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GrantRequest {
    /// A segment, of the size that the step policy determines.
    Segment,
    /// A block of exactly `count` ids.
    Block {
        /// How many ids.
        count: u64,
    },
    /// Numbers for a fed tag of another cluster.
    Feed {
        /// How many.
        count: u64,
        /// Whether fewer are of no use.
        exact: bool,
    },
    /// To take unused ids back, which is possible only if nothing was granted after them.
    TakeBack {
        /// The ids. They were granted, and nobody uses them any more.
        unused: Run,
    },
}

/// The earlier grants of a tag, as memory has them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Past {
    /// One past the largest id published, or `i64::MIN`.
    pub high_water: i64,
    /// Ids in the last segment; 0 before the first.
    pub step: u64,
    /// How long the last segment lasted.
    pub lasted: Duration,
}

impl GrantRequest {
    /// Whether it is for a tag of another cluster.
    pub fn is_of_shard(&self) -> bool {
        matches!(self, GrantRequest::Feed { .. })
    }
}

impl Past {
    /// The past of a tag that is not in memory.
    pub const NONE: Past = Past {
        high_water: i64::MIN,
        step: 0,
        lasted: Duration::ZERO,
    };
}

/// The result of a request for a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// The ids were taken back.
    TakenBack,
    /// The ids were not taken back, because ids after them have been granted.
    NotLast,
    /// Ids were granted.
    Granted {
        /// The ids.
        run: Run,
        /// The number of ids that the segment should have; the grant has fewer if the
        /// tag has fewer left. For a block, 0.
        step: u64,
    },
    /// The tag has reached its `max_value`, or the block needs more ids than are left, or than
    /// may be taken [at once](Position::most_at_once).
    Exhausted,
    /// There is no row.
    Missing,
    /// The row has another incarnation than the requested one, or another node may grant its
    /// numbers, too: the caller looks the tag up again.
    Changed,
    /// Another transaction has locked the row.
    Busy,
    /// The row was [replaced](Found::Replaced).
    Replaced,
    /// The row's `max_id` lies below ids that were handed out. A grant would repeat
    /// them.
    Below {
        /// One past the largest id handed out.
        high_water: i64,
    },
    /// The centre grants the tag's numbers, and must be asked.
    Ask {
        /// How many.
        count: u64,
        /// Whether fewer are of no use.
        exact: bool,
    },
    /// The numbers come from another tag of the centre than the one that the tag was
    /// attached to.
    OtherUpstream,
    /// The centre's numbers lie below numbers that the tag has granted already. A grant could
    /// repeat them.
    DeliveredBelow {
        /// The first number not yet granted.
        max_id: i64,
    },
    /// The tag feeds nothing, because its own numbers come from a centre.
    IsFed,
    /// The tag feeds nothing, because its row may lack numbers that were fed before.
    MayLackFeeds,
}
