//! This process, with its kind, its interrupts and its exit hooks, and what others wait for.

use std::ffi::CStr;

use pgrx::pg_sys;

/// The process ID of this process.
pub fn my_pid() -> i32 {
    // SAFETY: a plain variable of this process.
    unsafe { pg_sys::MyProcPid }
}

/// Whether this process was started by a postmaster; false in single-user mode and in
/// the postmaster itself.
pub fn under_postmaster() -> bool {
    // SAFETY: a plain variable of this process.
    unsafe { pg_sys::IsUnderPostmaster }
}

/// Whether the server replays WAL, as a standby or after a crash.
pub fn in_recovery() -> bool {
    // SAFETY: reads shared state; any process attached to it may do so.
    unsafe { pg_sys::RecoveryInProgress() }
}

/// Whether `pg_upgrade` runs the server.
pub fn is_binary_upgrade() -> bool {
    // SAFETY: a plain variable of this process.
    unsafe { pg_sys::IsBinaryUpgrade }
}

/// How many processes can have a session or be background workers at once. Known once the
/// server has read its configuration.
pub fn most_sessions() -> usize {
    // SAFETY: a plain variable of this process.
    let most = unsafe { pg_sys::MaxBackends };
    usize::try_from(most).unwrap_or_default()
}

/// Whether the server is loading its preloaded libraries.
pub fn is_preloading() -> bool {
    // SAFETY: a plain variable of this process.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
}

/// Raises the error of a pending cancel or termination, if there is one.
pub fn check_for_interrupts() {
    pgrx::check_for_interrupts!();
}

/// The event that another process of the server waits for, as `pg_stat_activity` shows it, such as
/// `IPC: SyncRep`; `None` if it is gone, or waits for nothing.
pub fn wait_event_of(pid: i32) -> Option<String> {
    // SAFETY: the entry of a process is in shared memory, even if the process has just ended; the
    // names are constants, or in shared memory for good.
    unsafe {
        let process = pg_sys::BackendPidGetProc(pid);
        let info = (!process.is_null())
            .then(|| (&raw const (*process).wait_event_info).read_volatile())?;
        let (kind, event) = (
            pg_sys::pgstat_get_wait_event_type(info),
            pg_sys::pgstat_get_wait_event(info),
        );
        let text = |name: *const std::ffi::c_char| {
            (!name.is_null()).then(|| CStr::from_ptr(name).to_string_lossy())
        };
        Some(format!("{}: {}", text(kind)?, text(event)?))
    }
}

unsafe extern "C-unwind" {
    // Declared here without pgrx's guard: it cannot fail.
    fn pg_prng_uint64(state: *mut pg_sys::pg_prng_state) -> u64;
}

/// A random number; not for secrets.
#[inline]
pub fn random() -> u64 {
    // SAFETY: this process's own generator, seeded when the process started.
    unsafe { pg_prng_uint64(&raw mut pg_sys::pg_global_prng_state) }
}

/// A function that PostgreSQL calls when a process ends. The argument is not used.
pub type ExitHook = unsafe extern "C-unwind" fn(i32, pg_sys::Datum);

/// Calls `hook` when this process ends, while shared memory is attached.
pub fn before_exit(hook: ExitHook) {
    // SAFETY: a function of this library.
    unsafe { pg_sys::before_shmem_exit(Some(hook), pg_sys::Datum::from(0)) };
}

/// Makes this process end without the C library's exit handlers, which tear down what another
/// thread may be using. Everything of PostgreSQL is cleaned up before.
pub fn exit_without_destructors() {
    // SAFETY: a function of this library.
    unsafe { pg_sys::on_proc_exit(Some(end_now), pg_sys::Datum::from(0)) };
}

unsafe extern "C-unwind" fn end_now(code: i32, _argument: pg_sys::Datum) {
    // SAFETY: ends the process.
    unsafe { libc::_exit(code) };
}

/// Calls `hook` when the postmaster itself ends.
pub fn at_postmaster_exit(hook: ExitHook) {
    // SAFETY: a function of this library. It is registered in the postmaster (or a
    // single-user process); child processes discard such hooks when they start.
    unsafe { pg_sys::on_shmem_exit(Some(hook), pg_sys::Datum::from(0)) };
}

/// pgrx adds a Rust backtrace to the DETAIL of errors that pass through Rust if the
/// environment enables backtraces. A DETAIL is for the caller, so they are disabled
/// unless `RUST_LIB_BACKTRACE` is set.
pub fn keep_backtraces_out_of_errors() {
    if std::env::var_os("RUST_LIB_BACKTRACE").is_none() {
        // SAFETY: a PostgreSQL process has one thread.
        unsafe { std::env::set_var("RUST_LIB_BACKTRACE", "0") };
    }
}
