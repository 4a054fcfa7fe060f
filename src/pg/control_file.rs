//! The data directory's view of the cluster: its control file, and the files
//! that request recovery.

use std::fs;

use pgrx::pg_sys;

use super::data_directory;

/// The fields of the control file that distinguish the histories of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlFile {
    /// Made by initdb, shared by every copy of the cluster.
    pub system_identifier: u64,
    /// Grows with every promotion.
    pub timeline: u32,
    /// The location of the last checkpoint record in the WAL.
    pub checkpoint: u64,
    state: pg_sys::DBState::Type,
}

impl ControlFile {
    /// Reads the control file; `None` if it is missing or has a format that this build
    /// does not support.
    pub fn read() -> Option<Self> {
        let bytes = fs::read(data_directory::path().join("global/pg_control")).ok()?;
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

/// Where the record of the checkpoint at this location ends, with which a primary was shut down.
pub fn end_of_last_checkpoint(location: u64) -> u64 {
    let page = u64::from(pg_sys::XLOG_BLCKSZ);
    // The header of a record, that of its only part, and the checkpoint.
    let length = size_of::<pg_sys::XLogRecord>() + 2 + size_of::<pg_sys::CheckPoint>();
    let length = (length as u64).next_multiple_of(8);
    let left = page - location % page;
    match length <= left {
        true => location + length,
        // It goes on behind the header of the next page.
        false => {
            location + length + size_of::<pg_sys::XLogPageHeaderData>().next_multiple_of(8) as u64
        }
    }
}

/// Whether this start is that of a standby.
pub fn is_standby_requested() -> bool {
    data_directory::path().join("standby.signal").exists()
}

/// Whether a file in the data directory shows that this start continues another
/// cluster's history: a standby, a point-in-time recovery, or a base backup.
pub fn recovery_is_requested() -> bool {
    ["standby.signal", "recovery.signal", "backup_label"]
        .iter()
        .any(|name| data_directory::path().join(name).exists())
}
