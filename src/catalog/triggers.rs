//! leaf's triggers, which have to fire always: also in apply workers and restores, which
//! run with `session_replication_role = replica`.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pgrx::pg_sys;

use super::relation;
use super::statement::execute;
use crate::pg::clock::{self, AtomicMonotonic};
use crate::pg::trigger::{self, Fires};
use crate::pg::{self, heap, own_xact, role};

/// The triggers of `leaf.alloc`.
pub const ALLOC: [&CStr; 3] = [c"leaf_check", c"leaf_changed", c"leaf_truncated"];

/// The triggers of `leaf.worker`.
const WORKER: [&CStr; 2] = [c"leaf_check", c"leaf_truncated"];

/// Whether triggers were found that do not fire always.
static FOUND: AtomicBool = AtomicBool::new(false);

/// Whether the last repair has failed: the next failure is then not logged.
static HAS_FAILED: AtomicBool = AtomicBool::new(false);

/// When the next repair may be tried.
static NEXT: AtomicMonotonic = AtomicMonotonic::new();

/// The pause after a repair that has failed.
const PAUSE: Duration = Duration::from_secs(10);

/// Looks whether leaf's triggers fire always. If not, [`repair`] enables them.
pub fn look() {
    if tables().iter().any(|table| !table.lax().is_empty()) {
        FOUND.store(true, Ordering::Relaxed);
    }
}

/// Makes leaf's triggers fire always, if [`look`] has found that they do not:
/// `pg_restore --disable-triggers`, for example, leaves them as ordinary ones. Runs in a
/// transaction of its own, because it can fail, for example because of an event trigger. If
/// another transaction uses the table, this is left to the next time.
pub fn repair() {
    let now = clock::monotonic();
    if now < NEXT.get() || !FOUND.swap(false, Ordering::Relaxed) {
        return;
    }
    let repair = || {
        for table in tables() {
            table.repair();
        }
        Some(())
    };
    match own_xact::run_briefly(repair, |()| {}) {
        Ok(_) => HAS_FAILED.store(false, Ordering::Relaxed),
        Err(failure) => {
            NEXT.set(now + PAUSE);
            if !HAS_FAILED.swap(true, Ordering::Relaxed) {
                pg::log(&format!(
                    "could not make leaf's triggers fire always: {}",
                    failure.message
                ));
            }
        }
    }
}

/// A table of leaf, and its triggers.
struct Table {
    name: &'static str,
    relation: pg_sys::Oid,
    triggers: &'static [&'static CStr],
}

fn tables() -> Vec<Table> {
    let table = |name, relation: Option<_>, triggers| {
        relation.map(|relation| Table {
            name,
            relation,
            triggers,
        })
    };
    [
        table("leaf.alloc", relation::alloc(), &ALLOC[..]),
        table("leaf.worker", relation::worker(), &WORKER[..]),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Table {
    /// The names of the triggers that do not fire always.
    fn lax(&self) -> Vec<CString> {
        // A locked leaf.worker must not delay grants of leaf.alloc.
        if !heap::lock_for_reading_at_once(self.relation) {
            return Vec::new();
        }
        let is_lax = |trigger: &trigger::Trigger| {
            trigger.fires != Fires::Always && self.triggers.contains(&trigger.name.as_c_str())
        };
        let found = trigger::of(self.relation).into_iter();
        found.filter(is_lax).map(|trigger| trigger.name).collect()
    }

    fn repair(&self) {
        let lax = self.lax();
        let Some(owner) = heap::relation_owner(self.relation) else {
            return;
        };
        if lax.is_empty() || !heap::lock_for_triggers(self.relation) {
            return;
        }
        let enable = |trigger: &CString| {
            format!("ENABLE ALWAYS TRIGGER {}", pg::display(trigger.to_bytes()))
        };
        let enable: Vec<_> = lax.iter().map(enable).collect();
        role::acting_as(owner, || {
            execute(
                &format!("ALTER TABLE {} {}", self.name, enable.join(", ")),
                &[],
            );
        });
        pg::log(&format!(
            "triggers of {} did not fire always, as after a restore with --disable-triggers; enabled them again",
            self.name
        ));
    }
}
