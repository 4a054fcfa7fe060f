//! What the data directory says about the cluster: its control file, the files
//! that ask for recovery, and files of leaf's own.

use std::ffi::CStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use pgrx::pg_sys;

/// The cluster's data directory.
pub fn data_directory() -> PathBuf {
    // SAFETY: set before any of leaf's code runs in the postmaster, and never
    // changed.
    let path = unsafe { CStr::from_ptr(pg_sys::DataDir) };
    PathBuf::from(path.to_string_lossy().into_owned())
}

/// The part of the control file that tells one life of a cluster from another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlFile {
    /// Made by initdb, shared by every copy of the cluster.
    pub system_identifier: u64,
    /// Grows with every promotion.
    pub timeline: u32,
    /// Where the last checkpoint record lies in the WAL.
    pub checkpoint: u64,
    state: pg_sys::DBState::Type,
}

impl ControlFile {
    /// Reads the control file; `None` if it is missing or of a layout this
    /// build does not know.
    pub fn read() -> Option<Self> {
        let bytes = fs::read(data_directory().join("global/pg_control")).ok()?;
        if bytes.len() < size_of::<pg_sys::ControlFileData>() {
            return None;
        }
        // SAFETY: long enough, plain integers, and read without alignment.
        let file = unsafe {
            bytes
                .as_ptr()
                .cast::<pg_sys::ControlFileData>()
                .read_unaligned()
        };
        (file.pg_control_version == pg_sys::PG_CONTROL_VERSION).then_some(ControlFile {
            system_identifier: file.system_identifier,
            timeline: file.checkPointCopy.ThisTimeLineID,
            checkpoint: file.checkPoint,
            state: file.state,
        })
    }

    /// Whether a primary was shut down and wrote its last checkpoint.
    pub fn is_cleanly_shut_down(&self) -> bool {
        self.state == pg_sys::DBState::DB_SHUTDOWNED
    }

    /// Whether the cluster was a standby or restored from an archive when it
    /// last ran.
    pub fn is_in_archive_recovery(&self) -> bool {
        self.state == pg_sys::DBState::DB_SHUTDOWNED_IN_RECOVERY
            || self.state == pg_sys::DBState::DB_IN_ARCHIVE_RECOVERY
    }
}

/// Whether a file in the data directory says that this start continues another
/// cluster's history: a standby, a point-in-time recovery, or a base backup.
pub fn recovery_is_requested() -> bool {
    ["standby.signal", "recovery.signal", "backup_label"]
        .iter()
        .any(|name| data_directory().join(name).exists())
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
