//! Updates of `leaf.worker` by which a holder, who knows what was used, ends its
//! lease: only these may lower a ceiling.

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
    // Ends with an error, too: that unwinds.
    let _scope = Scope;
    work()
}

/// Whether an update that a trigger sees may lower a ceiling.
pub fn is_releasing() -> bool {
    IS_RELEASING.get()
}
