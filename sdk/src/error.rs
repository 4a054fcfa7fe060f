//! Errors, as variants that a caller can distinguish.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio_postgres::error::SqlState;

use crate::cause::Cause;

/// Why there is no id, or why a call failed.
///
/// ```
/// use leaf_sdk::{Config, Error};
///
/// match Config::new("not a connection string") {
///     Err(Error::Config(message)) => eprintln!("{message}"),
///     Err(error) if error.is_retryable() => eprintln!("later: {error}"),
///     _ => unreachable!("it cannot be parsed"),
/// }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no such tag, or no such role to grant to (42704).
    #[error("{0}")]
    UnknownTag(#[source] Cause),

    /// The tag has reached its `max_value`, or the time field of snowflake ids
    /// is used up (2200H).
    #[error("no ids are left: {0}")]
    Exhausted(#[source] Cause),

    /// The time field of snowflake ids is used up.
    #[error("the time field of snowflake ids is used up")]
    TimeUsedUp,

    /// The role may not do this (42501).
    #[error("{0}")]
    Permission(#[source] Cause),

    /// A clock is behind, or not credible (58000).
    #[error("the clock cannot be used: {0}")]
    Clock(#[source] ClockError),

    /// The lease of the worker id could not be renewed in time. No ids are issued until
    /// the registry has renewed it or granted another one, which is tried all the time.
    #[error("the lease of the worker id is lost: {0}")]
    LeaseLost(String),

    /// The timeout has expired.
    #[error("timed out after {after:?}{}", last.as_ref().map(|last| format!("; the last attempt failed: {last}")).unwrap_or_default())]
    Timeout {
        /// How long the call waited.
        after: Duration,
        /// Why the last attempt to get ids failed, if it did.
        last: Option<String>,
    },

    /// The server cannot be reached, or the connection was lost.
    #[error("connection failed: {0}")]
    Connection(#[source] Cause),

    /// The server refused for another reason; see [`sqlstate`](Error::sqlstate).
    #[error("{0}")]
    Server(#[source] Cause),

    /// An argument is out of range.
    #[error("invalid argument: {0}")]
    Argument(String),

    /// The configuration cannot be used.
    #[error("invalid configuration: {0}")]
    Config(String),

    /// The cache file cannot be used: another process has it open, or it cannot be
    /// written.
    #[error("could not use the cache file: {0}")]
    Cache(#[source] Arc<io::Error>),

    /// The background thread or its runtime could not be started.
    #[error("could not start the background thread: {0}")]
    Runtime(#[source] Arc<io::Error>),

    /// Code of this program that the background runs has panicked: a subscriber of `tracing`, or a
    /// recorder of `metrics`. This has ended one attempt.
    #[error("code of this program panicked in the background: {0}")]
    Panic(String),

    /// The call would have to wait inside an async runtime, and would block it. Use
    /// the asynchronous call. `spawn_blocking` cannot be distinguished from a task;
    /// there, wait with `Handle::current().block_on(orders.next_async())`.
    #[error(
        "the call would block an async runtime; use the asynchronous call, in spawn_blocking with Handle::current().block_on"
    )]
    WouldBlockRuntime,

    /// The source of ids has been closed.
    #[error("the source of ids is closed")]
    Closed,

    /// The handle was created before this process was forked: its ids are the parent's.
    /// Create another handle in the child.
    #[error("the handle belongs to the parent of this process; create another one after fork")]
    Forked,

    /// [`init`](crate::init) has not been called, or has been called already.
    #[error("{0}")]
    Global(&'static str),

    /// The server's answer is not one that this library can use.
    #[error("unexpected answer from the server: {0}")]
    Protocol(String),
}

/// The fault of a clock.
///
/// ```
/// use leaf_sdk::{ClockError, Error};
///
/// fn behind(error: &Error) -> Option<std::time::Duration> {
///     match error {
///         Error::Clock(ClockError::Behind(by)) => Some(*by),
///         _ => None,
///     }
/// }
/// # assert_eq!(behind(&Error::Closed), None);
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ClockError {
    /// This machine's clock is behind the last id by this much.
    #[error("it is behind the last id by {0:?}")]
    Behind(Duration),

    /// The server has refused the clock.
    #[error("{0}")]
    Server(#[source] Cause),
}

impl Error {
    /// The SQLSTATE of the server's error, if it is one.
    ///
    /// ```
    /// let error = leaf_sdk::Error::Closed;
    /// assert_eq!(error.sqlstate(), None);
    /// ```
    pub fn sqlstate(&self) -> Option<&SqlState> {
        self.cause().and_then(Cause::sqlstate)
    }

    /// The server's hint at what to do, if it gave one. It is also part of the error's
    /// text.
    ///
    /// ```
    /// let error = leaf_sdk::Error::Closed;
    /// assert_eq!(error.hint(), None);
    /// ```
    pub fn hint(&self) -> Option<&str> {
        self.cause()?.hint()
    }

    /// Whether the same call may succeed later without intervention: true for
    /// outages and the leases that they cost, timeouts, clocks that will catch up, and
    /// worker ids whose lease will expire.
    ///
    /// ```
    /// let error = leaf_sdk::Error::Closed;
    /// assert!(!error.is_retryable());
    /// ```
    pub fn is_retryable(&self) -> bool {
        match self {
            Error::Timeout { .. } | Error::Clock(_) | Error::LeaseLost(_) | Error::Panic(_) => true,
            Error::Connection(cause) => cause.sqlstate().is_none_or(is_transient),
            Error::Server(cause) => cause.sqlstate().is_some_and(is_transient),
            Error::UnknownTag(_)
            | Error::Exhausted(_)
            | Error::TimeUsedUp
            | Error::Permission(_)
            | Error::Argument(_)
            | Error::Config(_)
            | Error::Cache(_)
            | Error::Runtime(_)
            | Error::WouldBlockRuntime
            | Error::Closed
            | Error::Forked
            | Error::Global(_)
            | Error::Protocol(_) => false,
        }
    }

    pub(crate) fn cache(cause: io::Error) -> Error {
        Error::Cache(Arc::new(cause))
    }

    fn cause(&self) -> Option<&Cause> {
        match self {
            Error::UnknownTag(cause)
            | Error::Exhausted(cause)
            | Error::Permission(cause)
            | Error::Connection(cause)
            | Error::Server(cause)
            | Error::Clock(ClockError::Server(cause)) => Some(cause),
            Error::Clock(ClockError::Behind(_))
            | Error::TimeUsedUp
            | Error::LeaseLost(_)
            | Error::Timeout { .. }
            | Error::Argument(_)
            | Error::Config(_)
            | Error::Cache(_)
            | Error::Panic(_)
            | Error::Runtime(_)
            | Error::WouldBlockRuntime
            | Error::Closed
            | Error::Forked
            | Error::Global(_)
            | Error::Protocol(_) => None,
        }
    }
}

/// Whether the cause is likely to pass: the SQLSTATE is of the classes for
/// connections, transaction rollback, resources or operator intervention, or it is
/// leaf's own timeout, that of a read-only server, or that of something which others use
/// now: a worker id, or a database that is being copied. A database that was dropped does
/// not come back.
fn is_transient(code: &SqlState) -> bool {
    let class = &code.code()[..2];
    let is_of_class = ["08", "40", "53", "57"].contains(&class) && code.code() != "57P04";
    is_of_class || ["55P03", "25006", "55006"].contains(&code.code())
}

impl From<Cause> for Error {
    /// The variant that the SQLSTATE belongs to. Without one, the server has not
    /// answered.
    fn from(cause: Cause) -> Self {
        let Some(code) = cause.sqlstate() else {
            return Error::Connection(cause);
        };
        match code.code() {
            "42704" => Error::UnknownTag(cause),
            "2200H" => Error::Exhausted(cause),
            "42501" => Error::Permission(cause),
            "58000" => Error::Clock(ClockError::Server(cause)),
            code if code.starts_with("08") || code.starts_with("57P") => Error::Connection(cause),
            _ => Error::Server(cause),
        }
    }
}

impl From<tokio_postgres::Error> for Error {
    fn from(error: tokio_postgres::Error) -> Self {
        Cause::from(error).into()
    }
}

impl From<io::Error> for Error {
    fn from(cause: io::Error) -> Self {
        Error::Runtime(Arc::new(cause))
    }
}
