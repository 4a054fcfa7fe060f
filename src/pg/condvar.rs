//! PostgreSQL's condition variable: sleepers can be cancelled.

use std::cell::UnsafeCell;
use std::time::Duration;

use pgrx::pg_sys;

/// A condition variable in shared memory.
#[repr(C)]
pub struct CondVar(UnsafeCell<pg_sys::ConditionVariable>);

// SAFETY: PostgreSQL guards the contents with a spinlock of its own.
unsafe impl Sync for CondVar {}

impl CondVar {
    /// A condition variable nobody waits for; may be moved until somebody does.
    pub fn new() -> Self {
        let mut cv = pg_sys::ConditionVariable::default();
        // SAFETY: `cv` is ours; without waiters it holds no pointer to itself.
        unsafe { pg_sys::ConditionVariableInit(&raw mut cv) };
        CondVar(UnsafeCell::new(cv))
    }

    /// Wakes everybody who sleeps. In the postmaster, which is no process of
    /// its own cluster, there is nobody to wake and nothing is done.
    pub fn broadcast(&self) {
        // SAFETY: initialised in `new`, in shared memory since; PostgreSQL
        // takes for granted that the caller is a process of the cluster.
        unsafe {
            if !pg_sys::MyProc.is_null() {
                pg_sys::ConditionVariableBroadcast(self.0.get());
            }
        }
    }

    /// Calls `ready` until it returns a value, sleeping in between until a
    /// broadcast or `nap` has passed. What `ready` sees cannot be missed: it is
    /// asked again after this process has joined the queue of sleepers.
    ///
    /// Raises an error when the statement is cancelled.
    pub fn wait_for<R>(
        &self,
        mut ready: impl FnMut() -> Option<R>,
        nap: impl Fn() -> Duration,
    ) -> R {
        // SAFETY: as above; an error on the way out cancels the sleep in
        // PostgreSQL's abort.
        unsafe { pg_sys::ConditionVariablePrepareToSleep(self.0.get()) };
        let result = loop {
            if let Some(result) = ready() {
                break result;
            }
            let millis = nap().as_millis().clamp(1, 3_600_000) as _;
            // SAFETY: as above.
            unsafe {
                pg_sys::ConditionVariableTimedSleep(self.0.get(), millis, pg_sys::PG_WAIT_EXTENSION)
            };
        };
        // SAFETY: ends what was prepared above.
        unsafe { pg_sys::ConditionVariableCancelSleep() };
        result
    }
}
