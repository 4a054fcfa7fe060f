//! Values in shared memory behind an LWLock.
//!
//! Nothing that can raise an error may run while a guard is held: the abort would
//! release the lock, but the protected value would be left in an intermediate state.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::ops::{Deref, DerefMut};

use pgrx::pg_sys;

use super::shm;

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

/// Any number of values behind one LWLock.
pub struct LockedSlice<T: 'static> {
    lock: &'static Locked<()>,
    values: &'static [Guarded<T>],
}

/// A value that is reached only through the lock of its slice.
#[repr(transparent)]
struct Guarded<T>(UnsafeCell<T>);

// SAFETY: see `Guarded`.
unsafe impl<T: Send> Sync for Guarded<T> {}

/// The names of the memory of a [`LockedSlice`]: that of its lock, and that of its values.
pub type Names = (&'static CStr, &'static CStr);

impl<T> LockedSlice<T> {
    /// Requests the memory for `count` values; only in the request hook.
    pub fn request_memory(count: usize) {
        shm::request::<Locked<()>>(1);
        shm::request::<Guarded<T>>(count);
    }

    /// Attaches to that memory; only in the startup hook.
    pub fn attach(names: Names, count: usize, tranche: i32, make: impl Fn() -> T) -> Self {
        LockedSlice {
            lock: &shm::attach(names.0, 1, |_| Locked::new((), tranche))[0],
            values: shm::attach(names.1, count, |_| Guarded(UnsafeCell::new(make()))),
        }
    }

    /// Waits for the lock in shared mode.
    pub fn read(&self) -> impl Deref<Target = [T]> + use<T> {
        SliceReadGuard {
            values: self.values,
            _lock: self.lock.read(),
        }
    }

    /// Waits for the lock in exclusive mode.
    pub fn write(&self) -> impl DerefMut<Target = [T]> + use<T> {
        SliceWriteGuard {
            values: self.values,
            _lock: self.lock.write(),
        }
    }
}

struct SliceReadGuard<T: 'static> {
    values: &'static [Guarded<T>],
    _lock: ReadGuard<'static, ()>,
}

impl<T> Deref for SliceReadGuard<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `Guarded` has the layout of `T`; the shared lock is held, so no process
        // writes.
        unsafe { std::slice::from_raw_parts(self.values.as_ptr().cast(), self.values.len()) }
    }
}

struct SliceWriteGuard<T: 'static> {
    values: &'static [Guarded<T>],
    _lock: WriteGuard<'static, ()>,
}

impl<T> Deref for SliceWriteGuard<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `Guarded` has the layout of `T`; the exclusive lock is held.
        unsafe { std::slice::from_raw_parts(self.values.as_ptr().cast(), self.values.len()) }
    }
}

impl<T> DerefMut for SliceWriteGuard<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        let first = self.values.as_ptr().cast::<T>().cast_mut();
        // SAFETY: as in `deref`; `UnsafeCell` allows the write.
        unsafe { std::slice::from_raw_parts_mut(first, self.values.len()) }
    }
}
