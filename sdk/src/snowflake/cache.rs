//! The lease in a file, so that a service can start while the server cannot be
//! reached.
//!
//! A second file beside it is locked as long as the generator exists, so that two
//! processes cannot use one cache. The cache contains the identity of the machine
//! and the inode of the lock, so that a copy of it, here or on another node, is not
//! taken for the original; and a *generation*, which the lock contains, too, and which
//! changes with each registration and release, so that an earlier cache that was put
//! back is not taken for the present one. A checksum shows damage and edits.

use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use crc::{CRC_64_XZ, Crc};
use leaf_core::file::{remove_durably, write_durably};
use leaf_core::snowflake::Scheme;
use leaf_core::time::WallTime;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::lease::{Holding, Lease};
use crate::Error;
use crate::events::TARGET;

const VERSION: u64 = 1;

/// A cache file and its lock.
pub(super) struct Cache {
    path: PathBuf,
    /// Released when the process ends, even if it crashes.
    lock: File,
    /// What the lock contains.
    generation: Mutex<String>,
}

impl Cache {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`Error::Cache`] if another process holds it, or if the folder cannot be
    /// written to.
    pub(super) fn open(path: &Path) -> Result<Cache, Error> {
        let lock_path = path.with_extension("lock");
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock_path)
            .map_err(Error::cache)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                Error::cache(io::Error::other("another process has this cache file open"))
            }
            TryLockError::Error(error) => Error::cache(error),
        })?;
        let generation = fs::read_to_string(&lock_path).unwrap_or_default();
        Ok(Cache {
            path: path.to_owned(),
            lock,
            generation: Mutex::new(generation),
        })
    }

    /// What the file has, if it is intact and belongs to this node.
    pub(super) fn load(&self, node: &str) -> Holding {
        let Ok(content) = fs::read(&self.path) else {
            return Holding::default();
        };
        let found = serde_json::from_slice(&content)
            .ok()
            .and_then(|value: Value| self.read(&value, node));
        found.unwrap_or_else(|| {
            tracing::warn!(target: TARGET, path = %self.path.display(),
                "the cache file is damaged, out of date or belongs to another node, and is not used");
            Holding::default()
        })
    }

    fn read(&self, value: &Value, node: &str) -> Option<Holding> {
        let content = &value["content"];
        let is_own = value["checksum"].as_str() == Some(&checksum(content))
            && content["version"].as_u64() == Some(VERSION)
            && content["node"].as_str() == Some(node)
            && content["machine"].as_str() == Some(&machine())
            && content["inode"].as_u64() == Some(self.inode()?)
            && content["generation"].as_str() == Some(self.generation.lock().as_str());
        if !is_own {
            return None;
        }
        let nonce = content["nonce"].as_str()?;
        nonce.parse::<Uuid>().ok()?;
        Some(match content.get("token") {
            Some(_) => Holding {
                cached: Some(read_lease(content, nonce)?),
                ..Holding::default()
            },
            None => Holding {
                nonce: Some(nonce.to_owned()),
                ..Holding::default()
            },
        })
    }

    /// Begins another generation, and writes the nonce of a registration, durably: an earlier
    /// lease is not used any more.
    pub(super) fn begin(&self, node: &str, nonce: &str) -> io::Result<()> {
        self.begin_generation()?;
        self.write(node, json!({ "nonce": nonce }))
    }

    /// Writes the lease, durably.
    pub(super) fn store(&self, node: &str, lease: &Lease) -> io::Result<()> {
        let value = json!({
            "worker_id": lease.worker_id,
            "nonce": lease.nonce,
            "token": lease.token,
            "next_token": lease.next_token,
            "layout": lease.scheme.layout.to_string(),
            "epoch_us": lease.scheme.epoch.unix_us(),
            "registry_ceiling_us": lease.registry_ceiling.unix_us(),
            "ceiling_us": lease.ceiling.unix_us(),
            "is_ending": lease.is_ending,
        });
        self.write(node, value)
    }

    fn write(&self, node: &str, mut content: Value) -> io::Result<()> {
        let of_node = json!({
            "version": VERSION,
            "node": node,
            "machine": machine(),
            "inode": self.inode(),
            "generation": *self.generation.lock(),
        });
        if let (Value::Object(content), Value::Object(of_node)) = (&mut content, of_node) {
            content.extend(of_node);
        }
        let mut file = Map::new();
        file.insert("checksum".into(), checksum(&content).into());
        file.insert("content".into(), content);
        write_durably(&self.path, Value::Object(file).to_string().as_bytes())
    }

    /// Removes the file, durably: the lease in it has ended. It is not used any more even if
    /// it is put back.
    pub(super) fn remove(&self) -> io::Result<()> {
        self.begin_generation()?;
        remove_durably(&self.path)
    }

    fn begin_generation(&self) -> io::Result<()> {
        let next = Uuid::new_v4().to_string();
        self.lock.write_all_at(next.as_bytes(), 0)?;
        self.lock.set_len(next.len() as u64)?;
        self.lock.sync_all()?;
        *self.generation.lock() = next;
        Ok(())
    }

    fn inode(&self) -> Option<u64> {
        self.lock.metadata().ok().map(|metadata| metadata.ino())
    }
}

/// A lease, if its values are possible.
fn read_lease(content: &Value, nonce: &str) -> Option<Lease> {
    let instant = |key: &str| content[key].as_i64().map(WallTime::from_unix_us);
    let scheme = Scheme {
        layout: content["layout"].as_str()?.parse().ok()?,
        epoch: instant("epoch_us")?,
    };
    let lease = Lease {
        worker_id: i32::try_from(content["worker_id"].as_i64()?).ok()?,
        nonce: nonce.to_owned(),
        token: content["token"].as_i64()?,
        next_token: content["next_token"].as_i64(),
        scheme,
        registry_ceiling: instant("registry_ceiling_us")?,
        ceiling: instant("ceiling_us")?,
        is_ending: content["is_ending"].as_bool()?,
    };
    let worker_ids = 0..scheme.layout.worker_ids() as i64;
    let is_possible = worker_ids.contains(&i64::from(lease.worker_id))
        && scheme.epoch <= lease.ceiling
        && lease.ceiling <= lease.registry_ceiling
        && lease.registry_ceiling <= scheme.ends_at();
    is_possible.then_some(lease)
}

/// The checksum of a file's content.
fn checksum(content: &Value) -> String {
    let checksum = Crc::<u64>::new(&CRC_64_XZ).checksum(content.to_string().as_bytes());
    format!("{checksum:016x}")
}

/// What distinguishes this machine from others.
fn machine() -> String {
    let id = fs::read_to_string("/etc/machine-id");
    let name = fs::read_to_string("/proc/sys/kernel/hostname");
    let part = |text: io::Result<String>| text.unwrap_or_default().trim().to_owned();
    format!("{}/{}", part(id), part(name))
}
