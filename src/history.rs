//! Which history of the cluster this is.
//!
//! A tag's row stores the *history* of its last grant: the system identifier, the
//! timeline, and a random nonce. The first grant in another history skips ahead, because
//! a promoted standby or a restored backup may have missed the last grants of its origin.
//!
//! The timeline alone does not distinguish histories: a standby whose `standby.signal`
//! was removed continues in the same one. The nonce is in a file of the data directory
//! and is copied with it. It is therefore renewed at every start that continues another
//! cluster's history: if the control file shows that the cluster was last in archive
//! recovery, or if a signal file or `backup_label` exists.

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

/// Called in the postmaster, before any other process exists: reads or makes the nonce.
pub fn at_server_start(control_file: Option<&ControlFile>) {
    let continues_another = control_file::recovery_is_requested()
        || control_file.is_none_or(ControlFile::is_in_archive_recovery);
    let kept = match continues_another {
        true => None,
        false => read(),
    };
    let nonce = kept.unwrap_or_else(renew);
    *NONCE.lock().expect("the lock is not poisoned") = Some(nonce);
}

/// The current history, as rows store it. Must not be called in recovery.
pub fn current() -> String {
    // SAFETY: both read shared state; grants are made outside recovery only.
    let (system, timeline) = unsafe {
        (
            pg_sys::GetSystemIdentifier(),
            pg_sys::GetWALInsertionTimeLine(),
        )
    };
    let mut nonce = NONCE.lock().expect("the lock is not poisoned");
    // Not set only if the server does not preload leaf: its next start may.
    let nonce = nonce.get_or_insert_with(|| read().unwrap_or_else(renew));
    format!("{system}/{timeline}/{nonce}")
}

fn path() -> PathBuf {
    data_directory::path().join("leaf").join("history")
}

fn read() -> Option<Uuid> {
    fs::read_to_string(path()).ok()?.trim().parse().ok()
}

/// A new nonce. If it cannot be stored, it is still used for this start; the next start
/// then begins another history.
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
