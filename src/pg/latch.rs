//! Latches: how processes wake each other.

use std::time::Duration;

use pgrx::pg_sys;

use super::wait_event::WaitEvent;

/// The address of a process latch in shared memory. The memory of a latch is never
/// freed, so setting the latch of a process that has ended has no effect, or wakes
/// its successor needlessly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(C)]
pub struct LatchRef(usize);

impl LatchRef {
    /// No latch.
    pub const NONE: LatchRef = LatchRef(0);

    /// This process's latch.
    pub fn mine() -> Self {
        // SAFETY: a plain variable; set for every process that runs leaf code.
        LatchRef(unsafe { pg_sys::MyLatch } as usize)
    }

    /// Wakes the process that waits on the latch.
    pub fn set(self) {
        if self.0 != 0 {
            // SAFETY: see the type: the memory always contains a latch.
            unsafe { pg_sys::SetLatch(self.0 as *mut pg_sys::Latch) };
        }
    }
}

/// Like [`wait`], and also ends when a descriptor has something to read.
pub fn wait_or_readable(timeout: Duration, descriptor: Option<i32>, event: WaitEvent) {
    let Some(descriptor) = descriptor else {
        return wait(timeout, event);
    };
    let events = pg_sys::WL_LATCH_SET
        | pg_sys::WL_SOCKET_READABLE
        | pg_sys::WL_TIMEOUT
        | pg_sys::WL_EXIT_ON_PM_DEATH;
    let event = event.number();
    let millis = timeout.as_millis().min(3_600_000) as _;
    // SAFETY: waits on this process's own latch, and on a descriptor that is open.
    unsafe {
        pg_sys::WaitLatchOrSocket(pg_sys::MyLatch, events as _, descriptor, millis, event);
        pg_sys::ResetLatch(pg_sys::MyLatch);
    }
}

/// Sleeps until this process's latch is set or `timeout` has passed, and clears
/// the latch. Ends the process when the postmaster has died.
pub fn wait(timeout: Duration, event: WaitEvent) {
    let events = pg_sys::WL_LATCH_SET | pg_sys::WL_TIMEOUT | pg_sys::WL_EXIT_ON_PM_DEATH;
    let event = event.number();
    let millis = timeout.as_millis().min(3_600_000) as _;
    // SAFETY: waits on this process's own latch.
    unsafe {
        pg_sys::WaitLatch(pg_sys::MyLatch, events as _, millis, event);
        pg_sys::ResetLatch(pg_sys::MyLatch);
    }
}
