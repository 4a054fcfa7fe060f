//! The ceilings of the worker ids that this node has used, in a file.
//!
//! The registry is a table. A table can be dropped with the extension, and its changes
//! can be rolled back, but ids that were returned cannot. Before a ceiling is committed
//! to the registry, it is therefore written to `leaf/snowflake.<database>` in the data
//! directory, which has the first [`PER_FILE`] worker ids; further files,
//! `leaf/snowflake.<database>.<number>`, have as many each. There it is replaced only by a higher one, or by a lower one that the
//! holder gives when it ends its lease early. Every lease begins above both.
//!
//! Beside the ceiling is the nonce of the lease that raised it. A ceiling in the file above
//! the one in the registry is the trace of something that was rolled back: of a renewal of
//! the same lease, which can be repeated, or of another lease.

use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use leaf_core::file::{self, remove_durably, write_durably};
use leaf_core::time::WallTime;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::pg::wait_event::WaitEvent;
use crate::pg::{data_directory, guc, latch, process};

/// How many worker ids are in one file: as many as the layout `leaf` has, and so few that
/// a file is written quickly.
pub const PER_FILE: u64 = 1024;

/// More than [`PER_FILE`] ceilings take.
const LARGEST: u64 = 1 << 20;

/// The version of the file's format. A file of another version is an error, because its
/// content is needed.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Content {
    version: u32,
    /// For each worker id.
    ceilings: BTreeMap<u64, FiledCeiling>,
}

/// The record of a worker id in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FiledCeiling {
    /// Microseconds since 1970 in the file.
    pub ceiling: WallTime,
    /// The nonce of the lease that raised it.
    pub nonce: Uuid,
}

/// A ceiling that is to be raised, from the value that [`read`] has returned.
pub struct Raise {
    pub worker_id: u64,
    pub from: Option<FiledCeiling>,
    pub to: FiledCeiling,
}

/// The outcome of [`raise`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raised {
    /// The file has the new ceiling.
    Done,
    /// Another process has changed one of the ceilings in the meantime.
    Meanwhile,
    /// Another process has had the files locked for as long as `lock_timeout`.
    Locked,
}

/// The ceiling of a worker id, if this node has used it in the database.
pub fn read(database: u32, worker_id: u64) -> io::Result<Option<FiledCeiling>> {
    Ok(all_beside(database, worker_id)?.remove(&worker_id))
}

/// The ceilings of all worker ids that are in the same file as this one.
pub fn all_beside(database: u32, worker_id: u64) -> io::Result<BTreeMap<u64, FiledCeiling>> {
    Ok(load(&path(database, worker_id))?.ceilings)
}

/// Raises ceilings of different worker ids, durably; each file is written once. Waits for other
/// processes that write the files, up to `lock_timeout`; can be cancelled.
pub fn raise(database: u32, raises: &[Raise]) -> io::Result<Raised> {
    fs::create_dir_all(folder())?;
    let began = Instant::now();
    let _lock = loop {
        match try_lock()? {
            Some(lock) => break lock,
            None if guc::lock_timeout().is_some_and(|limit| began.elapsed() >= limit) => {
                return Ok(Raised::Locked);
            }
            None => {
                latch::wait(NAP, WaitEvent::CeilingFile);
                process::check_for_interrupts();
            }
        }
    };
    let mut of_files: BTreeMap<PathBuf, Vec<&Raise>> = BTreeMap::new();
    for raise in raises {
        let of_file = of_files.entry(path(database, raise.worker_id));
        of_file.or_default().push(raise);
    }
    for (path, raises) in of_files {
        let mut content = load(&path)?;
        let mut is_raised = false;
        for Raise {
            worker_id,
            from,
            to,
        } in raises
        {
            let kept = content.ceilings.get(worker_id).copied();
            if kept != *from {
                return Ok(Raised::Meanwhile);
            }
            if kept.is_none_or(|kept| kept.ceiling < to.ceiling) {
                content.ceilings.insert(*worker_id, *to);
                is_raised = true;
            }
        }
        if is_raised {
            store(&path, &content)?;
        }
    }
    Ok(Raised::Done)
}

/// Lowers the ceiling of a worker id whose lease was ended early, if it is still `from`.
/// Cannot be cancelled, so it does not wait long for other processes.
pub fn lower(database: u32, worker_id: u64, from: WallTime, to: WallTime) -> io::Result<()> {
    let mut naps = 0..MAX_NAPS;
    let _lock = loop {
        match (try_lock()?, naps.next()) {
            (Some(lock), _) => break lock,
            (None, Some(_)) => std::thread::sleep(NAP),
            (None, None) => return Err(io::Error::other("another process has it locked")),
        }
    };
    let path = path(database, worker_id);
    let mut content = load(&path)?;
    match content.ceilings.get_mut(&worker_id) {
        Some(kept) if kept.ceiling == from && to < from => kept.ceiling = to,
        _ => return Ok(()),
    }
    store(&path, &content)
}

/// How long a process sleeps before it tries again to lock the files, and how often it does
/// so if it cannot be cancelled.
const NAP: Duration = Duration::from_millis(5);
const MAX_NAPS: u32 = 40;

/// The lock for writing the files, which is released when closed; `None` if another process
/// has it. A blocking call could not be cancelled.
fn try_lock() -> io::Result<Option<File>> {
    let lock = File::open(folder())?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(error),
    }
}

/// Removes the files of databases for which `is_gone` returns true.
pub fn remove_of(is_gone: impl Fn(u32) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(folder())? {
        let entry = entry?;
        let name = entry.file_name();
        let database = name
            .to_str()
            .and_then(|name| name.strip_prefix("snowflake."))
            .and_then(|rest| rest.split('.').next()?.parse().ok());
        if let Some(database) = database
            && is_gone(database)
        {
            remove_durably(&entry.path())?;
        }
    }
    Ok(())
}

fn load(path: &Path) -> io::Result<Content> {
    let Some(json) = file::read_small(path, LARGEST)? else {
        return Ok(Content {
            version: VERSION,
            ceilings: BTreeMap::new(),
        });
    };
    let content: Content = serde_json::from_slice(&json)?;
    match content.version {
        VERSION => Ok(content),
        other => Err(io::Error::other(format!("unknown version {other}"))),
    }
}

fn store(path: &Path, content: &Content) -> io::Result<()> {
    write_durably(path, &serde_json::to_vec(content)?)
}

fn folder() -> PathBuf {
    let mut path = data_directory::file(data_directory::CEILINGS);
    path.pop();
    path
}

/// The file of a worker id in a database.
pub fn path(database: u32, worker_id: u64) -> PathBuf {
    let file = data_directory::CEILINGS;
    data_directory::file(&match worker_id / PER_FILE {
        0 => format!("{file}{database}"),
        number => format!("{file}{database}.{number}"),
    })
}
