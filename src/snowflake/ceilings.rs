//! The ceilings of the worker ids that this node has used, in a file.
//!
//! The registry is a table. A table can be dropped with the extension, and its changes
//! can be rolled back, but ids that were returned cannot. Before a ceiling is committed
//! to the registry, it is therefore written to `leaf/snowflake.<database>` in the data
//! directory. There it is replaced only by a higher one, or by a lower one that the
//! holder gives when it ends its lease early. Every lease begins above both.
//!
//! Beside the ceiling is the nonce of the lease that raised it. A ceiling in the file above
//! the one in the registry is the trace of something that was rolled back: of a renewal of
//! the same lease, which can be repeated, or of another lease.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::PathBuf;

use leaf_core::file::{remove_durably, write_durably};
use leaf_core::time::WallTime;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::pg::data_directory;

/// The version of the file's format. A file of another version is an error, because its
/// content is needed.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Content {
    version: u32,
    /// For each worker id.
    ceilings: BTreeMap<u64, Kept>,
}

/// What the file has of a worker id.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Microseconds since 1970 in the file.
    pub ceiling: WallTime,
    /// The nonce of the lease that raised it.
    pub nonce: Uuid,
}

/// The outcome of [`raise`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Raised {
    /// The file has the new ceiling.
    Done,
    /// Another process has changed the ceiling in the meantime.
    Meanwhile,
}

/// The ceiling of a worker id, if this node has used it in the database.
pub fn read(database: u32, worker_id: u64) -> io::Result<Option<Kept>> {
    Ok(load(database)?.ceilings.get(&worker_id).copied())
}

/// The ceilings of all worker ids that this node has used in the database.
pub fn all(database: u32) -> io::Result<BTreeMap<u64, Kept>> {
    Ok(load(database)?.ceilings)
}

/// Raises the ceiling of a worker id, durably, from the value that [`read`] has returned.
pub fn raise(database: u32, worker_id: u64, from: Option<Kept>, to: Kept) -> io::Result<Raised> {
    fs::create_dir_all(folder())?;
    // Released when closed; held only for a short time.
    let lock = File::open(folder())?;
    lock.lock()?;
    let mut content = load(database)?;
    let kept = content.ceilings.get(&worker_id).copied();
    if kept != from {
        return Ok(Raised::Meanwhile);
    }
    if kept.is_none_or(|kept| kept.ceiling < to.ceiling) {
        content.ceilings.insert(worker_id, to);
        store(database, &content)?;
    }
    Ok(Raised::Done)
}

/// Lowers the ceiling of a worker id whose lease was ended early, if it is still `from`.
pub fn lower(database: u32, worker_id: u64, from: WallTime, to: WallTime) -> io::Result<()> {
    let lock = File::open(folder())?;
    lock.lock()?;
    let mut content = load(database)?;
    match content.ceilings.get_mut(&worker_id) {
        Some(kept) if kept.ceiling == from && to < from => kept.ceiling = to,
        _ => return Ok(()),
    }
    store(database, &content)
}

/// Removes the files of databases for which `is_gone` returns true.
pub fn remove_of(is_gone: impl Fn(u32) -> bool) -> io::Result<()> {
    for entry in fs::read_dir(folder())? {
        let entry = entry?;
        let name = entry.file_name();
        let database = name
            .to_str()
            .and_then(|name| name.strip_prefix("snowflake."))
            .and_then(|database| database.trim_end_matches(".tmp").parse().ok());
        if let Some(database) = database
            && is_gone(database)
        {
            remove_durably(&entry.path())?;
        }
    }
    Ok(())
}

fn load(database: u32) -> io::Result<Content> {
    let json = match fs::read(path(database)) {
        Ok(json) => json,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return Ok(Content {
                version: VERSION,
                ceilings: BTreeMap::new(),
            });
        }
        Err(error) => return Err(error),
    };
    let content: Content = serde_json::from_slice(&json)?;
    match content.version {
        VERSION => Ok(content),
        other => Err(io::Error::other(format!("unknown version {other}"))),
    }
}

fn store(database: u32, content: &Content) -> io::Result<()> {
    write_durably(&path(database), &serde_json::to_vec(content)?)
}

fn folder() -> PathBuf {
    data_directory::path().join("leaf")
}

/// The file of a database.
pub fn path(database: u32) -> PathBuf {
    folder().join(format!("snowflake.{database}"))
}
