//! Runs of consecutive ids.

/// Consecutive ids.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Run {
    /// The first id.
    pub first: i64,
    /// How many ids; never 0.
    pub len: u64,
}
