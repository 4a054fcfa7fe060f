//! Every error leaf raises: SQLSTATE, message, detail, and a hint that names
//! the way out.

use std::fmt;
use std::time::Duration;

use crate::catalog;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::{PgLogLevel, PgSqlErrorCode};

/// Which ids somebody waits for, in messages.
#[derive(Clone, Debug)]
pub enum Ids {
    OfTag(String),
    Snowflake,
}

impl Ids {
    /// Those of a tag.
    pub fn of(tag: &[u8]) -> Ids {
        Ids::OfTag(catalog::display(tag))
    }
}

impl fmt::Display for Ids {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ids::OfTag(tag) => write!(f, "ids for tag \"{tag}\""),
            Ids::Snowflake => f.write_str("snowflake ids"),
        }
    }
}

/// What went wrong, for the caller.
#[derive(Debug)]
pub enum Error {
    /// The server was started without leaf.
    NotPreloaded,
    /// The catalog's table is not there.
    NoCatalog,
    /// The server replays WAL.
    InRecovery,
    NoSuchTag(String),
    TagExists(String),
    NoSuchRole(String),
    /// The current role may not draw ids of the tag.
    MayNotDraw {
        tag: String,
        role: String,
    },
    /// The current role does not own the tag.
    NotOwner {
        tag: String,
        role: String,
    },
    /// An argument is out of its range.
    BadArgument {
        message: String,
        hint: &'static str,
    },
    /// The tag's row would move backwards.
    Backwards {
        tag: String,
        granted_up_to: i64,
    },
    Exhausted {
        tag: String,
    },
    /// No ids within `leaf.wait_timeout`.
    Timeout {
        ids: Ids,
        after: Duration,
        cause: Option<String>,
    },
    /// The transaction that waits holds what it waits for.
    OwnChange {
        tag: String,
    },
    /// No loader could be started within `leaf.wait_timeout`.
    NoWorkerSlot {
        ids: Ids,
    },
    /// A parallel plan met a registry that its transaction made.
    ParallelRegistry,
    /// Every slot waits for a load.
    NoSlot {
        tag: String,
    },
    /// A parallel plan met a tag that its transaction made.
    ParallelQuery {
        tag: String,
    },
    /// A row of `leaf.alloc` did not take what was granted of it, as when a
    /// trigger of the table's owner kept it from that.
    NotStored,
    /// A trigger function was called as something else.
    NotATrigger {
        function: &'static str,
        table: &'static str,
    },
    /// Two-phase commit of a change of tags.
    Prepared,
}

/// SQLSTATE, message, detail and hint.
pub type Parts = (PgSqlErrorCode, String, Option<String>, String);

/// Raises an error.
pub fn raise((code, message, detail, hint): Parts) -> ! {
    let mut report = ErrorReport::new(code, message, "leaf").set_hint(hint);
    if let Some(detail) = detail {
        report = report.set_detail(detail);
    }
    report.report(PgLogLevel::ERROR);
    unreachable!("an error report at level ERROR does not return")
}

impl Error {
    /// Raises the error.
    pub fn raise(self) -> ! {
        raise(self.parts())
    }

    fn parts(self) -> Parts {
        use PgSqlErrorCode as Code;
        match self {
            Error::NotPreloaded => (
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "leaf is not loaded by the server".into(),
                Some("Its shared memory and background workers exist only in a server that loads it at start.".into()),
                "Add leaf to shared_preload_libraries and restart the server.".into(),
            ),
            Error::NoCatalog => (
                Code::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
                "table \"leaf.alloc\" does not exist in this database".into(),
                None,
                "Create the extension with CREATE EXTENSION leaf.".into(),
            ),
            Error::InRecovery => (
                Code::ERRCODE_READ_ONLY_SQL_TRANSACTION,
                "cannot draw ids while the server is in recovery".into(),
                None,
                "Draw them on the primary, or promote this server.".into(),
            ),
            Error::NoSuchTag(tag) => (
                Code::ERRCODE_UNDEFINED_OBJECT,
                format!("tag \"{tag}\" does not exist"),
                None,
                "Create it with leaf_tag_create.".into(),
            ),
            Error::TagExists(tag) => (
                Code::ERRCODE_DUPLICATE_OBJECT,
                format!("tag \"{tag}\" already exists"),
                None,
                "Choose another name, or change the tag with leaf_tag_alter.".into(),
            ),
            Error::NoSuchRole(role) => (
                Code::ERRCODE_UNDEFINED_OBJECT,
                format!("role \"{role}\" does not exist"),
                None,
                "Create the role first, or use PUBLIC for everybody.".into(),
            ),
            other => other.more_parts(),
        }
    }

    /// The errors of single calls; [`parts`](Self::parts) has those of the
    /// whole installation.
    fn more_parts(self) -> Parts {
        use PgSqlErrorCode as Code;
        match self {
            Error::MayNotDraw { tag, role } => (
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("permission denied for tag \"{tag}\""),
                Some(format!(
                    "Role \"{role}\" is neither its owner nor one of its grantees."
                )),
                "Its owner can allow it with leaf_tag_grant.".into(),
            ),
            Error::NotOwner { tag, role } => (
                Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
                format!("must be owner of tag \"{tag}\""),
                Some(format!("Role \"{role}\" is not.")),
                "Act as the owner, a member of the owner, or a superuser.".into(),
            ),
            Error::BadArgument { message, hint } => (
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                message,
                None,
                hint.into(),
            ),
            Error::Backwards { tag, granted_up_to } => (
                Code::ERRCODE_INVALID_PARAMETER_VALUE,
                format!("tag \"{tag}\" cannot move backwards"),
                Some(format!("It has granted numbers up to {granted_up_to}.")),
                "Choose a larger number, or drop the tag and create it again.".into(),
            ),
            Error::Exhausted { tag } => (
                Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
                format!("tag \"{tag}\" has reached its maximum value"),
                None,
                "Raise max_value with leaf_tag_alter, or ask for fewer ids at once.".into(),
            ),
            Error::Timeout { ids, after, cause } => (
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                format!("no {ids} within {} ms", after.as_millis()),
                Some(match cause {
                    Some(cause) => format!("The last try failed: {cause}"),
                    None => "The loader has not come to it yet.".into(),
                }),
                "Remove the cause and try again; leaf.wait_timeout sets how long to wait.".into(),
            ),
            Error::OwnChange { tag } => (
                Code::ERRCODE_LOCK_NOT_AVAILABLE,
                format!("no ids for tag \"{tag}\" before this transaction ends"),
                Some("It has changed the tag's row, and the ids in memory are used up.".into()),
                "Commit the change before drawing more ids.".into(),
            ),
            Error::NoWorkerSlot { ids } => (
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                format!("no background worker slot for the loader of {ids}"),
                None,
                "Raise max_worker_processes, or end other background workers.".into(),
            ),
            Error::NoSlot { tag } => (
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                format!("no room in shared memory for tag \"{tag}\""),
                Some("Every slot is waiting for a load.".into()),
                "Raise leaf.max_tags and restart the server.".into(),
            ),
            Error::ParallelQuery { tag } => (
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                format!("cannot draw ids of tag \"{tag}\" in a parallel query"),
                Some(
                    "The tag was created or changed by the transaction that runs the query.".into(),
                ),
                "Commit the tag first, or set max_parallel_workers_per_gather to 0.".into(),
            ),
            Error::ParallelRegistry => (
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "cannot draw snowflake ids in a parallel query".into(),
                Some("The extension was created by the transaction that runs the query.".into()),
                "Commit first, or set max_parallel_workers_per_gather to 0.".into(),
            ),
            Error::NotStored => (
                Code::ERRCODE_TRIGGERED_ACTION_EXCEPTION,
                "a grant was not stored in leaf.alloc as it was made".into(),
                None,
                "Let triggers and rules of your own on leaf.alloc leave updates and max_id alone."
                    .into(),
            ),
            Error::NotATrigger { function, table } => (
                Code::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
                format!("{function} is for the triggers of {table} only"),
                None,
                "Leave it to the triggers that the extension has created.".into(),
            ),
            _ => (
                Code::ERRCODE_FEATURE_NOT_SUPPORTED,
                "cannot PREPARE a transaction that has changed leaf.alloc".into(),
                None,
                "Change tags in a transaction of their own and commit it.".into(),
            ),
        }
    }
}
