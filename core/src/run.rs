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

impl Run {
    /// The last id.
    pub fn last(&self) -> i64 {
        self.first.wrapping_add_unsigned(self.len - 1)
    }

    /// One past the last id; `None` if that is not a `bigint`.
    pub fn end(&self) -> Option<i64> {
        self.first.checked_add_unsigned(self.len)
    }
}
