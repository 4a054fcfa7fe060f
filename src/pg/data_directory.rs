//! The cluster's data directory, and files of leaf's own in it.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pgrx::pg_sys;

/// The cluster's data directory.
pub fn path() -> PathBuf {
    // SAFETY: set before any of leaf's code runs in the postmaster, and never
    // changed.
    let path = unsafe { CStr::from_ptr(pg_sys::DataDir) };
    PathBuf::from(path.to_string_lossy().into_owned())
}

/// Writes a file so that after a crash there is the old content or the new,
/// never a part.
pub fn write_durably(path: &Path, content: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension("tmp");
    let mut file = File::create(&temporary)?;
    file.write_all(content)?;
    file.sync_all()?;
    fs::rename(&temporary, path)?;
    sync_parent(path)
}

/// Removes a file so that it stays removed after a crash. A file that is not
/// there is removed already.
pub fn remove_durably(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Ok(()) => sync_parent(path),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

fn sync_parent(path: &Path) -> io::Result<()> {
    match path.parent() {
        Some(parent) => File::open(parent)?.sync_all(),
        None => Ok(()),
    }
}
