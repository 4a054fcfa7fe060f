//! Regions of PostgreSQL's main shared memory, sized at server start.

use std::ffi::CStr;

use pgrx::pg_sys;

/// Requests memory for `count` values of `T`; only in the request hook.
pub fn request<T>(count: usize) {
    let bytes = bytes_for::<T>(count);
    // SAFETY: called from the request hook, where PostgreSQL allows it.
    unsafe { pg_sys::RequestAddinShmemSpace(bytes) };
}

/// Attaches to the region `name` of `count` values, each made by `make` if this
/// is the first process to do so; only in the startup hook.
pub fn attach<T>(name: &CStr, count: usize, mut make: impl FnMut(usize) -> T) -> &'static [T] {
    let mut found = false;
    // SAFETY: called from the startup hook with the size that was requested. The
    // region is aligned here because PostgreSQL aligns to less than a pair of cache
    // lines.
    unsafe {
        let raw = pg_sys::ShmemInitStruct(name.as_ptr(), bytes_for::<T>(count), &raw mut found);
        let first = (raw as usize).next_multiple_of(align_of::<T>()) as *mut T;
        if !found {
            for index in 0..count {
                first.add(index).write(make(index));
            }
        }
        std::slice::from_raw_parts(first, count)
    }
}

fn bytes_for<T>(count: usize) -> usize {
    count * size_of::<T>() + align_of::<T>()
}

/// Registers the name of leaf's LWLocks in `pg_stat_activity`; returns their tranche.
pub fn lock_tranche() -> i32 {
    // SAFETY: called from the startup hook; the name is static.
    #[cfg(feature = "pg19")]
    unsafe {
        pg_sys::LWLockNewTrancheId(c"leaf".as_ptr())
    }
    // SAFETY: as above.
    #[cfg(not(feature = "pg19"))]
    unsafe {
        let tranche = pg_sys::LWLockNewTrancheId();
        pg_sys::LWLockRegisterTranche(tranche, c"leaf".as_ptr());
        tranche
    }
}
