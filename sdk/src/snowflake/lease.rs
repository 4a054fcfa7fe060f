//! What the registry grants.

use leaf_core::snowflake::Scheme;
use leaf_core::time::WallTime;

/// A lease, as the registry and the cache store it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(super) worker_id: i32,
    pub(super) nonce: String,
    pub(super) token: i64,
    pub(super) scheme: Scheme,
    /// Until when the registry allows ids.
    pub(super) registry_ceiling: WallTime,
    /// Until when this process issues ids; the cache has it.
    pub(super) ceiling: WallTime,
}
