//! How leaf raises errors, and the errors that several rooms raise. A room can have
//! an enum of its own beside this one; all errors become a [`Report`].

use std::ffi::CStr;
use std::time::Duration;

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

/// Something that can go wrong.
pub trait Problem: Sized {
    /// The error as the caller sees it.
    fn report(self) -> Report;

    /// Raises the error.
    fn raise(self) -> ! {
        self.report().raise()
    }
}

/// Errors that several rooms raise.
#[derive(Debug)]
pub enum Error {
    /// The server was started without leaf.
    NotPreloaded,
    /// The table `leaf.alloc` does not exist.
    NoCatalog,
    /// The server replays WAL.
    InRecovery,
    /// Ids cannot be granted: there is no loader.
    SingleUser,
    /// An argument is out of its range.
    BadArgument { message: String, hint: &'static str },
    /// No ids within `leaf.wait_timeout`.
    Timeout {
        ids: String,
        after: Duration,
        cause: Option<String>,
        /// The wait event of the loader.
        waits_for: Option<String>,
    },
    /// No loader could be started within `leaf.wait_timeout`.
    NoLoader { ids: String },
    /// A trigger that fires because of a grant waits for ids.
    WithinGrant { ids: String },
    /// A grant was not stored in its row of `leaf.alloc`, for example because of a
    /// trigger of the table's owner.
    NotStored,
    /// A trigger function was not called by its trigger.
    NotATrigger {
        function: &'static str,
        table: &'static str,
    },
    /// Which history of the cluster this is cannot be stored.
    HistoryNotStored { path: String },
    /// Who drops the extension, or renames its schema, is not its owner.
    NotOwnerOfExtension,
    /// A function that returns a record is not called in FROM.
    NotInFrom { function: &'static str },
}

impl Problem for Error {
    fn report(self) -> Report {
        match self {
            Error::NotPreloaded => Report::not_ready(
"leaf is not loaded by the server",
                "Add leaf to shared_preload_libraries and restart the server.",
            )
            .detail("Its shared memory and background workers exist only in a server that loads it at start."),
            Error::NoCatalog => Report::not_ready(
"table \"leaf.alloc\" does not exist in this database",
                "Create the extension with CREATE EXTENSION leaf.",
            ),
            Error::NotOwnerOfExtension => Report::new(
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                "must be owner of extension leaf",
                "Ask the owner of the extension, or a superuser, to do this.",
            )
            .detail("Its schema cannot be dropped or renamed by others: they could put functions of their own in place of leaf's."),
            Error::InRecovery => Report::new(
                Code::ERRCODE_READ_ONLY_SQL_TRANSACTION,
                "cannot draw ids while the server is in recovery",
                "Draw them on the primary, or promote this server.",
            ),
            Error::SingleUser => Report::not_ready(
"cannot draw ids in single-user mode",
                "Start the server, and draw them in one of its sessions.",
            ),
            Error::BadArgument { message, hint } => {
                Report::new(Code::ERRCODE_INVALID_PARAMETER_VALUE, message, hint)
            }
            Error::Timeout {
                ids,
                after,
                cause,
                waits_for,
            } => Report::new(
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                format!("no {ids} within {} ms", after.as_millis()),
                "Remove the cause and try again; leaf.wait_timeout sets how long to wait.",
            )
            .detail(match (cause, waits_for) {
                (Some(cause), _) => format!("The last attempt failed: {cause}"),
                (None, Some(event)) if event.ends_with(": SyncRep") => {
                    "The loader waits for a synchronous standby (wait event SyncRep).".into()
                }
                (None, Some(event)) => format!("The loader has not processed the request yet; its wait event is {event}."),
                (None, None) => "The loader has not processed the request yet.".into(),
            }),
            Error::NoLoader { ids } => Report::new(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                format!("no background worker slot for the loader of {ids}"),
                "Raise max_worker_processes, or lower leaf.loader_idle_timeout, after which the loaders of idle databases end.",
            ),
            Error::WithinGrant { ids } => Report::not_ready(
format!("cannot wait for {ids} during a grant"),
                "Remove the trigger on a table of leaf that draws ids.",
            ),
            Error::HistoryNotStored { path } => Report::new(
                Code::ERRCODE_IO_ERROR,
                format!("nothing is granted, because \"{path}\" cannot be written"),
                "Make its folder and the file writable for the server.",
            )
            .detail("The next start would take what is granted now for something that an earlier copy has granted."),
            Error::NotStored => Report::new(
                Code::ERRCODE_TRIGGERED_ACTION_EXCEPTION,
                "a grant was not stored in leaf.alloc",
                "Make sure that your own triggers and rules on leaf.alloc neither suppress updates nor change max_id.",
            ),
            Error::NotATrigger { function, table } => Report::new(
                Code::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                format!("{function} can only be called by the triggers of {table}"),
                "Use only the triggers that the extension has created.",
            ),
            Error::NotInFrom { function } => Report::new(
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("{function} must be called in FROM"),
                format!("Use SELECT * FROM {function}(...)."),
            )
            .detail("In a select list, (function(...)).* would call it once for each column of the result."),
        }
    }
}
