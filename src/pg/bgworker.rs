//! Being, and starting, a background worker.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::{timeout, xact};

/// Asks the postmaster to start the function `entry` of this library as a
/// background worker, and returns whether there was a free worker slot.
pub fn start(name: &str, kind: &str, entry: &str, argument: u32) -> bool {
    let mut worker = pg_sys::BackgroundWorker {
        bgw_flags: (pg_sys::BGWORKER_SHMEM_ACCESS | pg_sys::BGWORKER_BACKEND_DATABASE_CONNECTION)
            as _,
        bgw_start_time: pg_sys::BgWorkerStartTime::BgWorkerStart_RecoveryFinished,
        bgw_restart_time: pg_sys::BGW_NEVER_RESTART,
        bgw_main_arg: pg_sys::Datum::from(argument),
        ..Default::default()
    };
    copy(&mut worker.bgw_name, name);
    copy(&mut worker.bgw_type, kind);
    copy(&mut worker.bgw_library_name, "leaf");
    copy(&mut worker.bgw_function_name, entry);
    // SAFETY: the struct is filled in; no handle is wanted.
    unsafe { pg_sys::RegisterDynamicBackgroundWorker(&raw mut worker, std::ptr::null_mut()) }
}

fn copy(field: &mut [core::ffi::c_char], text: &str) {
    let room = field.len() - 1;
    for (to, from) in field.iter_mut().zip(text.bytes().take(room)) {
        *to = from as _;
    }
}

type Handler = unsafe extern "C-unwind" fn(i32);

// Declared here because a signal handler must be PostgreSQL's own function, not
// the guarded one that pgrx wraps around it.
unsafe extern "C-unwind" {
    // A macro hides this name's change in PostgreSQL 18.
    #[cfg_attr(feature = "pg18", link_name = "pqsignal_be")]
    fn pqsignal(signal: i32, handler: Option<Handler>) -> *mut core::ffi::c_void;
    fn die(signal: i32);
    fn SignalHandlerForConfigReload(signal: i32);
    fn StatementCancelHandler(signal: i32);
}

/// Installs the worker's signal handlers and connects it to a database, with no
/// role, whether or not the database takes connections.
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

/// PostgreSQL's timeouts cancel a statement with SIGINT; anybody else's SIGINT
/// (`pg_cancel_backend`) is not for this process.
unsafe extern "C-unwind" fn on_sigint(signal: i32) {
    if timeout::has_fired() && !xact::is_committing() {
        // SAFETY: PostgreSQL's own handler.
        unsafe { StatementCancelHandler(signal) };
    }
}

/// Reads the configuration again if the postmaster said so; whether it did.
pub fn reload_if_asked() -> bool {
    // SAFETY: flags and functions made for a process's main loop.
    unsafe {
        let is_asked = pg_sys::ConfigReloadPending != 0;
        if is_asked {
            pg_sys::ConfigReloadPending = 0;
            pg_sys::ProcessConfigFile(pg_sys::GucContext::PGC_SIGHUP);
        }
        is_asked
    }
}

/// Tells the statistics what this process has done to tables, at most once a
/// second: autovacuum goes by them. Between transactions.
pub fn report_statistics() {
    // SAFETY: made for a process's main loop.
    unsafe { pg_sys::pgstat_report_stat(false) };
}

/// Sets a setting for this process, above what database, role and file say.
pub fn set(name: &CStr, value: &CStr) {
    // SAFETY: both are C strings; an unknown name or value is an error.
    unsafe {
        pg_sys::SetConfigOption(
            name.as_ptr(),
            value.as_ptr(),
            pg_sys::GucContext::PGC_SUSET,
            pg_sys::GucSource::PGC_S_SESSION,
        )
    };
}

/// Makes commits of this process wait at least for the local flush and for the
/// synchronous standby's, whatever is configured. A stronger value stays.
pub fn insist_on_durable_commits() {
    // SAFETY: a plain variable of this process.
    let level = unsafe { pg_sys::synchronous_commit };
    if (level as u32) < pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_REMOTE_FLUSH {
        set(c"synchronous_commit", c"on");
    }
}

/// As [`insist_on_durable_commits`], for the present transaction of a session.
pub fn insist_on_durable_commit_of_transaction() {
    // SAFETY: a plain variable of this process; the setting is undone when the
    // transaction ends.
    unsafe {
        if (pg_sys::synchronous_commit as u32)
            < pg_sys::SyncCommitLevel::SYNCHRONOUS_COMMIT_REMOTE_FLUSH
        {
            pg_sys::set_config_option(
                c"synchronous_commit".as_ptr(),
                c"on".as_ptr(),
                pg_sys::GucContext::PGC_USERSET,
                pg_sys::GucSource::PGC_S_SESSION,
                pg_sys::GucAction::GUC_ACTION_LOCAL,
                true,
                0,
                false,
            );
        }
    }
}

/// Whether this process may go on using its database: nobody holds or awaits
/// the lock that dropping, copying, renaming or moving it takes. Needs a
/// transaction.
pub fn database_is_free(database: pg_sys::Oid) -> bool {
    let tag = pg_sys::LOCKTAG {
        locktag_field1: 0,
        locktag_field2: pg_sys::DatabaseRelationId.to_u32(),
        locktag_field3: database.to_u32(),
        locktag_field4: 0,
        locktag_type: pg_sys::LockTagType::LOCKTAG_OBJECT as u8,
        locktag_lockmethodid: pg_sys::DEFAULT_LOCKMETHOD as u8,
    };
    let mode = pg_sys::RowExclusiveLock as _;
    // SAFETY: a well-formed tag. The lock is a question, not a claim: it is
    // released at once, because the commit that follows may wait for a standby.
    unsafe {
        let answer = pg_sys::LockAcquire(&raw const tag, mode, false, true);
        let is_free = answer != pg_sys::LockAcquireResult::LOCKACQUIRE_NOT_AVAIL;
        if is_free {
            pg_sys::LockRelease(&raw const tag, mode, false);
        }
        is_free
    }
}

/// Calls `hook` with `argument` when this process ends, while shared memory is
/// attached.
pub fn before_exit(hook: unsafe extern "C-unwind" fn(i32, pg_sys::Datum), argument: u32) {
    // SAFETY: a function of this library.
    unsafe { pg_sys::before_shmem_exit(Some(hook), pg_sys::Datum::from(argument)) };
}

/// A hook for the postmaster's own exit.
pub fn at_postmaster_exit(hook: unsafe extern "C-unwind" fn(i32, pg_sys::Datum)) {
    // SAFETY: a function of this library; registered in the postmaster (or a
    // single-user process), children forget such hooks when they start.
    unsafe { pg_sys::on_shmem_exit(Some(hook), pg_sys::Datum::from(0)) };
}

/// Whether the server is loading its preloaded libraries.
pub fn is_preloading() -> bool {
    // SAFETY: a plain variable of this process.
    unsafe { pg_sys::process_shared_preload_libraries_in_progress }
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
