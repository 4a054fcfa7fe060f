//! Which history of the cluster this is.
//!
//! A tag's row remembers the *history* in which it was last granted: the system
//! identifier, the timeline, and a random nonce. The first grant in another one
//! skips ahead, because a promoted standby or a restored backup may have missed
//! the last grants of its origin.
//!
//! The timeline alone does not tell histories apart: a standby whose
//! `standby.signal` was removed continues in the same one. So the nonce, which
//! lies in a file of the data directory and is copied with it, is renewed at
//! every start that continues another cluster's history: when the control file
//! says that the cluster was last in archive recovery, or a signal file or
//! `backup_label` exists.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

use leaf_core::file;
use pgrx::pg_sys;
use uuid::Uuid;

use crate::pg::control_file::{self, ControlFile};
use crate::pg::data_directory;

/// The nonce of this start. Set by the postmaster, inherited by every process it
/// forks.
static NONCE: Mutex<Option<Uuid>> = Mutex::new(None);

/// In the postmaster, before any other process exists: reads or makes the nonce.
pub fn at_server_start(control_file: Option<&ControlFile>) {
    let continues_another = control_file::recovery_is_requested()
        || control_file.is_none_or(ControlFile::is_in_archive_recovery);
    let kept = match continues_another {
        true => None,
        false => read(),
    };
    let nonce = kept.unwrap_or_else(renew);
    *NONCE.lock().expect("nobody panics while holding it") = Some(nonce);
}

/// The present history, as rows remember it. Not in recovery.
pub fn current() -> String {
    // SAFETY: both read shared state; grants are made outside recovery only.
    let (system, timeline) = unsafe {
        (
            pg_sys::GetSystemIdentifier(),
            pg_sys::GetWALInsertionTimeLine(),
        )
    };
    let nonce = *NONCE.lock().expect("nobody panics while holding it");
    format!("{system}/{timeline}/{}", nonce.unwrap_or_default())
}

fn path() -> PathBuf {
    data_directory::path().join("leaf").join("history")
}

fn read() -> Option<Uuid> {
    fs::read_to_string(path()).ok()?.trim().parse().ok()
}

/// A nonce that no start has had. If it cannot be kept, it is good for this
/// start all the same, and the next one skips ahead.
fn renew() -> Uuid {
    let nonce = Uuid::new_v4();
    if let Err(error) = store(nonce) {
        crate::pg::log(&format!(
            "could not write \"{}\": {error}",
            path().display()
        ));
        let _ = file::remove_durably(&path());
    }
    nonce
}

fn store(nonce: Uuid) -> io::Result<()> {
    let path = path();
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    file::write_durably(&path, format!("{nonce}\n").as_bytes())
}
