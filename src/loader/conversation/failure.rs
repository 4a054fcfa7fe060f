//! Why the centre has not done what was asked.

use crate::shmem::upstream::Denial;

/// A request that has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The cause, as far as every role may know it.
    pub denial: Denial,
    /// The whole cause.
    pub cause: String,
}

impl Failure {
    pub fn new(denial: Denial, cause: impl Into<String>) -> Self {
        Failure {
            denial,
            cause: in_one_line(&cause.into()),
        }
    }

    /// Whether the fault may lie with this host, so that another one might answer. One that cannot
    /// commit takes all the time that it has: `took_long`.
    pub fn is_of_host(&self, took_long: bool) -> bool {
        self.denial.is_unreached() || self.denial == Denial::Busy && took_long
    }
}

/// A text that came from elsewhere, for the log and the views.
fn in_one_line(text: &str) -> String {
    const LONGEST: usize = 1_000;
    let shown = |char: char| if char.is_control() { ' ' } else { char };
    text.chars().take(LONGEST).map(shown).collect()
}
