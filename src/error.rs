//! How leaf raises errors: each is a [`Report`], which is made where it arises.

use std::ffi::CStr;
use std::io;
use std::path::Path;

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode as Code, pg_sys};

/// An error as the caller sees it.
#[derive(Clone, Debug)]
pub struct Report {
    /// The SQLSTATE.
    pub code: Code,
    /// The primary message.
    pub message: String,
    /// The DETAIL, in full sentences.
    pub detail: Option<String>,
    /// The HINT: what to do, in full sentences.
    pub hint: String,
}

impl Report {
    /// A report without detail.
    pub fn new(code: Code, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Report {
            code,
            message: message.into(),
            detail: None,
            hint: hint.into(),
        }
    }

    /// A report on something that has to be there, or to be different, first.
    pub fn not_ready(message: impl Into<String>, hint: impl Into<String>) -> Self {
        Report::new(
            Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
            message,
            hint,
        )
    }

    /// The report with a detail.
    pub fn detail(self, detail: impl Into<String>) -> Self {
        Report {
            detail: Some(detail.into()),
            ..self
        }
    }

    /// The five characters of the SQLSTATE.
    pub fn sqlstate(&self) -> String {
        // SAFETY: a C string in static memory, which the next call overwrites.
        let text = unsafe { CStr::from_ptr(pg_sys::unpack_sql_state(self.code as i32)) };
        text.to_string_lossy().into_owned()
    }

    /// Raises the error.
    pub fn raise(self) -> ! {
        let mut report = ErrorReport::new(self.code, self.message, "leaf").set_hint(self.hint);
        if let Some(detail) = self.detail {
            report = report.set_detail(detail);
        }
        report.report(PgLogLevel::ERROR);
        unreachable!("an error report at level ERROR does not return")
    }
}

/// The server replays WAL.
pub fn in_recovery() -> Report {
    // When: a draw on a standby
    Report::new(
        Code::ERRCODE_READ_ONLY_SQL_TRANSACTION,
        "cannot draw ids while the server is in recovery",
        "Draw them on the primary, or promote this server. If a proxy chose this server, have it send draws to the primary.",
    )
}

/// An argument is out of its range.
pub fn bad_argument(message: impl Into<String>, hint: &'static str) -> Report {
    Report::new(Code::ERRCODE_INVALID_PARAMETER_VALUE, message, hint)
}

/// A file of leaf in the data directory cannot be used.
pub fn unusable_file(what: &str, path: &Path, cause: &io::Error) -> Report {
    let path = path.display();
    // When: a file in the folder `leaf` of the data directory cannot be read or written
    Report::new(
        Code::ERRCODE_IO_ERROR,
        format!("could not {what} \"{path}\": {cause}"),
        "Make the file usable. It records which ids may have been handed out; without it, none are.",
    )
}
