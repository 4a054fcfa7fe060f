//! Values in shared memory behind an LWLock.
//!
//! Nothing that can raise an error may run while a guard is held: PostgreSQL's abort would
//! release the lock, but the protected value would be left in an intermediate state.

use std::cell::UnsafeCell;
use std::ffi::CStr;
use std::ops::{Deref, DerefMut};

use pgrx::pg_sys;

use super::shm::{Request, Shareable, Startup};

/// A value and the LWLock that protects it. Lives in shared memory only.
#[repr(C)]
pub struct Locked<T> {
    lock: UnsafeCell<pg_sys::LWLock>,
    value: UnsafeCell<T>,
}

// SAFETY: the value is reached only through the lock; read guards share it.
unsafe impl<T: Send + Sync> Sync for Locked<T> {}
// SAFETY: the sleepers on an LWLock are known by numbers.
unsafe impl<T: Shareable> Shareable for Locked<T> {}

impl<T: Shareable> Locked<T> {
    /// A free lock around `value`. It may be moved until it is acquired.
    pub fn new(value: T, startup: &Startup) -> Self {
        let mut lock = pg_sys::LWLock::default();
        // SAFETY: `lock` is ours and large enough; an LWLock without waiters holds no
        // pointer to itself.
        unsafe { pg_sys::LWLockInitialize(&raw mut lock, startup.tranche()) };
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
}

impl<T> Locked<T> {
    /// Releases the lock, unless an ERROR of PostgreSQL unwinds: `errfinish` has then reset the
    /// count that a release decrements, and the abort releases all locks.
    fn release(&self) {
        // SAFETY: called once by the guard that acquired it.
        unsafe {
            if pg_sys::InterruptHoldoffCount > 0 {
                pg_sys::LWLockRelease(self.lock.get());
            }
        }
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

/// Any number of values, and a head, behind one LWLock.
pub struct LockedSlice<T: 'static, H: 'static = ()> {
    head: &'static Locked<H>,
    values: &'static [Guarded<T>],
}

/// A value that is reached only through the lock of its slice.
#[repr(transparent)]
struct Guarded<T>(UnsafeCell<T>);

// SAFETY: see `Guarded`; read guards share it.
unsafe impl<T: Send + Sync> Sync for Guarded<T> {}
// SAFETY: it is a `T`.
unsafe impl<T: Shareable> Shareable for Guarded<T> {}

/// The names of the memory of a [`LockedSlice`]: that of its lock, and that of its values.
pub type Names = (&'static CStr, &'static CStr);

impl<T: Shareable, H: Shareable> LockedSlice<T, H> {
    /// Requests the memory for `count` values.
    pub fn request_memory(request: &Request, count: usize) {
        request.room_for::<Locked<H>>(1);
        request.room_for::<Guarded<T>>(count);
    }

    /// Attaches to that memory.
    pub fn attach(
        startup: &Startup,
        names: Names,
        head: impl Fn() -> H,
        count: usize,
        make: impl Fn(usize) -> T,
    ) -> Self {
        LockedSlice {
            head: startup.attach_one(names.0, || Locked::new(head(), startup)),
            values: startup.attach(names.1, count, |index| {
                Guarded(UnsafeCell::new(make(index)))
            }),
        }
    }

    /// Waits for the lock in shared mode.
    pub fn read(&self) -> SliceReadGuard<T, H> {
        SliceReadGuard {
            values: self.values,
            head: self.head.read(),
        }
    }

    /// Waits for the lock in exclusive mode.
    pub fn write(&self) -> SliceWriteGuard<T, H> {
        SliceWriteGuard {
            values: self.values,
            head: self.head.write(),
        }
    }
}

/// Read access to the values of a slice; released when dropped.
pub struct SliceReadGuard<T: 'static, H: 'static> {
    values: &'static [Guarded<T>],
    head: ReadGuard<'static, H>,
}

impl<T, H: Shareable> SliceReadGuard<T, H> {
    /// The head.
    pub fn head(&self) -> &H {
        &self.head
    }
}

impl<T, H> Deref for SliceReadGuard<T, H> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: `Guarded` has the layout of `T`; the shared lock is held, so no process
        // writes.
        unsafe { std::slice::from_raw_parts(self.values.as_ptr().cast(), self.values.len()) }
    }
}

/// Write access to the values of a slice; released when dropped.
pub struct SliceWriteGuard<T: 'static, H: 'static> {
    values: &'static [Guarded<T>],
    head: WriteGuard<'static, H>,
}

impl<T, H> SliceWriteGuard<T, H> {
    /// The head, and the values.
    pub fn parts(&mut self) -> (&mut H, &mut [T]) {
        let first = self.values.as_ptr().cast::<T>().cast_mut();
        // SAFETY: `Guarded` has the layout of `T`; the exclusive lock is held, and the head lies
        // elsewhere. `UnsafeCell` allows the write.
        let values = unsafe { std::slice::from_raw_parts_mut(first, self.values.len()) };
        (&mut self.head, values)
    }
}

impl<T, H> Deref for SliceWriteGuard<T, H> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: as in `parts`.
        unsafe { std::slice::from_raw_parts(self.values.as_ptr().cast(), self.values.len()) }
    }
}

impl<T, H> DerefMut for SliceWriteGuard<T, H> {
    fn deref_mut(&mut self) -> &mut [T] {
        self.parts().1
    }
}
