//! The triggers of `leaf.alloc`.

use crate::catalog::alloc::AllocRow;
use crate::catalog::relation;
use crate::error::{Error as CommonError, Problem};
use crate::pg::call::{Call, sql_functions};
use crate::pg::trigger::{self, Answer, Event};
use crate::pg::{display, inval};
use crate::segment::changes::{self, Change, RowState};
use crate::segment::error::Error;
use crate::segment::granting::{is_granting, is_returning};

sql_functions!(leaf_alloc_check, leaf_alloc_changed);

/// Called before an update: rejects a lower `max_id`, and sets `update_time`. In a
/// session that is a replica, a lower `max_id` is not an error, because the change was
/// valid where it was made; the rest of the row is then stored.
fn leaf_alloc_check(call: Call<'_>) -> Answer {
    match event(call, "leaf_alloc_check") {
        Event::Update { old, new } => {
            let new = check(&AllocRow(old), AllocRow(new));
            Answer::go_on_with(new.touched().0)
        }
        Event::Insert { .. } | Event::Delete { .. } | Event::Truncate => {
            not_a_trigger("leaf_alloc_check")
        }
    }
}

fn check(old: &AllocRow, new: AllocRow) -> AllocRow {
    // What a transaction granted to itself and did not use is given back, and so is the
    // end of a block.
    let gives_back = || is_granting() && changes::state_of(old.tag()) == RowState::Created;
    if new.max_id() >= old.max_id() || is_returning() || gives_back() {
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
        tag: display(old.tag()),
        granted_up_to: old.max_id().saturating_sub(1),
    }
    .raise()
}

/// Called after a change: records what has to be applied to shared memory at the commit.
fn leaf_alloc_changed(call: Call<'_>) -> Answer {
    if !is_granting() {
        note(event(call, "leaf_alloc_changed"));
    }
    Answer::NOTHING
}

fn note(event: Event) {
    match event {
        Event::Insert { new } => changes::record_created(AllocRow(new).tag()),
        Event::Delete { old } => changes::record_dropped(AllocRow(old).tag()),
        Event::Truncate => changes::record_truncated(),
        Event::Update { old, new } => note_update(&AllocRow(old), &AllocRow(new)),
    }
}

fn note_update(old: &AllocRow, new: &AllocRow) {
    if new.max_id() < old.max_id() {
        // Another trigger, which fired after ours, has changed the row.
        backwards(old);
    }
    if old.tag() != new.tag() || !old.same_incarnation(new) {
        changes::record_dropped(old.tag());
        changes::record_created(new.tag());
    } else if old.max_id() != new.max_id() || new.max_value() < old.max_value() {
        changes::record(new.tag(), Change::Position);
    } else if !old.same_permissions(new) || old.max_value() != new.max_value() {
        changes::record(new.tag(), Change::Permissions);
    }
}

/// The event that fired the trigger, which must be a trigger of `leaf.alloc`.
fn event(call: Call<'_>, function: &'static str) -> Event {
    match trigger::event(call) {
        Some((table, event)) if Some(table) == relation::alloc() => {
            inval::watch(table);
            event
        }
        _ => not_a_trigger(function),
    }
}

fn not_a_trigger(function: &'static str) -> ! {
    let table = "leaf.alloc";
    CommonError::NotATrigger { function, table }.raise()
}
