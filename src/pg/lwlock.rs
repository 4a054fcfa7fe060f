//! A value in shared memory behind an LWLock.
//!
//! Nothing that can raise an error may run while a guard is held: the abort would
//! release the lock, but the protected value would be left in an intermediate state.

use std::cell::UnsafeCell;
use std::ops::{Deref, DerefMut};

use pgrx::pg_sys;

/// A value and the LWLock that protects it. Lives in shared memory only.
#[repr(C)]
pub struct Locked<T> {
    lock: UnsafeCell<pg_sys::LWLock>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through the lock.
unsafe impl<T: Send> Sync for Locked<T> {}

impl<T> Locked<T> {
    /// A free lock around `value`. It may be moved until it is acquired.
    pub fn new(value: T, tranche: i32) -> Self {
        let mut lock = pg_sys::LWLock::default();
        // SAFETY: `lock` is ours and large enough; an LWLock without waiters holds no
        // pointer to itself.
        unsafe { pg_sys::LWLockInitialize(&raw mut lock, tranche) };
        Locked {
            lock: UnsafeCell::new(lock),
            value: UnsafeCell::new(value),
        }
    }

    /// Waits for the lock in shared mode: any number of processes may read at once.
    pub fn read(&self) -> ReadGuard<'_, T> {
        self.acquire(pg_sys::LWLockMode::LW_SHARED);
        ReadGuard(self)
    }

    /// Waits for the lock in exclusive mode.
    pub fn write(&self) -> WriteGuard<'_, T> {
        self.acquire(pg_sys::LWLockMode::LW_EXCLUSIVE);
        WriteGuard(self)
    }

    fn acquire(&self, mode: pg_sys::LWLockMode::Type) {
        // SAFETY: the lock was initialised in `new` and lies in shared memory.
        unsafe { pg_sys::LWLockAcquire(self.lock.get(), mode) };
    }

    fn release(&self) {
        // SAFETY: called once by the guard that acquired it.
        unsafe { pg_sys::LWLockRelease(self.lock.get()) };
    }
}

/// Read access; released when dropped.
pub struct ReadGuard<'a, T>(&'a Locked<T>);

impl<T> Deref for ReadGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the shared lock is held, so no process writes.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> Drop for ReadGuard<'_, T> {
    fn drop(&mut self) {
        self.0.release();
    }
}

/// Write access; released when dropped.
pub struct WriteGuard<'a, T>(&'a Locked<T>);

impl<T> Deref for WriteGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        // SAFETY: the exclusive lock is held.
        unsafe { &*self.0.value.get() }
    }
}

impl<T> DerefMut for WriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        // SAFETY: the exclusive lock is held.
        unsafe { &mut *self.0.value.get() }
    }
}

impl<T> Drop for WriteGuard<'_, T> {
    fn drop(&mut self) {
        self.0.release();
    }
}
