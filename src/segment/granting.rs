//! Marks updates of `leaf.alloc` that are grants, so that the table's triggers can
//! distinguish them from other updates.

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

/// Like [`granting`], for an update that takes ids back.
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
    // Also ends with an error, because an error unwinds.
    let _scope = Scope(PURPOSE.replace(Some(purpose)));
    work()
}

/// Whether an update that fires a trigger is a grant, or takes ids back.
pub fn is_granting() -> bool {
    PURPOSE.get().is_some()
}

/// Whether an update that fires a trigger takes ids back.
pub fn is_returning() -> bool {
    PURPOSE.get() == Some(Purpose::Return)
}
