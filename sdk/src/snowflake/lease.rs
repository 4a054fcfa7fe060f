//! The lease of a node.

use std::time::SystemTime;

use leaf_core::snowflake::lease::{self, HeldLease, Nonce};
use leaf_core::time::WallTime;
use uuid::Uuid;

/// A lease, as the registry and the cache store it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lease {
    pub(super) held: HeldLease,
    /// Until when this process issues ids; the cache has it.
    pub(super) ceiling: WallTime,
}

/// The lease of a node, and what is known of it.
#[derive(Debug, Default)]
pub(crate) struct Holding {
    /// The lease in use.
    pub(super) lease: Option<Lease>,
    /// The lease that was found in the cache. The registry decides whether it still exists.
    pub(super) cached: Option<Lease>,
    /// The nonce of a registration whose answer is not known. It is sent again, because the
    /// registration may have been committed.
    pub(super) nonce: Option<Nonce>,
}

/// A random number. Copies of a machine may have one state of the kernel's random numbers, but are
/// resumed at different moments.
fn random() -> Uuid {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    let nanos = since.unwrap_or_default().as_nanos();
    Uuid::from_u128(Uuid::new_v4().as_u128() ^ nanos ^ (nanos << 64))
}

/// A nonce that no other lease has.
pub(super) fn new_nonce() -> Nonce {
    random().into_bytes()
}

/// A new token.
pub(super) fn new_token() -> i64 {
    lease::random_token(random().as_u64_pair().0)
}
