//! Starting background workers, and what a background worker itself does.

use pgrx::pg_sys;

use super::{own_xact, timeout};

/// Asks the postmaster to start the function `entry` of this library as a background
/// worker. Returns whether there was a free worker slot.
pub fn start(name: &str, kind: &str, entry: &str, argument: u32) -> bool {
    let mut worker = described(name, kind, entry, argument);
    // SAFETY: the struct is filled in; no handle is requested.
    unsafe { pg_sys::RegisterDynamicBackgroundWorker(&raw mut worker, std::ptr::null_mut()) }
}

/// Has the postmaster run the function `entry` of this library once, as soon as the recovery with
/// which it starts has ended, and again if that fails. Only while libraries are preloaded.
pub fn run_after_recovery(name: &str, entry: &str) {
    let mut worker = described(name, name, entry, 0);
    worker.bgw_restart_time = 5;
    // SAFETY: the struct is filled in, and copied.
    unsafe { pg_sys::RegisterBackgroundWorker(&raw mut worker) };
}

fn described(name: &str, kind: &str, entry: &str, argument: u32) -> pg_sys::BackgroundWorker {
    let flags = pg_sys::BGWORKER_SHMEM_ACCESS | pg_sys::BGWORKER_BACKEND_DATABASE_CONNECTION;
    let mut worker = pg_sys::BackgroundWorker {
        bgw_flags: flags as _,
        bgw_start_time: pg_sys::BgWorkerStartTime::BgWorkerStart_RecoveryFinished,
        bgw_restart_time: pg_sys::BGW_NEVER_RESTART,
        bgw_main_arg: pg_sys::Datum::from(argument),
        ..Default::default()
    };
    copy(&mut worker.bgw_name, name);
    copy(&mut worker.bgw_type, kind);
    copy(&mut worker.bgw_library_name, "leaf");
    copy(&mut worker.bgw_function_name, entry);
    worker
}

/// How many background workers can run at once. Known once the server has read its
/// configuration.
pub fn most() -> usize {
    // SAFETY: a plain variable of this process.
    let most = unsafe { pg_sys::max_worker_processes };
    usize::try_from(most).unwrap_or_default()
}

fn copy(field: &mut [core::ffi::c_char], text: &str) {
    let room = field.len() - 1;
    for (to, from) in field.iter_mut().zip(text.bytes().take(room)) {
        *to = from as _;
    }
}

type Handler = unsafe extern "C-unwind" fn(i32);

// Declared here because a signal handler must be PostgreSQL's own function, not
// pgrx's guarded wrapper.
unsafe extern "C-unwind" {
    // A macro hides this name's change in PostgreSQL 18.
    #[cfg_attr(any(feature = "pg18", feature = "pg19"), link_name = "pqsignal_be")]
    fn pqsignal(signal: i32, handler: Option<Handler>) -> *mut core::ffi::c_void;
    fn die(signal: i32);
    fn SignalHandlerForConfigReload(signal: i32);
    fn StatementCancelHandler(signal: i32);
}

/// Installs the worker's signal handlers and connects it to a database, without a
/// role, even if the database does not allow connections.
pub fn connect(database: pg_sys::Oid) {
    // SAFETY: called once at the start of a worker's main function.
    unsafe {
        pqsignal(libc::SIGTERM, Some(die));
        pqsignal(libc::SIGHUP, Some(SignalHandlerForConfigReload));
        pqsignal(libc::SIGINT, Some(on_sigint));
        pg_sys::BackgroundWorkerUnblockSignals();
        pg_sys::BackgroundWorkerInitializeConnectionByOid(
            database,
            pg_sys::InvalidOid,
            pg_sys::BGWORKER_BYPASS_ALLOWCONN,
        );
    }
}

/// Like [`connect`], for a worker that needs no particular database, to one that every cluster has.
pub fn connect_to_template1() {
    // SAFETY: called once at the start of a worker's main function.
    unsafe {
        pqsignal(libc::SIGTERM, Some(die));
        pg_sys::BackgroundWorkerUnblockSignals();
        pg_sys::BackgroundWorkerInitializeConnection(
            c"template1".as_ptr(),
            std::ptr::null(),
            pg_sys::BGWORKER_BYPASS_ALLOWCONN,
        );
    }
}

/// PostgreSQL's timeouts cancel a statement with SIGINT. A SIGINT from another process
/// (`pg_cancel_backend`) is ignored.
unsafe extern "C-unwind" fn on_sigint(signal: i32) {
    if timeout::has_fired() && !own_xact::is_committing() {
        // SAFETY: PostgreSQL's own handler.
        unsafe { StatementCancelHandler(signal) };
    }
}

/// Whether the postmaster has requested a reload that is still to be done.
pub fn is_asked_to_reload() -> bool {
    // SAFETY: a flag of this process.
    unsafe { pg_sys::ConfigReloadPending != 0 }
}

/// Reloads the configuration if the postmaster has requested it; returns whether it
/// has.
pub fn reload_if_asked() -> bool {
    // SAFETY: flags and functions made for a process's main loop.
    unsafe {
        let is_asked = is_asked_to_reload();
        if is_asked {
            pg_sys::ConfigReloadPending = 0;
            pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
        }
        is_asked
    }
}

/// Reports what this process has done to tables, at most once a second, because
/// autovacuum depends on these statistics. To be called between transactions.
pub fn report_statistics() {
    // SAFETY: made for a process's main loop.
    unsafe { pg_sys::pgstat_report_stat(false) };
}
