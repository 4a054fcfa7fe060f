//! PostgreSQL's primitives with a safe face: one file each, and the only place
//! of the extension that holds raw `pg_sys` calls in number.

pub mod args;
pub mod call;
pub mod condvar;
pub mod control;
pub mod guc;
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

/// Microseconds from 1970-01-01, as instants in ids are counted, to 2000-01-01,
/// as PostgreSQL counts them.
const EPOCH_DISTANCE_US: i64 = 946_684_800_000_000;

/// An instant of PostgreSQL's in microseconds since 1970.
pub fn to_unix_us(at: pg_sys::TimestampTz) -> i64 {
    at.saturating_add(EPOCH_DISTANCE_US)
}

/// An instant in microseconds since 1970 as PostgreSQL counts it.
pub fn from_unix_us(us: i64) -> pg_sys::TimestampTz {
    us.saturating_sub(EPOCH_DISTANCE_US)
}

/// An instant as text.
pub fn timestamp_text(at: pg_sys::TimestampTz) -> String {
    // SAFETY: returns a C string in a buffer of its own.
    let text = unsafe { std::ffi::CStr::from_ptr(pg_sys::timestamptz_to_str(at)) };
    text.to_string_lossy().into_owned()
}

/// Whether there is a database of that oid.
pub fn database_exists(database: pg_sys::Oid) -> bool {
    let cache = pg_sys::SysCacheIdentifier::DATABASEOID as _;
    // SAFETY: a catalogue look-up inside a transaction.
    unsafe {
        let zero = pg_sys::Datum::from(0);
        pg_sys::SearchSysCacheExists(cache, pg_sys::Datum::from(database), zero, zero, zero)
    }
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

/// The system's clock, in microseconds since 1970.
#[inline]
pub fn unix_us() -> i64 {
    read_clock(libc::CLOCK_REALTIME)
}

/// Microseconds of a clock that never goes back, comparable between processes
/// of one server.
pub fn monotonic_us() -> i64 {
    read_clock(libc::CLOCK_MONOTONIC)
}

#[inline]
fn read_clock(clock: libc::clockid_t) -> i64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills the struct; both clocks always exist.
    unsafe { libc::clock_gettime(clock, &raw mut time) };
    time.tv_sec * 1_000_000 + time.tv_nsec / 1_000
}

/// Writes a line to the server's log.
pub fn log(message: &str) {
    pgrx::log!("leaf: {message}");
}

/// What `pg_finfo_<function>` returns for a function of the version-1 calling
/// convention: for those that `#[pg_extern]` would slow down or cannot express.
pub const V1: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
