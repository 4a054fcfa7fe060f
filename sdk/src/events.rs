//! Events for `tracing`.

/// The target of this library's events.
pub(crate) const TARGET: &str = "leaf_sdk";
