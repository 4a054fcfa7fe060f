//! Updates of `leaf.alloc` that are grants, and not changes that somebody makes:
//! the table's triggers tell them apart by this.

use std::cell::Cell;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// Moves a row forward.
    Grant,
    /// Takes ids back.
    Return,
}

thread_local! {
    static PURPOSE: Cell<Option<Purpose>> = const { Cell::new(None) };
}

/// Runs `work`, whose updates of `leaf.alloc` are grants.
pub fn granting<R>(work: impl FnOnce() -> R) -> R {
    within(Purpose::Grant, work)
}

/// As [`granting`], for an update that takes ids back.
pub fn returning<R>(work: impl FnOnce() -> R) -> R {
    within(Purpose::Return, work)
}

fn within<R>(purpose: Purpose, work: impl FnOnce() -> R) -> R {
    struct Scope(Option<Purpose>);
    impl Drop for Scope {
        fn drop(&mut self) {
            PURPOSE.set(self.0);
        }
    }
    // Ends with an error, too: that unwinds.
    let _scope = Scope(PURPOSE.replace(Some(purpose)));
    work()
}

/// Whether an update that a trigger sees is a grant, or takes one back.
pub fn is_granting() -> bool {
    PURPOSE.get().is_some()
}

/// Whether an update that a trigger sees takes ids back.
pub fn is_returning() -> bool {
    PURPOSE.get() == Some(Purpose::Return)
}
