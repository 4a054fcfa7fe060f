//! The triggers of `leaf.alloc`: plain SQL on the table means what the
//! functions mean.

use crate::catalog::{self, AllocRow};
use crate::error::Error;
use crate::pg::call::{Call, Datum, v1_function};
use crate::pg::inval;
use crate::pg::trigger::{self, Event};
use crate::transaction::{self, Change};

v1_function! {
    /// Before an update: refuses to move a tag backwards, and keeps `update_time`
    /// current. A replica takes the rest of the row, for its origin was not wrong.
    ///
    /// # Safety
    /// Called by PostgreSQL.
    fn leaf_alloc_check(call) {
        let Event::Update { old, new } = event(call, "leaf_alloc_check") else {
            not_a_trigger("leaf_alloc_check");
        };
        let new = check(&AllocRow(old), AllocRow(new));
        Datum::from(new.touched().0.tuple())
    }
}

fn check(old: &AllocRow, new: AllocRow) -> AllocRow {
    // What a transaction granted to itself and did not use goes back, and so
    // does the end of a block.
    let gives_back = transaction::is_granting() && transaction::has_created(old.tag());
    if new.max_id() >= old.max_id() || gives_back || transaction::is_returning() {
        return new;
    }
    if trigger::is_replica() {
        let max_id = old.max_id();
        return new.with_max_id(max_id);
    }
    backwards(old)
}

fn backwards(old: &AllocRow) -> ! {
    Error::Backwards {
        tag: catalog::display(old.tag()),
        granted_up_to: old.max_id().saturating_sub(1),
    }
    .raise()
}

v1_function! {
    /// After a change: notes what shared memory must learn at the commit.
    ///
    /// # Safety
    /// Called by PostgreSQL.
    fn leaf_alloc_changed(call) {
        if !transaction::is_granting() {
            note(event(call, "leaf_alloc_changed"));
        }
        // What an AFTER trigger returns is ignored.
        Datum::from(0)
    }
}

fn note(event: Event) {
    match event {
        Event::Insert { new } => transaction::record_created(&AllocRow(new)),
        Event::Delete { old } => transaction::record_dropped(AllocRow(old).tag()),
        Event::Truncate => transaction::record_truncated(),
        Event::Update { old, new } => note_update(&AllocRow(old), &AllocRow(new)),
    }
}

fn note_update(old: &AllocRow, new: &AllocRow) {
    if new.max_id() < old.max_id() {
        // Somebody else's trigger has come behind ours.
        backwards(old);
    }
    if old.tag() != new.tag() || !old.same_incarnation(new) {
        transaction::record_dropped(old.tag());
        transaction::record_created(new);
    } else if old.max_id() != new.max_id() || new.max_value() < old.max_value() {
        transaction::record(new.tag(), Change::Position);
    } else if !old.same_permissions(new) || old.max_value() != new.max_value() {
        transaction::record(new.tag(), Change::Permissions);
    }
}

/// What fired the trigger, which must sit on `leaf.alloc`.
///
/// # Safety
/// The function has been called as a trigger, and has not returned.
unsafe fn event(call: Call, function: &'static str) -> Event {
    // SAFETY: the caller's promise.
    match unsafe { trigger::event(call) } {
        Some((relation, event)) if Some(relation) == catalog::alloc() => {
            inval::watch(relation);
            event
        }
        _ => not_a_trigger(function),
    }
}

fn not_a_trigger(function: &'static str) -> ! {
    let table = "leaf.alloc";
    Error::NotATrigger { function, table }.raise()
}
