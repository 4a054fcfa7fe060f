//! PostgreSQL's main shared memory: what may lie there, and the two hooks in which it is
//! requested and filled.

use std::ffi::CStr;
use std::marker::PhantomData;
use std::sync::OnceLock;

use pgrx::{pg_guard, pg_sys};

/// A type that may lie in shared memory. That it does not have to be dropped is checked where it is
/// put there.
///
/// # Safety
/// Its bits mean the same in every process: it has no pointer or reference to memory of one
/// process.
pub unsafe trait Shareable: Send + Sync + 'static {}

// SAFETY: they have no pointers.
unsafe impl Shareable for () {}
// SAFETY: as above.
unsafe impl Shareable for std::sync::atomic::AtomicU32 {}
// SAFETY: as above.
unsafe impl Shareable for std::sync::atomic::AtomicUsize {}

/// The right to request memory, which only the request hook has.
pub struct Request(PhantomData<*const ()>);

impl Request {
    /// Requests memory for `count` values of `T`.
    pub fn room_for<T: Shareable>(&self, count: usize) {
        // SAFETY: this is the request hook, where PostgreSQL allows it.
        unsafe { pg_sys::RequestAddinShmemSpace(bytes_for::<T>(count)) };
    }
}

/// The right to attach to memory, which only the startup hook has.
pub struct Startup {
    tranche: i32,
    only_there: PhantomData<*const ()>,
}

impl Startup {
    /// Attaches to the region `name` of `count` values, each made by `make`. Nobody else has
    /// the region: its users rely on their lock.
    pub fn attach<T: Shareable>(
        &self,
        name: &CStr,
        count: usize,
        mut make: impl FnMut(usize) -> T,
    ) -> &'static [T] {
        const { assert!(!std::mem::needs_drop::<T>(), "nobody would drop it") };
        let mut found = false;
        // SAFETY: this is the startup hook. The region is aligned here because PostgreSQL
        // aligns to less than a pair of cache lines.
        unsafe {
            let raw = pg_sys::ShmemInitStruct(name.as_ptr(), bytes_for::<T>(count), &raw mut found);
            assert!(!found, "{name:?} is attached to once");
            let first = (raw as usize).next_multiple_of(align_of::<T>()) as *mut T;
            for index in 0..count {
                first.add(index).write(make(index));
            }
            std::slice::from_raw_parts(first, count)
        }
    }

    /// Attaches to a region of one value.
    pub fn attach_one<T: Shareable>(&self, name: &CStr, make: impl Fn() -> T) -> &'static T {
        &self.attach(name, 1, |_| make())[0]
    }

    /// The tranche of leaf's LWLocks.
    pub(super) fn tranche(&self) -> i32 {
        self.tranche
    }
}

fn bytes_for<T>(count: usize) -> usize {
    count * size_of::<T>() + align_of::<T>()
}

/// The work of the two hooks.
type Hooks = (fn(&Request), fn(&Startup));

static HOOKS: OnceLock<Hooks> = OnceLock::new();
static mut PREVIOUS_REQUEST: pg_sys::shmem_request_hook_type = None;
static mut PREVIOUS_STARTUP: pg_sys::shmem_startup_hook_type = None;

/// Installs the hooks. Called while the server preloads leaf. After a crash, the postmaster
/// calls `startup` again, and the regions may be at other addresses.
pub fn init(request: fn(&Request), startup: fn(&Startup)) {
    if HOOKS.set((request, startup)).is_err() {
        return;
    }
    // SAFETY: hooks are installed by one thread, each calling its predecessor.
    unsafe {
        PREVIOUS_REQUEST = pg_sys::shmem_request_hook;
        pg_sys::shmem_request_hook = Some(request_hook);
        PREVIOUS_STARTUP = pg_sys::shmem_startup_hook;
        pg_sys::shmem_startup_hook = Some(startup_hook);
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn request_hook() {
    // SAFETY: written once, before any hook runs.
    if let Some(previous) = unsafe { PREVIOUS_REQUEST } {
        // SAFETY: the hook that was installed before this one.
        unsafe { previous() };
    }
    if let Some((request, _)) = HOOKS.get() {
        request(&Request(PhantomData));
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn startup_hook() {
    // SAFETY: as in `request_hook`.
    if let Some(previous) = unsafe { PREVIOUS_STARTUP } {
        // SAFETY: the hook that was installed before this one.
        unsafe { previous() };
    }
    if let Some((_, startup)) = HOOKS.get() {
        startup(&Startup {
            tranche: lock_tranche(),
            only_there: PhantomData,
        });
    }
}

/// Registers the name of leaf's LWLocks in `pg_stat_activity`; returns their tranche.
fn lock_tranche() -> i32 {
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
