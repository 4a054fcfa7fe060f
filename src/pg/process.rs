//! This process: what it is, what interrupts it, what it does when it ends.

use pgrx::pg_sys;

/// The process id of this process, as PostgreSQL knows it.
pub fn my_pid() -> i32 {
    // SAFETY: a plain variable of this process.
    unsafe { pg_sys::MyProcPid }
}

/// Whether a postmaster is in charge; false in single-user mode and in the
/// postmaster itself.
pub fn under_postmaster() -> bool {
    // SAFETY: a plain variable of this process.
    unsafe { pg_sys::IsUnderPostmaster }
}

/// Whether the server replays WAL, as a standby or after a crash.
pub fn in_recovery() -> bool {
    // SAFETY: reads shared state; any process attached to it may ask.
    unsafe { pg_sys::RecoveryInProgress() }
}

/// Whether the server is loading its preloaded libraries.
pub fn is_preloading() -> bool {
    // SAFETY: a plain variable of this process.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// Raises the error that a pending cancel or termination asks for.
pub fn check_for_interrupts() {
    pgrx::check_for_interrupts!();
}

unsafe extern "C-unwind" {
    // Declared here without pgrx's guard: it cannot fail.
    fn pg_prng_uint64(state: *mut pg_sys::pg_prng_state) -> u64;
}

/// Any number; not for secrets.
#[inline]
pub fn random() -> u64 {
    // SAFETY: this process's own generator, seeded when it started.
    unsafe { pg_prng_uint64(&raw mut pg_sys::pg_global_prng_state) }
}

/// What PostgreSQL calls when a process ends. The argument is of no use.
pub type ExitHook = unsafe extern "C-unwind" fn(i32, pg_sys::Datum);

/// Calls `hook` when this process ends, while shared memory is attached.
pub fn before_exit(hook: ExitHook) {
    // SAFETY: a function of this library.
    unsafe { pg_sys::before_shmem_exit(Some(hook), pg_sys::Datum::from(0)) };
}

/// A hook for the postmaster's own exit.
pub fn at_postmaster_exit(hook: ExitHook) {
    // SAFETY: a function of this library; registered in the postmaster (or a
    // single-user process), children forget such hooks when they start.
    unsafe { pg_sys::on_shmem_exit(Some(hook), pg_sys::Datum::from(0)) };
}

/// pgrx adds a Rust backtrace to the DETAIL of errors that pass through Rust,
/// where the environment asks for backtraces. A DETAIL is for the caller; who
/// wants backtraces in errors sets `RUST_LIB_BACKTRACE`.
pub fn keep_backtraces_out_of_errors() {
    if std::env::var_os("RUST_LIB_BACKTRACE").is_none() {
        // SAFETY: a PostgreSQL process has one thread.
        unsafe { std::env::set_var("RUST_LIB_BACKTRACE", "0") };
    }
}
