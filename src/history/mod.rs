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
//! A copy that nothing distinguishes from its original is told so with the file
//! `leaf_new_history.signal`.
//!
//! Beside that, the file has how the history began. Whether a promoted standby lacks nothing that
//! its primary had granted cannot be concluded from what it has: `leaf.lossless_failover`
//! says it, and what counts is what it said while the server was a standby. Everything else counts
//! as behind. What its primary had taken over from earlier ones is in the [`chain`].

mod chain;

use std::path::PathBuf;
use std::sync::Mutex;
use std::{fs, io};

use leaf_core::file;
use pgrx::{PgSqlErrorCode as Code, pg_guard, pg_sys};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::error::Report;
use crate::pg::control_file::{self, ControlFile};
use crate::pg::{bgworker, data_directory, database, own_xact, process, replication};
use crate::settings::server as settings;
use chain::Chain;

/// How a history began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Beginning {
    /// As a standby.
    Standby {
        /// Whether it is promoted only if it lacks nothing, as `leaf.lossless_failover` says.
        is_lossless: bool,
        /// Where its WAL ended, if it was a primary itself before it was shut down.
        own_end: Option<u64>,
    },
    /// As a standby that was promoted, and that lacks nothing of the primary of this timeline.
    Continued { up_to: u32 },
    /// With a new cluster, from a backup, or in another way that may lack the last transactions.
    Other,
}

/// Where leaf has left the cluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Left {
    system_identifier: u64,
    timeline: u32,
    checkpoint: u64,
    /// Whether the cluster was shut down then, and had not just been started.
    is_shut_down: bool,
    /// The content of `backup_label`, or of `backup_label.old`, if one existed.
    backup_label: Option<String>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct History {
    nonce: Uuid,
    beginning: Beginning,
    left: Option<Left>,
    /// Whether the cluster's data has it.
    is_recorded: bool,
    /// Whether the postmaster that runs has begun it, or has gone on with it.
    #[serde(skip)]
    is_of_this_start: bool,
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
    let mut present = HISTORY.lock().expect("the lock is not poisoned");
    let known = match present.take() {
        // After a crash, all processes but the postmaster begin anew.
        Some(present) => Some(present.with_file()),
        None => read(),
    };
    let is_again = known.as_ref().is_some_and(|it| it.is_of_this_start);
    let is_requested = !is_again && new_history().exists();
    let begins = is_requested
        || control_file::recovery_is_requested()
        || control_file.is_none_or(ControlFile::is_in_archive_recovery);
    let mut history = match known {
        _ if control_file::is_standby_requested() => {
            let own = control_file.filter(|it| {
                let known = known.as_ref();
                // A history that was not recorded counts in the chain as the one before.
                it.is_cleanly_shut_down()
                    && known.is_some_and(|known| {
                        known.is_recorded && is_where_it_was_left(known, control_file)
                    })
            });
            History::new(Beginning::Standby {
                is_lossless: settings::lossless_failover() && !is_requested,
                own_end: own.map(|it| control_file::end_of_last_checkpoint(it.checkpoint)),
            })
        }
        Some(known) if is_again || !begins && is_where_it_was_left(&known, control_file) => {
            History {
                // It was promoted, and what it had then was never looked at.
                beginning: match known.beginning {
                    Beginning::Standby { .. } => Beginning::Other,
                    other => other,
                },
                ..known
            }
        }
        _ => History::new(Beginning::Other),
    };
    // The control file shows a promotion later.
    let promoted_to = history.left.filter(|_| is_again).map(|it| it.timeline);
    history.left = control_file.map(|it| {
        let left = left(it, false);
        Left {
            timeline: left.timeline.max(promoted_to.unwrap_or_default()),
            ..left
        }
    });
    history.is_of_this_start = true;
    let log = |what, path: PathBuf, error| {
        crate::pg::log(&format!("could not {what} \"{}\": {error}", path.display()));
    };
    match history.store() {
        Err(error) => log("write", path(), error),
        Ok(()) if is_requested => {
            // If it stays, the next start begins another history, too.
            if let Err(error) = file::remove_durably(&new_history()) {
                log("remove", new_history(), error);
            }
        }
        Ok(()) => {}
    }
    *present = Some(history);
}

/// Called in the postmaster, when all other processes have ended after a clean shutdown.
pub fn at_server_stop(control_file: &ControlFile) {
    let mut history = HISTORY.lock().expect("the lock is not poisoned");
    if let Some(present) = history.take().filter(|it| it.is_stored) {
        let history = history.insert(present.with_file());
        history.left = Some(left(control_file, true));
        // If that fails, the next start begins another history.
        let _ = history.store();
    }
}

fn left(control_file: &ControlFile, is_shut_down: bool) -> Left {
    // At the first start of a backup, PostgreSQL gives the label its later name only after this.
    let labels = ["backup_label", "backup_label.old"].into_iter();
    let mut labels = labels.filter_map(|label| {
        file::read_small(&data_directory::path().join(label), LARGEST)
            .ok()
            .flatten()
    });
    let backup_label = labels.next();
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
            is_recorded: false,
            is_of_this_start: false,
            is_stored: false,
        }
    }

    /// The same, with what another process may have found out since: what it had as a standby.
    fn with_file(self) -> Self {
        match read().filter(|known| known.nonce == self.nonce) {
            Some(known) => History {
                is_of_this_start: self.is_of_this_start,
                ..known
            },
            None => self,
        }
    }

    /// The timeline of the primary of which it lacks nothing, if there was one.
    fn up_to(&self) -> Option<u32> {
        match self.beginning {
            Beginning::Continued { up_to } => Some(up_to),
            Beginning::Standby { .. } | Beginning::Other => None,
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

/// The history of this server. Not in recovery: what a standby has is found out after its promotion.
fn with<R>(look: impl FnOnce(&mut History) -> R) -> R {
    let mut history = HISTORY.lock().expect("the lock is not poisoned");
    // Not set only if the server does not preload leaf.
    let history =
        history.get_or_insert_with(|| read().unwrap_or_else(|| History::new(Beginning::Other)));
    if let Beginning::Standby {
        is_lossless,
        own_end,
    } = history.beginning
        && !process::in_recovery()
    {
        history.beginning = match replication::streamed_to_its_end(own_end) {
            Some(up_to) if is_lossless => Beginning::Continued { up_to },
            _ => Beginning::Other,
        };
        // The control file shows that of the promotion only later.
        if let Some(left) = &mut history.left {
            left.timeline = timeline();
        }
    }
    if !history.is_stored {
        let _ = history.store();
    }
    look(history)
}

fn timeline() -> u32 {
    // SAFETY: reads shared state; the recovery has ended.
    unsafe { pg_sys::GetWALInsertionTimeLine() }
}

/// The current history, as rows store it. Must not be called in recovery. An error if it is not
/// stored.
pub fn current() -> String {
    // SAFETY: reads shared state.
    let (system, timeline) = (unsafe { pg_sys::GetSystemIdentifier() }, timeline());
    let nonce = with(|history| history.is_stored.then_some(history.nonce));
    let Some(nonce) = nonce else {
        let path = path().display().to_string();
        // When: the server was restored, promoted or copied, and cannot store in which history it
        // is
        Report::new(
            Code::ERRCODE_IO_ERROR,
            format!("nothing is granted, because \"{path}\" cannot be written"),
            "Make its folder and the file writable for the server.",
        )
        .detail("The next start would take what is granted now for something that an earlier copy has granted.")
        .raise()
    };
    format!("{system}/{timeline}/{nonce}")
}

/// Called while libraries are preloaded. What a standby has when it is promoted is looked at then,
/// not with the first grant: it may be restarted before.
pub fn init() {
    if !process::is_binary_upgrade() {
        bgworker::run_after_recovery("leaf history", "leaf_history_main");
    }
}

/// The main function of a background worker that runs once, when the server is no standby any more:
/// it stores how the history began, and records it in the cluster.
///
/// # Safety
/// Called by the postmaster's child.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn leaf_history_main(_argument: pg_sys::Datum) {
    let store = |is_recorded| {
        with(|history| {
            history.is_recorded |= is_recorded;
            let _ = history.store();
            history.clone()
        })
    };
    let history = store(false);
    if !history.is_recorded {
        bgworker::connect_to_template1();
        // Nobody has to wait for a standby: without the record, the standby takes over less.
        own_xact::run_locally(|| Chain::read().record(history.nonce, timeline(), history.up_to()));
        store(true);
    }
}

/// The nonce of the history of this start, if it is stored. For the postmaster.
pub fn nonce() -> Option<Uuid> {
    let history = HISTORY.lock().expect("the lock is not poisoned");
    let history = history.as_ref()?;
    history.is_stored.then_some(history.nonce)
}

/// The history of this database. No other database has the same, and no copy that has begun its own
/// history.
pub fn of_database() -> String {
    format!("{}/{}", current(), database::current())
}

/// Whether an earlier history of this database goes on in the current one, which lacks nothing of
/// it.
pub fn is_continued(earlier: &str) -> bool {
    let mut parts = earlier.split('/');
    // SAFETY: reads shared state.
    let system = unsafe { pg_sys::GetSystemIdentifier() }.to_string();
    let is_of_system = parts.next() == Some(&system);
    let nonce = parts.nth(1).and_then(|part| Uuid::parse_str(part).ok());
    let is_of_database = parts.next() == Some(&database::current().to_string());
    let Some(nonce) = nonce.filter(|_| is_of_system && is_of_database) else {
        return false;
    };
    let (present, up_to) = with(|history| (history.nonce, history.up_to()));
    Chain::read().continues(nonce, present, up_to)
}

fn new_history() -> PathBuf {
    data_directory::file(data_directory::NEW_HISTORY)
}

fn path() -> PathBuf {
    data_directory::file(data_directory::HISTORY)
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
