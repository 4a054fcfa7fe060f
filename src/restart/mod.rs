//! Ids in memory are kept over a clean restart, in a file.
//!
//! When the postmaster ends after a clean shutdown, it writes the ids that every slot
//! still holds, and the position of every generator of snowflake ids, to
//! `pg_stat_tmp/leaf.ranges` (in a folder that base backups and `pg_rewind` leave out),
//! together with the location of the shutdown checkpoint and the history. The next start removes
//! the file before anything can be drawn, and uses its content only if the control file
//! shows the same checkpoint and the history goes on. In all other cases the ids
//! are lost, never repeated: new segments are granted, and generators begin at their
//! ceilings.

mod segment;
mod snowflake;

use std::path::PathBuf;

use leaf_core::file;
use pgrx::{pg_guard, pg_sys};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::history;
use crate::pg::control_file::ControlFile;
use crate::pg::{self, data_directory, process};
use crate::shmem::{self, Shared};
use segment::{self as segments, SavedSlot};
use snowflake::{self as leases, SavedLease};

/// The version of the file's format; a file of another version is not used.
const VERSION: u32 = 6;

/// More than the ids of all slots that a server can have take.
const LARGEST: u64 = 1 << 30;

#[derive(Serialize, Deserialize)]
struct Saved {
    version: u32,
    /// The history to which the ids belong: a copy that begins another one does not have them.
    history: Uuid,
    checkpoint: u64,
    slots: Vec<SavedSlot>,
    leases: Vec<SavedLease>,
}

fn path() -> PathBuf {
    data_directory::file(data_directory::RANGES)
}

/// Called in the postmaster, before any other process exists: restores what the last
/// shutdown saved, and registers the function that saves it at the next one.
pub fn at_server_start(shared: &Shared, control_file: Option<&ControlFile>) {
    if process::under_postmaster() {
        return;
    }
    if let Some(saved) = take_file(control_file) {
        for slot in &saved.slots {
            segments::restore(shared, slot);
        }
        for lease in &saved.leases {
            leases::restore(shared, lease);
        }
    }
    process::at_postmaster_exit(at_postmaster_exit);
}

/// Removes the file, and returns its content if it belongs to this start.
fn take_file(control_file: Option<&ControlFile>) -> Option<Saved> {
    let content = file::read_small(&path(), LARGEST).ok().flatten();
    if let Err(error) = file::remove_durably(&path()) {
        // The file may exist again after a crash, so its ids must not be used now.
        pg::log(&format!(
            "could not remove \"{}\": {error}",
            path().display()
        ));
        return None;
    }
    let saved: Saved = serde_json::from_slice(&content?).ok()?;
    let control_file = control_file?;
    let belongs = saved.version == VERSION
        && control_file.is_cleanly_shut_down()
        && history::nonce() == Some(saved.history)
        && saved.checkpoint == control_file.checkpoint;
    belongs.then_some(saved)
}

/// Runs in the postmaster after all other processes have ended. It also runs at an
/// immediate shutdown and after a crash, which the control file shows.
#[pg_guard]
unsafe extern "C-unwind" fn at_postmaster_exit(_code: i32, _argument: pg_sys::Datum) {
    let (Some(shared), Some(control_file)) = (shmem::get(), ControlFile::read()) else {
        return;
    };
    if !control_file.is_cleanly_shut_down() {
        return;
    }
    history::at_server_stop(&control_file);
    let Some(history) = history::nonce() else {
        return;
    };
    let saved = Saved {
        version: VERSION,
        history,
        checkpoint: control_file.checkpoint,
        slots: segments::save(shared),
        leases: leases::save(shared),
    };
    let written = serde_json::to_vec(&saved)
        .map_err(std::io::Error::from)
        .and_then(|content| file::write_durably(&path(), &content));
    if let Err(error) = written {
        pg::log(&format!(
            "could not write \"{}\": {error}",
            path().display()
        ));
    }
}
