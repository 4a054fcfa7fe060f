//! PostgreSQL's condition variable. A process that sleeps on it can be cancelled.

use std::cell::UnsafeCell;
use std::time::Duration;

use pgrx::pg_sys;

use super::shm::Shareable;
use super::wait_event::WaitEvent;

/// A condition variable in shared memory.
#[repr(C)]
pub struct CondVar(UnsafeCell<pg_sys::ConditionVariable>);

// SAFETY: PostgreSQL guards the contents with a spinlock of its own.
unsafe impl Sync for CondVar {}
// SAFETY: sleepers are known by numbers.
unsafe impl Shareable for CondVar {}

impl CondVar {
    /// A condition variable without waiters; it may be moved until a process waits.
    pub fn new() -> Self {
        let mut cv = pg_sys::ConditionVariable::default();
        // SAFETY: `cv` is ours; without waiters it holds no pointer to itself.
        unsafe { pg_sys::ConditionVariableInit(&raw mut cv) };
        CondVar(UnsafeCell::new(cv))
    }

    /// Wakes all sleeping processes. Does nothing in the postmaster, where no process
    /// can be sleeping.
    pub fn broadcast(&self) {
        // SAFETY: initialised in `new`, in shared memory since. PostgreSQL requires
        // that the caller has a PGPROC, which the postmaster does not have.
        unsafe {
            if !pg_sys::MyProc.is_null() {
                pg_sys::ConditionVariableBroadcast(self.0.get());
            }
        }
    }

    /// Calls `ready` until it returns a value. Sleeps between the calls until a
    /// broadcast, at most for `nap`. No change is missed, because `ready` is called
    /// again after this process has joined the queue of sleepers.
    ///
    /// `pg_stat_activity` shows `event` meanwhile. Raises an error when the statement is
    /// cancelled.
    pub fn wait_for<R>(
        &self,
        mut ready: impl FnMut() -> Option<R>,
        nap: impl Fn() -> Duration,
        event: WaitEvent,
    ) -> R {
        let event = event.number();
        // SAFETY: as above; an error on the way out cancels the sleep in
        // PostgreSQL's abort.
        unsafe { pg_sys::ConditionVariablePrepareToSleep(self.0.get()) };
        let result = loop {
            if let Some(result) = ready() {
                break result;
            }
            let millis = nap().as_millis().clamp(1, 3_600_000) as _;
            // SAFETY: as above.
            unsafe { pg_sys::ConditionVariableTimedSleep(self.0.get(), millis, event) };
        };
        // SAFETY: ends what was prepared above.
        unsafe { pg_sys::ConditionVariableCancelSleep() };
        result
    }
}
