//! What the registry grants.

use leaf_core::snowflake::Scheme;

/// A lease, as the registry and the cache know it. Instants in microseconds
/// since 1970.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(super) worker_id: i32,
    pub(super) nonce: String,
    pub(super) token: i64,
    pub(super) scheme: Scheme,
    /// Until when the registry allows ids.
    pub(super) registry_ceiling_us: i64,
    /// Until when this process issues ids; the cache has it.
    pub(super) ceiling_us: i64,
}
