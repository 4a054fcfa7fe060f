//! The cluster's data directory.

use std::ffi::CStr;
use std::path::PathBuf;

use pgrx::pg_sys;

/// The cluster's data directory.
pub fn path() -> PathBuf {
    // SAFETY: set before any of leaf's code runs in the postmaster, and never
    // changed.
    let path = unsafe { CStr::from_ptr(pg_sys::DataDir) };
    PathBuf::from(path.to_string_lossy().into_owned())
}
