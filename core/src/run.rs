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

    /// The first `len` ids, at least one, and those after them, if there are any.
    ///
    /// ```
    /// use leaf_core::Run;
    ///
    /// let run = Run { first: 1, len: 10 };
    /// let (taken, rest) = run.split(4);
    /// assert_eq!((taken, rest), (Run { first: 1, len: 4 }, Some(Run { first: 5, len: 6 })));
    /// assert_eq!(run.split(11), (run, None));
    /// ```
    pub fn split(self, len: u64) -> (Run, Option<Run>) {
        let len = len.min(self.len);
        let rest = (len < self.len).then(|| Run {
            first: self.first.wrapping_add_unsigned(len),
            len: self.len - len,
        });
        (Run { len, ..self }, rest)
    }

    /// One past the last id; `None` if that is not a `bigint`.
    pub fn end(&self) -> Option<i64> {
        self.first.checked_add_unsigned(self.len)
    }
}
