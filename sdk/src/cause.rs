//! The errors that the driver reports.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;

use tokio_postgres::error::{DbError, SqlState};

/// The hint for a database without leaf's functions.
const NO_LEAF: &str = "leaf is not in this database, its version there is older, or the schema of its functions is not in the search_path.";

/// The hint for functions that are not for all roles.
const NO_LEASES: &str =
    "Grant the role EXECUTE on leaf_worker_register, leaf_worker_renew and leaf_worker_release.";

/// An error of the server or of the driver, as part of an [`Error`](crate::Error). Its text
/// is the server's message with detail and hint, or the driver's with all causes. The
/// driver's own error is its source.
///
/// ```
/// use std::error::Error as _;
///
/// fn sqlstate(cause: &leaf_sdk::Cause) -> Option<&str> {
///     let driver = cause.source()?.downcast_ref::<tokio_postgres::Error>()?;
///     assert_eq!(driver.code(), cause.sqlstate());
///     Some(cause.sqlstate()?.code())
/// }
/// ```
#[derive(Clone)]
pub struct Cause(Arc<Inner>);

struct Inner {
    sqlstate: Option<SqlState>,
    hint: Option<String>,
    text: String,
    source: Box<dyn StdError + Send + Sync>,
}

impl Cause {
    /// The SQLSTATE of the server's error, if it is one.
    ///
    /// ```
    /// fn is_duplicate(cause: &leaf_sdk::Cause) -> bool {
    ///     cause.sqlstate().is_some_and(|code| code.code() == "42710")
    /// }
    /// ```
    pub fn sqlstate(&self) -> Option<&SqlState> {
        self.0.sqlstate.as_ref()
    }

    /// The server's hint at what to do, if it gave one.
    ///
    /// ```
    /// fn advice(cause: &leaf_sdk::Cause) -> &str {
    ///     cause.hint().unwrap_or("no hint")
    /// }
    /// ```
    pub fn hint(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }

    /// That a transaction was committed, but may be lost in a failover. The server says so in a
    /// warning.
    pub(crate) fn of_unconfirmed(warning: DbError) -> Cause {
        let code = SqlState::TRANSACTION_RESOLUTION_UNKNOWN;
        Cause::of_server(&warning, code, warning.clone())
    }

    fn of_server(
        answer: &DbError,
        code: SqlState,
        source: impl StdError + Send + Sync + 'static,
    ) -> Cause {
        let mut text = answer.message().to_owned();
        if let Some(detail) = answer.detail() {
            text += &format!("; {}", detail.trim_end_matches('.'));
        }
        let says = |beginning| answer.message().starts_with(beginning);
        let hint = match code {
            // The server's hint is about types of arguments.
            SqlState::UNDEFINED_FUNCTION if says("function leaf_") => Some(NO_LEAF),
            SqlState::INSUFFICIENT_PRIVILEGE
                if says("permission denied for function leaf_worker_")
                    || says("permission denied for procedure leaf_worker_") =>
            {
                Some(NO_LEASES)
            }
            _ => answer.hint(),
        };
        if let Some(hint) = hint {
            text += &format!("; hint: {hint}");
        }
        Cause(Arc::new(Inner {
            sqlstate: Some(code),
            hint: hint.map(str::to_owned),
            text,
            source: Box::new(source),
        }))
    }

    /// The driver's error.
    pub(crate) fn of_driver(source: impl StdError + Send + Sync + 'static) -> Cause {
        Cause(Arc::new(Inner {
            sqlstate: None,
            hint: None,
            text: text(&source),
            source: Box::new(source),
        }))
    }
}

/// The message with those of its causes, which a driver's own message does not contain.
pub(crate) fn text(error: &(dyn StdError + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let message = cause.to_string();
        if !text.ends_with(&message) {
            text += &format!(": {message}");
        }
        source = cause.source();
    }
    text
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.text)
    }
}

/// Short, because a `main` that returns an error prints it.
impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.0.sqlstate.as_ref().map_or("-", SqlState::code);
        write!(f, "{code}: {:?}", self.0.text)
    }
}

impl StdError for Cause {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&*self.0.source)
    }
}

impl From<tokio_postgres::Error> for Cause {
    fn from(error: tokio_postgres::Error) -> Self {
        match error.as_db_error().cloned() {
            Some(answer) => Cause::of_server(&answer, answer.code().clone(), error),
            None => Cause::of_driver(error),
        }
    }
}
