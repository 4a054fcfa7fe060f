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
//! recovery, or if a signal file or `backup_label` exists. Beside it, the file has how the
//! history began: only a standby that is promoted has all that its primary had confirmed.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

use leaf_core::file;
use pgrx::pg_sys;
use uuid::Uuid;

use crate::pg::control_file::{self, ControlFile};
use crate::pg::data_directory;

/// How a history began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beginning {
    /// With a new cluster, or with leaf.
    New,
    /// As a standby.
    Standby,
    /// From a backup, or in another way that may lack the last transactions.
    Restored,
}

impl Beginning {
    const ALL: [(Beginning, &str); 3] = [
        (Beginning::New, "new"),
        (Beginning::Standby, "standby"),
        (Beginning::Restored, "restored"),
    ];

    fn name(self) -> &'static str {
        let found = Self::ALL.iter().find(|(it, _)| *it == self);
        found.map_or("", |(_, name)| name)
    }

    fn of_name(name: &str) -> Option<Self> {
        let found = Self::ALL.iter().find(|(_, known)| *known == name);
        found.map(|(it, _)| *it)
    }
}

/// The nonce of this start, and how its history began. Set by the postmaster, inherited by
/// every process it forks.
static NONCE: Mutex<Option<(Uuid, Beginning)>> = Mutex::new(None);

/// Called in the postmaster, before any other process exists: reads or makes the nonce.
pub fn at_server_start(control_file: Option<&ControlFile>) {
    let continues_another = control_file::recovery_is_requested()
        || control_file.is_none_or(ControlFile::is_in_archive_recovery);
    let begun = match continues_another {
        true if control_file::is_standby_requested() => renew(Beginning::Standby),
        true => renew(Beginning::Restored),
        false => read().unwrap_or_else(|| renew(Beginning::New)),
    };
    *NONCE.lock().expect("the lock is not poisoned") = Some(begun);
}

/// Whether grants that were confirmed in an earlier history may be missing, because this one
/// began neither with the cluster nor as a standby.
pub fn may_lack_grants() -> bool {
    let begun = *NONCE.lock().expect("the lock is not poisoned");
    begun.is_none_or(|(_, beginning)| beginning == Beginning::Restored)
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
    let (nonce, _) = nonce.get_or_insert_with(|| read().unwrap_or_else(|| renew(Beginning::New)));
    format!("{system}/{timeline}/{nonce}")
}

fn path() -> PathBuf {
    data_directory::path().join("leaf").join("history")
}

fn read() -> Option<(Uuid, Beginning)> {
    let content = fs::read_to_string(path()).ok()?;
    let (nonce, beginning) = content.trim().split_once(' ')?;
    Some((nonce.parse().ok()?, Beginning::of_name(beginning)?))
}

/// A new nonce. If it cannot be stored, it is still used for this start; the next start
/// then begins another history.
fn renew(beginning: Beginning) -> (Uuid, Beginning) {
    let nonce = Uuid::new_v4();
    if let Err(error) = store(nonce, beginning) {
        crate::pg::log(&format!(
            "could not write \"{}\": {error}",
            path().display()
        ));
        let _ = file::remove_durably(&path());
    }
    (nonce, beginning)
}

fn store(nonce: Uuid, beginning: Beginning) -> io::Result<()> {
    let path = path();
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    file::write_durably(&path, format!("{nonce} {}\n", beginning.name()).as_bytes())
}
