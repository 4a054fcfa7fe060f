//! The lease in a file, so that a service can start while the server cannot be
//! reached.
//!
//! A second file beside it is locked as long as the generator exists, so that two
//! processes cannot use one cache. The cache contains the identity of the machine
//! and the inode of the lock, so that a copy of it, here or on another node, is not
//! taken for the original.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use leaf_core::file::{remove_durably, write_durably};
use leaf_core::snowflake::Scheme;
use leaf_core::time::WallTime;
use serde_json::{Value, json};

use super::lease::Lease;
use crate::Error;
use crate::events::TARGET;

const VERSION: u64 = 1;

/// A cache file and its lock.
pub(super) struct Cache {
    path: PathBuf,
    /// Released when the process ends, even if it crashes.
    lock: File,
}

impl Cache {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`Error::Cache`] if another process holds it, or if the folder cannot be
    /// written to.
    pub(super) fn open(path: &Path) -> Result<Cache, Error> {
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(path.with_extension("lock"))
            .map_err(Error::cache)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                Error::cache(io::Error::other("another process has this cache file open"))
            }
            TryLockError::Error(error) => Error::cache(error),
        })?;
        Ok(Cache {
            path: path.to_owned(),
            lock,
        })
    }

    /// The lease in the file, if the file is intact and belongs to this node.
    pub(super) fn load(&self, node: &str) -> Option<Lease> {
        let content = fs::read(&self.path).ok()?;
        let found = serde_json::from_slice(&content)
            .ok()
            .and_then(|value: Value| self.read(&value, node));
        if found.is_none() {
            tracing::warn!(target: TARGET, path = %self.path.display(),
                "the cache file is damaged or belongs to another node, and is not used");
        }
        found
    }

    fn read(&self, value: &Value, node: &str) -> Option<Lease> {
        let is_own = value["version"].as_u64() == Some(VERSION)
            && value["node"].as_str() == Some(node)
            && value["machine"].as_str() == Some(&machine())
            && value["inode"].as_u64() == Some(self.inode()?);
        if !is_own {
            return None;
        }
        let layout = value["layout"].as_str()?.parse().ok()?;
        let instant = |key: &str| value[key].as_i64().map(WallTime::from_unix_us);
        Some(Lease {
            worker_id: i32::try_from(value["worker_id"].as_i64()?).ok()?,
            nonce: value["nonce"].as_str()?.to_owned(),
            token: value["token"].as_i64()?,
            scheme: Scheme {
                layout,
                epoch: instant("epoch_us")?,
            },
            registry_ceiling: instant("registry_ceiling_us")?,
            ceiling: instant("ceiling_us")?,
        })
    }

    /// Writes the lease, durably.
    pub(super) fn store(&self, node: &str, lease: &Lease) -> io::Result<()> {
        let value = json!({
            "version": VERSION,
            "node": node,
            "machine": machine(),
            "inode": self.inode(),
            "worker_id": lease.worker_id,
            "nonce": lease.nonce,
            "token": lease.token,
            "layout": lease.scheme.layout.to_string(),
            "epoch_us": lease.scheme.epoch.unix_us(),
            "registry_ceiling_us": lease.registry_ceiling.unix_us(),
            "ceiling_us": lease.ceiling.unix_us(),
        });
        write_durably(&self.path, value.to_string().as_bytes())
    }

    /// Removes the file, durably: the lease in it has ended.
    pub(super) fn remove(&self) -> io::Result<()> {
        remove_durably(&self.path)
    }

    fn inode(&self) -> Option<u64> {
        self.lock.metadata().ok().map(|metadata| metadata.ino())
    }
}

/// What distinguishes this machine from others.
fn machine() -> String {
    let id = fs::read_to_string("/etc/machine-id");
    let name = fs::read_to_string("/proc/sys/kernel/hostname");
    let part = |text: io::Result<String>| text.unwrap_or_default().trim().to_owned();
    format!("{}/{}", part(id), part(name))
}
