//! Which history of the cluster this is.
//!
//! A tag's row stores the *history* of its last grant: the system identifier, the
//! timeline, and a random nonce. The first grant in another history skips ahead, because
//! a promoted standby or a restored backup may have missed the last grants of its origin.
//!
//! The timeline alone does not distinguish histories: a standby whose `standby.signal`
//! was removed continues in the same one. The nonce is in a file of the data directory
//! and is copied with it. So whoever starts proves that the cluster is where leaf has left it:
//! the file has what the control file showed when leaf last saw it, at the last start and, after
//! a clean shutdown, at its end. A cluster that has run without leaf since, a copy that has done
//! so, one that was in archive recovery, and one with a signal file or `backup_label`, or a
//! `backup_label.old` that leaf does not know, begins another history.
//!
//! Beside that, the file has how the history began. Only a standby that is promoted can have all
//! that its primary had confirmed, and only if what it has was streamed to it up to the end; what
//! cannot be proved counts as behind.

use std::fs;
use std::io;
use std::path::PathBuf;
use std::sync::Mutex;

use leaf_core::file;
use pgrx::pg_sys;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::{Error, Problem};
use crate::pg::control_file::{self, ControlFile};
use crate::pg::{data_directory, process, replication};

/// How a history began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Beginning {
    /// With a new cluster, or with leaf.
    New,
    /// As a standby, of which it is not known yet what it has.
    Standby {
        /// Its name for the primary.
        name: String,
        /// Where its WAL ends, if it was a primary itself before it was shut down.
        own_end: Option<u64>,
    },
    /// As a standby that had all that was streamed to it, or that it had written itself, and
    /// nothing from elsewhere.
    Promoted(String),
    /// From a backup, or in another way that may lack the last transactions.
    Restored,
}

/// Where leaf has left the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Left {
    system_identifier: u64,
    timeline: u32,
    checkpoint: u64,
    /// Whether the cluster was shut down then, and had not just been started.
    is_shut_down: bool,
    /// What `backup_label.old` contained, if it existed.
    backup_label: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct History {
    nonce: Uuid,
    beginning: Beginning,
    left: Option<Left>,
    /// Whether the file has it: if not, nothing may be granted in it.
    #[serde(skip)]
    is_stored: bool,
}

/// The history of this start. Set by the postmaster, inherited by every process it forks.
static HISTORY: Mutex<Option<History>> = Mutex::new(None);

/// No file of leaf that is read at a start has more.
const LARGEST: u64 = 100_000;

/// Called in the postmaster, before any other process exists: reads or makes the nonce.
pub fn at_server_start(control_file: Option<&ControlFile>) {
    let known = read();
    let continues_another = control_file::recovery_is_requested()
        || control_file.is_none_or(ControlFile::is_in_archive_recovery);
    let mut history = match known {
        _ if control_file::is_standby_requested() => {
            let is_own = |it: &&History| {
                !matches!(
                    it.beginning,
                    Beginning::Restored | Beginning::Standby { .. }
                ) && control_file.is_some_and(ControlFile::is_cleanly_shut_down)
                    && is_where_it_was_left(it, control_file)
            };
            let own = known.as_ref().filter(is_own).and(control_file);
            History::new(Beginning::Standby {
                name: replication::own_name(),
                own_end: own.map(|it| control_file::end_of_last_checkpoint(it.checkpoint)),
            })
        }
        _ if continues_another => History::new(Beginning::Restored),
        // Also if there is something else in its place.
        None if !path().is_file() => History::new(Beginning::New),
        Some(known) if is_where_it_was_left(&known, control_file) => History {
            // It was promoted, and what it had then was never looked at.
            beginning: match known.beginning {
                Beginning::Standby { .. } => Beginning::Restored,
                other => other,
            },
            ..known
        },
        _ => History::new(Beginning::Restored),
    };
    history.left = control_file.map(|it| left(it, false));
    if let Err(error) = history.store() {
        crate::pg::log(&format!(
            "could not write \"{}\": {error}",
            path().display()
        ));
    }
    *HISTORY.lock().expect("the lock is not poisoned") = Some(history);
}

/// Called in the postmaster, when all other processes have ended after a clean shutdown.
pub fn at_server_stop(control_file: &ControlFile) {
    let mut history = HISTORY.lock().expect("the lock is not poisoned");
    if let Some(history) = history.as_mut().filter(|it| it.is_stored) {
        // A process may have found out in the meantime what it had as a standby.
        if let Some(known) = read().filter(|known| known.nonce == history.nonce) {
            history.beginning = known.beginning;
        }
        history.left = Some(left(control_file, true));
        // If that fails, the next start begins another history.
        let _ = history.store();
    }
}

fn left(control_file: &ControlFile, is_shut_down: bool) -> Left {
    let backup_label = data_directory::path().join("backup_label.old");
    let backup_label = file::read_small(&backup_label, LARGEST).ok().flatten();
    Left {
        system_identifier: control_file.system_identifier,
        timeline: control_file.timeline,
        checkpoint: control_file.checkpoint,
        is_shut_down,
        backup_label: backup_label.map(|content| String::from_utf8_lossy(&content).into_owned()),
    }
}

/// Whether nothing has run in this data directory since leaf has seen it, nor in that of which
/// it is a copy.
fn is_where_it_was_left(known: &History, control_file: Option<&ControlFile>) -> bool {
    let (Some(before), Some(control_file)) = (&known.left, control_file) else {
        return false;
    };
    let now = left(control_file, control_file.is_cleanly_shut_down());
    match before.is_shut_down {
        true => *before == now,
        // It ended without a last checkpoint.
        false => {
            !now.is_shut_down
                && before.checkpoint <= now.checkpoint
                && before.backup_label == now.backup_label
                && before.system_identifier == now.system_identifier
                && before.timeline >= now.timeline
        }
    }
}

impl History {
    fn new(beginning: Beginning) -> Self {
        History {
            nonce: Uuid::new_v4(),
            beginning,
            left: None,
            is_stored: false,
        }
    }

    /// Stores it. If that is not possible, nothing is granted: the next start would take the
    /// earlier file for this history's.
    fn store(&mut self) -> io::Result<()> {
        let stored = store(self);
        self.is_stored = stored.is_ok();
        stored
    }
}

/// The history of this server, as far as it is known. Not in recovery: what a standby has is
/// found out after its promotion.
fn with<R>(look: impl FnOnce(&mut History) -> R) -> R {
    let mut history = HISTORY.lock().expect("the lock is not poisoned");
    // Not set only if the server does not preload leaf.
    let history =
        history.get_or_insert_with(|| read().unwrap_or_else(|| History::new(Beginning::New)));
    if let Beginning::Standby { name, own_end } = &history.beginning
        && !process::in_recovery()
    {
        let has_all = replication::was_streamed_to_its_end()
            || own_end.is_some_and(replication::has_replayed_up_to);
        history.beginning = match has_all {
            true => Beginning::Promoted(name.clone()),
            false => Beginning::Restored,
        };
        // The timeline has changed with the promotion. The control file shows it only later.
        // SAFETY: reads shared state; the recovery has ended.
        let timeline = unsafe { pg_sys::GetWALInsertionTimeLine() };
        if let Some(left) = &mut history.left {
            left.timeline = timeline;
        }
        history.is_stored = false;
    }
    if !history.is_stored {
        let _ = history.store();
    }
    look(history)
}

/// Whether grants that were confirmed in an earlier history may be missing, because this one
/// began neither with the cluster nor as a standby that is known to have all that was streamed.
pub fn may_lack_grants() -> bool {
    with(|history| history.beginning == Beginning::Restored)
}

/// The name under which this server, as a standby, confirmed what its primary did, if it is known
/// to have had all of that when it was promoted.
pub fn confirmed_as() -> Option<String> {
    with(|history| match &history.beginning {
        Beginning::Promoted(name) => Some(name.clone()),
        _ => None,
    })
}

/// The current history, as rows store it. Must not be called in recovery. An error if it is not
/// stored.
pub fn current() -> String {
    // SAFETY: both read shared state; grants are made outside recovery only.
    let (system, timeline) = unsafe {
        (
            pg_sys::GetSystemIdentifier(),
            pg_sys::GetWALInsertionTimeLine(),
        )
    };
    let nonce = with(|history| history.is_stored.then_some(history.nonce));
    let Some(nonce) = nonce else {
        let path = path().display().to_string();
        Error::HistoryNotStored { path }.raise()
    };
    format!("{system}/{timeline}/{nonce}")
}

/// Whether a history is the one before the present one, of the same database: that of the primary
/// whose standby this server was.
pub fn is_former(history: &str, present: &str) -> bool {
    let parts = |text: &str| -> Option<(String, u32, String)> {
        let mut parts = text.split('/');
        let (system, timeline) = (parts.next()?, parts.next()?.parse().ok()?);
        Some((system.to_owned(), timeline, parts.nth(1)?.to_owned()))
    };
    let (Some((system, timeline, database)), Some(now)) = (parts(history), parts(present)) else {
        return false;
    };
    (system, timeline + 1, database) == now
}

fn path() -> PathBuf {
    data_directory::path().join("leaf").join("history")
}

fn read() -> Option<History> {
    let content = file::read_small(&path(), LARGEST).ok()??;
    let history: History = serde_json::from_slice(&content).ok()?;
    Some(History {
        is_stored: true,
        ..history
    })
}

fn store(history: &History) -> io::Result<()> {
    let path = path();
    if let Some(directory) = path.parent() {
        fs::create_dir_all(directory)?;
    }
    file::write_durably(&path, &serde_json::to_vec(history)?)
}
