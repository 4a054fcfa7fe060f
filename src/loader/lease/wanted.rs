//! The requirements of this database's settings on its lease.
//!
//! Worker id, layout and epoch can be set with `ALTER DATABASE`. New sessions have the new
//! values at once, but the loader, a process that lives for long, has those of its
//! start. So it reads them from the catalog in each transaction in which it leases or
//! renews ([`of_database`]). A session whose own values differ from those that the loader has
//! read last has it read them once more before the session draws
//! (`source::resolve`): the session's values themselves decide
//! nothing, because a pooled session may have earlier ones.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::catalog::database;
use crate::pg::guc;
use crate::settings::snowflake::{self as settings, LeaseSettings};

/// The settings.
const NAMES: [&std::ffi::CStr; 3] = [
    c"leaf.worker_id",
    c"leaf.snowflake_layout",
    c"leaf.snowflake_epoch",
];

/// Their values in the configuration file, as the loader found them when it started.
static OF_FILE: OnceLock<[String; 3]> = OnceLock::new();

/// Which of them were then set for the database.
static WERE_OWN: OnceLock<[bool; 3]> = OnceLock::new();

/// Whether one was set for the database while this loader has lived.
static HAS_OWN: AtomicBool = AtomicBool::new(false);

/// Called in a loader before it connects to its database, whose settings are then applied.
pub fn before_connect() {
    let _ = OF_FILE.set(NAMES.map(guc::text));
}

/// Called in a loader once it is connected.
pub fn after_connect() {
    let Some(of_file) = OF_FILE.get() else {
        return;
    };
    let were_own: [bool; 3] = std::array::from_fn(|at| guc::text(NAMES[at]) != of_file[at]);
    HAS_OWN.store(were_own.contains(&true), Ordering::Relaxed);
    let _ = WERE_OWN.set(were_own);
}

/// The requirements now, according to the catalog and the configuration file. Runs in a
/// transaction of the loader.
pub fn of_database() -> LeaseSettings {
    let own = database::settings();
    let value = |at: usize| {
        let prefix = format!("{}=", NAMES[at].to_string_lossy());
        if let Some(value) = own.iter().find_map(|own| own.strip_prefix(&prefix)) {
            HAS_OWN.store(true, Ordering::Relaxed);
            return value.to_owned();
        }
        match (OF_FILE.get(), WERE_OWN.get()) {
            (Some(of_file), Some(were_own)) if were_own[at] => of_file[at].clone(),
            _ => guc::text(NAMES[at]),
        }
    };
    // -1 stands for any.
    settings::read(value(0).parse().ok(), &value(1), &value(2))
}

/// Called after the configuration was reloaded. Whether this loader cannot know what applies
/// now: where the database has had a value of its own, it does not see that of the file.
pub fn is_outdated() -> bool {
    HAS_OWN.load(Ordering::Relaxed)
}
