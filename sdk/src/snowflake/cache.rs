//! The lease in a file, so that a service can start while the server cannot be
//! reached.
//!
//! A second file beside it is locked as long as the generator exists, so that two
//! processes cannot use one cache. The cache contains the identity of the machine
//! and the inode of the lock, so that a copy of it, here or on another node, is not
//! taken for the original; and a *generation*, which the lock contains, too, and which
//! changes with each registration and release, so that an earlier cache that was put
//! back is not taken for the current one. The lock has the ceiling, too: an earlier cache
//! of the same lease goes on above it. A checksum shows damage and edits. Where the
//! registry was found is kept, too: if it is sought elsewhere, it has to be asked.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crc::{CRC_64_XZ, Crc};
use leaf_core::file::{read_small, remove_durably, write_secret_durably};
use leaf_core::snowflake::Terms;
use leaf_core::snowflake::lease::{HeldLease, Identity, Nonce};
use leaf_core::time::WallTime;
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use uuid::Uuid;

use super::lease::{Holding, Lease};
use crate::events::TARGET;
use crate::{Config, Error};

const VERSION: u64 = 2;

/// More than a cache or its lock ever has, in bytes, with a thousand hosts.
const LARGEST: u64 = 1 << 20;

/// Where the registry is sought. Passwords and the order of hosts do not matter.
pub(super) struct Place {
    hosts: Vec<String>,
    database: String,
}

impl Place {
    pub(super) fn of(config: &Config) -> Place {
        Place {
            hosts: config.hosts(),
            database: config.dbname(),
        }
    }

    /// Whether a cache of that place may be of the same registry.
    fn may_be(&self, content: &Value) -> bool {
        let hosts = content["hosts"].as_array();
        let is_own = |host: &Value| self.hosts.iter().any(|own| host == own);
        content["database"] == *self.database && hosts.is_some_and(|hosts| hosts.iter().any(is_own))
    }
}

/// A cache file and its lock.
pub(super) struct Cache {
    path: PathBuf,
    place: Place,
    /// Released when the process ends, even if it crashes.
    lock: File,
    mark: Mutex<Mark>,
}

/// The content of the lock file.
#[derive(Clone)]
struct Mark {
    generation: String,
    /// Below it, ids may have been issued.
    ceiling: WallTime,
}

impl Mark {
    /// Reads the file; a damaged one belongs to no cache.
    fn read(text: String) -> Mark {
        let read = text.split_once(' ');
        let read = read.and_then(|(generation, us)| Some((generation, us.parse().ok()?)));
        match read {
            Some((generation, us)) => Mark {
                generation: generation.to_owned(),
                ceiling: WallTime::from_unix_us(us),
            },
            None => Mark {
                generation: text,
                ceiling: WallTime::MIN,
            },
        }
    }
}

impl Cache {
    /// Takes the lock.
    ///
    /// # Errors
    /// [`Error::Cache`] if another process holds it, if the folder cannot be
    /// written to, or if the path is that of something else than a file.
    pub(super) fn open(path: &Path, place: Place) -> Result<Cache, Error> {
        let mut lock_path = OsString::from(path);
        lock_path.push(".lock");
        let lock_path = PathBuf::from(lock_path);
        for path in [path, &lock_path] {
            read_small(path, LARGEST).map_err(|error| {
                Error::cache(io::Error::new(
                    error.kind(),
                    format!("\"{}\": {error}; name another file", path.display()),
                ))
            })?;
        }
        let lock = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            // A user who may open it can lock it.
            .mode(0o600)
            .open(&lock_path)
            .map_err(Error::cache)?;
        lock.try_lock().map_err(|error| match error {
            TryLockError::WouldBlock => {
                Error::cache(io::Error::other("another process has this cache file open"))
            }
            TryLockError::Error(error) => Error::cache(error),
        })?;
        let mark = fs::read_to_string(&lock_path).unwrap_or_default();
        Ok(Cache {
            path: path.to_owned(),
            place,
            lock,
            mark: Mutex::new(Mark::read(mark)),
        })
    }

    /// The holding in the file, if it is intact and belongs to this node.
    pub(super) fn load(&self, node: &str) -> Holding {
        let Ok(Some(content)) = read_small(&self.path, LARGEST) else {
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
            && content["generation"].as_str() == Some(self.mark.lock().generation.as_str());
        if !is_own {
            return None;
        }
        let nonce = content["nonce"]
            .as_str()?
            .parse::<Uuid>()
            .ok()?
            .into_bytes();
        Some(match content.get("token") {
            Some(_) => {
                let mut lease = read_lease(content, nonce)?;
                lease.ceiling = lease.ceiling.max(self.mark.lock().ceiling);
                lease.held.is_doubtful |= !self.place.may_be(content);
                Holding {
                    cached: Some(lease),
                    ..Holding::default()
                }
            }
            None => Holding {
                nonce: Some(nonce),
                ..Holding::default()
            },
        })
    }

    /// Begins another generation, and writes the nonce of a registration, durably: an earlier
    /// lease is not used any more.
    pub(super) fn begin(&self, node: &str, nonce: Nonce) -> io::Result<()> {
        self.begin_generation()?;
        self.write(node, json!({ "nonce": text_of(nonce) }))
    }

    /// Writes the lease, durably.
    pub(super) fn store(&self, node: &str, lease: &Lease) -> io::Result<()> {
        // That of an earlier file that was put back can be lower.
        let ceiling = lease.ceiling.max(self.mark.lock().ceiling);
        self.write_lease(node, lease, ceiling)
    }

    /// Writes the lease, of which no ids are issued any more from its ceiling on, durably.
    pub(super) fn store_last(&self, node: &str, lease: &Lease) -> io::Result<()> {
        self.write_lease(node, lease, lease.ceiling)
    }

    fn write_lease(&self, node: &str, lease: &Lease, marked: WallTime) -> io::Result<()> {
        let Lease { held, ceiling } = lease;
        let mark = self.mark.lock().clone();
        if mark.ceiling != marked {
            self.set_mark(Mark {
                ceiling: marked,
                ..mark
            })?;
        }
        let value = json!({
            "worker_id": held.terms.worker_id,
            "nonce": text_of(held.nonce),
            "token": held.token,
            "next_token": held.next_token,
            "layout": held.terms.scheme.layout.to_string(),
            "epoch_us": held.terms.scheme.epoch.unix_us(),
            "registry_ceiling_us": held.terms.ceiling.unix_us(),
            "ceiling_us": ceiling.unix_us(),
            "is_doubtful": held.is_doubtful,
            "registry": text_of(held.registry.incarnation),
            "history": held.registry.history,
        });
        self.write(node, value)
    }

    fn write(&self, node: &str, mut content: Value) -> io::Result<()> {
        let of_node = json!({
            "version": VERSION,
            "node": node,
            "machine": machine(),
            "inode": self.inode(),
            "generation": self.mark.lock().generation,
            "hosts": self.place.hosts,
            "database": self.place.database,
        });
        if let (Value::Object(content), Value::Object(of_node)) = (&mut content, of_node) {
            content.extend(of_node);
        }
        let mut file = Map::new();
        file.insert("checksum".into(), checksum(&content).into());
        file.insert("content".into(), content);
        // A user with nonce and token can end the lease.
        write_secret_durably(&self.path, Value::Object(file).to_string().as_bytes())
    }

    /// Removes the file, durably: the lease in it has ended. It is not used any more even if
    /// it is put back.
    pub(super) fn remove(&self) -> io::Result<()> {
        self.begin_generation()?;
        remove_durably(&self.path)
    }

    /// Begins another generation: what the file has is not used any more.
    pub(super) fn begin_generation(&self) -> io::Result<()> {
        self.set_mark(Mark {
            generation: Uuid::new_v4().to_string(),
            ceiling: WallTime::MIN,
        })
    }

    /// Writes the lock file, durably.
    fn set_mark(&self, mark: Mark) -> io::Result<()> {
        let content = format!("{} {}", mark.generation, mark.ceiling.unix_us());
        self.lock.write_all_at(content.as_bytes(), 0)?;
        self.lock.set_len(content.len() as u64)?;
        self.lock.sync_all()?;
        *self.mark.lock() = mark;
        Ok(())
    }

    fn inode(&self) -> Option<u64> {
        self.lock.metadata().ok().map(|metadata| metadata.ino())
    }
}

/// A lease, if its values are possible.
fn read_lease(content: &Value, nonce: Nonce) -> Option<Lease> {
    let instant = |key: &str| content[key].as_i64().map(WallTime::from_unix_us);
    let text = |key: &str| content[key].as_str().map(str::to_owned);
    let terms = Terms::read(
        i32::try_from(content["worker_id"].as_i64()?).ok()?,
        content["layout"].as_str()?,
        instant("epoch_us")?,
        instant("ceiling_us")?,
        instant("registry_ceiling_us")?,
    );
    let terms = terms.ok()?;
    let registry = Identity {
        incarnation: text("registry")?.parse::<Uuid>().ok()?.into_bytes(),
        history: text("history")?,
    };
    let held = HeldLease {
        next_token: content["next_token"].as_i64(),
        is_doubtful: content["is_doubtful"].as_bool()?,
        ..HeldLease::granted(terms, nonce, content["token"].as_i64()?, registry)
    };
    let ceiling = terms.start;
    Some(Lease { held, ceiling })
}

fn text_of(uuid: [u8; 16]) -> String {
    Uuid::from_bytes(uuid).to_string()
}

/// The checksum of a file's content.
fn checksum(content: &Value) -> String {
    let checksum = Crc::<u64>::new(&CRC_64_XZ).checksum(content.to_string().as_bytes());
    format!("{checksum:016x}")
}

/// The identity of this machine.
fn machine() -> String {
    let id = fs::read_to_string("/etc/machine-id");
    let name = fs::read_to_string("/proc/sys/kernel/hostname");
    let part = |text: io::Result<String>| text.unwrap_or_default().trim().to_owned();
    format!("{}/{}", part(id), part(name))
}
