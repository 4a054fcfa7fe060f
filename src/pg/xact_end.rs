//! The ends of transactions and savepoints, and the observers that are notified.
//!
//! Most transactions do nothing that concerns leaf at their end; for these, the cost is
//! one check of a flag. Code whose actions depend on the end calls [`involve`].

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use pgrx::pg_sys::SubTransactionId;
use pgrx::{pg_guard, pg_sys};

/// Is notified of the ends of transactions. What an observer has recorded about a
/// transaction is discarded at its end.
pub trait Observer: Sync {
    /// Before the commit: may still write, and may raise an error.
    fn before_commit(&self) {}
    /// Before `PREPARE TRANSACTION`: may raise an error.
    fn before_prepare(&self) {}
    /// After the commit. Raises no error.
    fn after_commit(&self);
    /// After a rollback. Raises no error.
    fn after_abort(&self);
    /// A savepoint was released: its actions now belong to its parent.
    fn after_sub_commit(&self, sub: SubTransactionId, parent: SubTransactionId);
    /// A savepoint was rolled back.
    fn after_sub_abort(&self, sub: SubTransactionId);
}

static OBSERVERS: OnceLock<&'static [&'static dyn Observer]> = OnceLock::new();

/// Whether the current transaction concerns any observer.
static IS_INVOLVED: AtomicBool = AtomicBool::new(false);

/// Registers leaf's callbacks at the end of (sub)transactions. Called once, when
/// the library is loaded; the processes that a postmaster starts inherit them.
pub fn init(observers: &'static [&'static dyn Observer]) {
    if OBSERVERS.set(observers).is_err() {
        return;
    }
    // SAFETY: functions without state, valid as long as the process.
    unsafe {
        pg_sys::RegisterXactCallback(Some(at_xact), std::ptr::null_mut());
        pg_sys::RegisterSubXactCallback(Some(at_subxact), std::ptr::null_mut());
    }
}

/// Makes the end of the current transaction notify the observers.
pub fn involve() {
    IS_INVOLVED.store(true, Ordering::Relaxed);
}

fn each(tell: impl Fn(&dyn Observer)) {
    for &observer in OBSERVERS.get().copied().unwrap_or_default() {
        tell(observer);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_xact(event: pg_sys::XactEvent::Type, _arg: *mut core::ffi::c_void) {
    use pg_sys::XactEvent::*;
    if !IS_INVOLVED.load(Ordering::Relaxed) {
        return;
    }
    match event {
        XACT_EVENT_PRE_COMMIT => each(|observer| observer.before_commit()),
        XACT_EVENT_PRE_PREPARE => each(|observer| observer.before_prepare()),
        XACT_EVENT_COMMIT => {
            IS_INVOLVED.store(false, Ordering::Relaxed);
            each(|observer| observer.after_commit());
        }
        XACT_EVENT_ABORT | XACT_EVENT_PARALLEL_ABORT => {
            IS_INVOLVED.store(false, Ordering::Relaxed);
            each(|observer| observer.after_abort());
        }
        _ => {}
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn at_subxact(
    event: pg_sys::SubXactEvent::Type,
    sub: SubTransactionId,
    parent: SubTransactionId,
    _arg: *mut core::ffi::c_void,
) {
    use pg_sys::SubXactEvent::*;
    if !IS_INVOLVED.load(Ordering::Relaxed) {
        return;
    }
    match event {
        SUBXACT_EVENT_COMMIT_SUB => each(|observer| observer.after_sub_commit(sub, parent)),
        SUBXACT_EVENT_ABORT_SUB => each(|observer| observer.after_sub_abort(sub)),
        _ => {}
    }
}
