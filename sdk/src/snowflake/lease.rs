//! What the registry grants.

use leaf_core::snowflake::Terms;
use leaf_core::time::WallTime;
use uuid::Uuid;

use crate::calls::internal::Registry;

/// A lease, as the registry and the cache store it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    /// What the registry allows.
    pub(super) terms: Terms,
    pub(super) nonce: String,
    pub(super) token: i64,
    /// The token that was proposed with a renewal whose answer is not known. It is proposed
    /// again, because the renewal may have been committed.
    pub(super) next_token: Option<i64>,
    /// Who has granted it.
    pub(super) registry: Registry,
    /// Until when this process issues ids; the cache has it.
    pub(super) ceiling: WallTime,
    /// Whether only the registry can tell if the lease exists: its release may have been
    /// committed, or the cache may be that of another registry.
    pub(super) is_doubtful: bool,
}

/// What a node holds.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    /// The lease in use.
    pub(super) lease: Option<Lease>,
    /// The lease that was found in the cache. The registry decides whether it still exists.
    pub(super) cached: Option<Lease>,
    /// The nonce of a registration whose answer is not known. It is sent again, because the
    /// registration may have been committed.
    pub(super) nonce: Option<String>,
}

/// A nonce that no other lease has.
pub(super) fn new_nonce() -> String {
    Uuid::new_v4().to_string()
}

/// A token that no copy of this process proposes, too.
pub(super) fn new_token() -> i64 {
    2 + (Uuid::new_v4().as_u64_pair().0 >> 12) as i64
}
