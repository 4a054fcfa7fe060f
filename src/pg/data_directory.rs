//! The cluster's data directory.

use std::ffi::CStr;
use std::path::PathBuf;

use pgrx::pg_sys;

/// The history of the cluster.
pub const HISTORY: &str = "leaf/history";

/// With this, an administrator says before a start that the data directory is a copy.
pub const NEW_HISTORY: &str = "leaf_new_history.signal";

/// The ceilings of worker ids, in files whose names begin with this. They are upper bounds, also for
/// a copy.
pub const CEILINGS: &str = "leaf/snowflake.";

/// Ids that are kept over a clean restart. They belong to one history.
pub const RANGES: &str = "pg_stat_tmp/leaf.ranges";

/// A file of leaf's, of which there are only those named here: a copy of the data directory has them.
pub fn file(name: &str) -> PathBuf {
    path().join(name)
}

/// From which rows a database has granted.
pub fn rows_of(database: u32) -> PathBuf {
    file(&format!("leaf/rows.{database}"))
}

/// The cluster's data directory.
pub fn path() -> PathBuf {
    // SAFETY: set before any of leaf's code runs in the postmaster, and never
    // changed.
    let path = unsafe { CStr::from_ptr(pg_sys::DataDir) };
    PathBuf::from(path.to_string_lossy().into_owned())
}
