//! Errors and log lines in the database's encoding.

use std::any::Any;
use std::ffi::{CString, c_char, c_int};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use pgrx::pg_sys::panic::{CaughtError, ErrorReportWithLevel};
use pgrx::{PgLogLevel, pg_sys};

use super::encoding::{self, encode_c};

unsafe extern "C-unwind" {
    // Declared here without pgrx's guard, because it ends by leaving the function that
    // calls it.
    fn ThrowErrorData(data: *mut pg_sys::ErrorData);
}

/// Runs `work` and turns a Rust panic or a PostgreSQL error in it into a PostgreSQL
/// error.
///
/// # Safety
/// Called from a function that PostgreSQL has called.
#[inline(always)]
pub unsafe fn guarded<R>(work: impl FnOnce() -> R) -> R {
    let guarded = || match catch_unwind(AssertUnwindSafe(work)) {
        Ok(result) => Ok(result),
        Err(payload) => Err(texts_of(payload)),
    };
    // SAFETY: the caller's promise.
    match unsafe { pg_sys::panic::pgrx_extern_c_guard(guarded) } {
        Ok(result) => result,
        // SAFETY: nothing in this function has to be dropped.
        Err(texts) => unsafe { raise(texts) },
    }
}

/// An error's texts, in memory of PostgreSQL.
struct Texts {
    code: c_int,
    message: *mut c_char,
    detail: *mut c_char,
    hint: *mut c_char,
}

/// The error that unwinding carries, if its texts have to be encoded; continues to unwind
/// if not.
#[cold]
fn texts_of(payload: Box<dyn Any + Send>) -> Texts {
    let report = match payload.downcast_ref::<CaughtError>() {
        Some(CaughtError::PostgresError(report) | CaughtError::ErrorReport(report)) => Some(report),
        Some(CaughtError::RustPanic { .. }) => None,
        None => payload.downcast_ref::<ErrorReportWithLevel>(),
    };
    match report {
        Some(report) if !encoding::needs_no_encoding() => Texts {
            code: report.sql_error_code() as c_int,
            message: copy(&encode_c(report.message())),
            detail: report
                .detail()
                .map_or(std::ptr::null_mut(), |text| copy(&encode_c(text))),
            hint: report
                .hint()
                .map_or(std::ptr::null_mut(), |text| copy(&encode_c(text))),
        },
        _ => resume_unwind(payload),
    }
}

fn copy(text: &CString) -> *mut c_char {
    // SAFETY: copies a C string.
    unsafe { pg_sys::pstrdup(text.as_ptr()) }
}

/// # Safety
/// As a jump: the callers up to PostgreSQL have nothing to drop.
#[cold]
unsafe fn raise(texts: Texts) -> ! {
    let mut data = pg_sys::ErrorData {
        elevel: PgLogLevel::ERROR as c_int,
        sqlerrcode: texts.code,
        message: texts.message,
        detail: texts.detail,
        hint: texts.hint,
        ..Default::default()
    };
    // SAFETY: its fields are null or C strings.
    unsafe { ThrowErrorData(&raw mut data) };
    unreachable!("an error report at level ERROR does not return")
}

/// Writes a line to the server's log.
pub fn log(message: &str) {
    if encoding::needs_no_encoding() {
        pgrx::log!("leaf: {message}");
        return;
    }
    let message = encode_c(&format!("leaf: {message}"));
    let mut data = pg_sys::ErrorData {
        elevel: PgLogLevel::LOG as c_int,
        message: message.as_ptr().cast_mut(),
        ..Default::default()
    };
    // SAFETY: its fields are null or C strings. A log line does not jump.
    unsafe { ThrowErrorData(&raw mut data) };
}

/// Sends a notice to the client.
pub fn notice(message: &str) {
    tell(PgLogLevel::NOTICE, message, None);
}

/// Warns the client.
pub fn warn(message: &str, hint: &str) {
    tell(PgLogLevel::WARNING, message, Some(hint));
}

fn tell(level: PgLogLevel, message: &str, hint: Option<&str>) {
    let message = encode_c(message);
    let hint = hint.map(encode_c);
    let mut data = pg_sys::ErrorData {
        elevel: level as c_int,
        message: message.as_ptr().cast_mut(),
        hint: hint
            .as_ref()
            .map_or(std::ptr::null_mut(), |hint| hint.as_ptr().cast_mut()),
        ..Default::default()
    };
    // SAFETY: its fields are null or C strings. A message below ERROR does not jump.
    unsafe { ThrowErrorData(&raw mut data) };
}
