//! Questions to the centre, and its answers.

use std::time::Duration;

use leaf_core::Run;
use leaf_core::snowflake::Terms;
use leaf_core::snowflake::lease::Identity;
use leaf_core::time::WallTime;

use super::failure::Failure;
use crate::settings::upstream::CentreDigest;
use crate::shmem::upstream::Denial;

/// A question to the centre.
#[derive(Clone, Debug)]
pub enum Demand {
    /// Numbers of a tag.
    Numbers {
        /// The centre's tag, in UTF-8.
        tag: String,
        /// How many numbers; 0 to find out only where the tag stands.
        count: u64,
        /// Whether fewer are of no use.
        exact: bool,
    },
    /// A lease of a worker id.
    Register {
        /// The name of this node.
        node: String,
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
        /// Where the lease is from, as [`Registry::address`]. If nothing answers, it is compared
        /// with where the centre should be now.
        address: String,
    },
}

impl Demand {
    /// Whether it is about a tag.
    pub fn is_of_tag(&self) -> bool {
        matches!(self, Demand::Numbers { .. })
    }

    /// Whether it is for numbers, and not only about where a tag stands: that may be any name.
    pub fn is_for_numbers(&self) -> bool {
        matches!(self, Demand::Numbers { count: 1.., .. })
    }

    /// Its subject, for the log.
    pub fn subject(&self) -> String {
        match self {
            Demand::Numbers { tag, .. } => format!("ids of the centre's tag \"{}\"", tag),
            Demand::Register { .. } => "a worker id of the centre".into(),
            Demand::Renew { worker_id, .. } => {
                format!("the centre's renewal of worker id {worker_id}")
            }
        }
    }
}

/// An answer of the centre.
#[derive(Clone, Debug, PartialEq, Eq)]
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registry {
    pub identity: Identity,
    /// Hosts, ports and the name of a database, as `host:port,host:port/database`.
    pub address: String,
    /// The number of the connection.
    pub connection: u64,
}

/// The answer of the centre to a request, and the number of that.
#[derive(Clone, Debug)]
pub struct Answered {
    pub demand: Demand,
    /// The digest of `leaf.upstream` as it was when this was asked: an answer of one centre must
    /// not be taken for another's.
    pub setting: CentreDigest,
    pub answer: Result<Reply, Denial>,
}

/// The outcome of a request, as the thread hears it.
pub type Answer = Result<Reply, Failure>;
