//! Marks updates of `leaf.worker` by which a holder ends its lease. Only these may lower
//! a ceiling, because the holder gives the time up to which ids were issued.

use std::cell::Cell;

thread_local! {
    static IS_RELEASING: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, which may lower a ceiling.
pub fn releasing<R>(work: impl FnOnce() -> R) -> R {
    struct Scope;
    impl Drop for Scope {
        fn drop(&mut self) {
            IS_RELEASING.set(false);
        }
    }
    IS_RELEASING.set(true);
    // Also ends with an error, because an error unwinds.
    let _scope = Scope;
    work()
}

/// Whether an update that fires a trigger may lower a ceiling.
pub fn is_releasing() -> bool {
    IS_RELEASING.get()
}
