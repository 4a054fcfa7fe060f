//! leaf's triggers, which have to fire always: also in apply workers and restores, which
//! run with `session_replication_role = replica`.

use std::ffi::CStr;

use pgrx::pg_sys;

use super::relation;
use super::statement::execute;
use crate::pg::trigger::{self, Fires};
use crate::pg::{self, heap};

/// The triggers of `leaf.alloc`.
pub const ALLOC: [&CStr; 3] = [c"leaf_check", c"leaf_changed", c"leaf_truncated"];

/// The triggers of `leaf.worker`.
const WORKER: [&CStr; 2] = [c"leaf_check", c"leaf_truncated"];

/// Makes leaf's triggers fire always, if they do not: `pg_restore --disable-triggers`, for
/// example, leaves them as ordinary ones. If another transaction uses the table, this is
/// left to the next call. Acts as the owner of the tables.
pub fn keep_always() {
    if let Some(alloc) = relation::alloc() {
        keep_of("leaf.alloc", alloc, &ALLOC);
    }
    if let Some(worker) = relation::worker() {
        keep_of("leaf.worker", worker, &WORKER);
    }
}

fn keep_of(table: &str, relation: pg_sys::Oid, names: &[&CStr]) {
    // A locked leaf.worker must not delay grants of leaf.alloc.
    if !heap::lock_for_reading_at_once(relation) {
        return;
    }
    let found = trigger::of(relation);
    let is_lax = |trigger: &&trigger::Trigger| {
        trigger.fires != Fires::Always && names.contains(&trigger.name.as_c_str())
    };
    let lax: Vec<_> = found
        .iter()
        .filter(is_lax)
        .map(|trigger| {
            format!(
                "ENABLE ALWAYS TRIGGER {}",
                pg::display(trigger.name.to_bytes())
            )
        })
        .collect();
    if lax.is_empty() || !heap::lock_for_triggers(relation) {
        return;
    }
    execute(&format!("ALTER TABLE {table} {}", lax.join(", ")), &[]);
    pg::log(&format!(
        "triggers of {table} did not fire always, as after a restore with --disable-triggers; enabled them again"
    ));
}
