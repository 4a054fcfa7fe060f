//! PostgreSQL's primitives with a safe face: one file each, and the only place
//! of the extension that holds raw `pg_sys` calls in number.

pub mod args;
pub mod call;
pub mod condvar;
pub mod control;
pub mod heap;
pub mod inval;
pub mod latch;
pub mod lock;
pub mod role;
pub mod shm;
pub mod timeout;
pub mod trigger;
pub mod worker;
pub mod xact;

use pgrx::pg_sys;

/// The database this process is connected to.
pub fn database() -> pg_sys::Oid {
    // SAFETY: a plain variable of this process.
    unsafe { pg_sys::MyDatabaseId }
}

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

/// Now, in microseconds since 2000-01-01.
pub fn now() -> pg_sys::TimestampTz {
    // SAFETY: reads the system clock.
    unsafe { pg_sys::GetCurrentTimestamp() }
}

/// Raises the error that a pending cancel or termination asks for.
pub fn check_for_interrupts() {
    pgrx::check_for_interrupts!();
}

/// Microseconds of a clock that never goes back, comparable between processes
/// of one server.
pub fn monotonic_us() -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills the struct; this clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut time) };
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

/// Writes a line to the server's log.
pub fn log(message: &str) {
    pgrx::log!("leaf: {message}");
}

/// What `pg_finfo_<function>` returns for a function of the version-1 calling
/// convention: for those that `#[pg_extern]` would slow down or cannot express.
pub const V1: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
