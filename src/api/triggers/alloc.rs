//! The triggers of `leaf.alloc`.

use std::cmp::Ordering;

use pgrx::PgSqlErrorCode as Code;

use crate::catalog::alloc_row::AllocRow;
use crate::catalog::{extension, intent, relation};
use crate::error::Report;
use crate::history;
use crate::pg::call::{Call, sql_functions};
use crate::pg::trigger::{self, Answer, Event};
use crate::pg::{self, display, inval, role};
use crate::session::changes::{self, Change};
use crate::session::error::{self, Privilege};
use crate::session::in_use::require_unused;

sql_functions!(leaf_alloc_check, leaf_alloc_changed);

/// Called before a row is written: records by whom and when, rejects a lower `max_id` and
/// another stripe, and records in which history a new row was made. In a session that is a
/// replica, a lower `max_id` is not an error, because the change was valid where it was made;
/// the rest of the row is then stored. Rows of other nodes' stripes are skipped there.
fn leaf_alloc_check(call: Call<'_>) -> Answer<'_> {
    let (row, is_signed) = match event(call, "leaf_alloc_check") {
        Event::Insert { new } => {
            let new = AllocRow(new);
            if new.is_striped() && relation::is_replayed() {
                skipped(&new);
                return Answer::NOTHING;
            }
            (made(new), true)
        }
        Event::Update { old, new } => {
            let old = AllocRow(old);
            let Some(new) = with_own_stripe(&old, AllocRow(new)) else {
                return Answer::NOTHING;
            };
            let new = match trigger::is_replica() && (old.is_of_centre() || new.is_of_centre()) {
                // Another cluster's grants say nothing about this one's.
                true => new.with_grants_of(&old),
                false => check(&old, new),
            };
            let is_signed = !old.is_unsigned() || says_what_it_is(&new);
            (signed(&old, new), is_signed)
        }
        Event::Delete { old } => {
            let old = AllocRow(old);
            if old.is_striped() && relation::is_replayed() {
                return Answer::NOTHING;
            }
            if !trigger::is_replica() && !intent::is_own_statement() {
                require_unused(old.tag());
            }
            return Answer::go_on_with(old.0);
        }
        Event::Truncate => not_a_trigger("leaf_alloc_check"),
    };
    Answer::go_on_with(row.touched(is_signed).0)
}

/// Whether the statement says that a row is the right one that was written while the triggers were
/// disabled. A position says so of a tag that has all numbers.
fn says_what_it_is(new: &AllocRow<'_>) -> bool {
    let has_all_numbers = !new.is_striped() && !new.is_of_centre();
    intent::signs()
        || intent::vouches() && has_all_numbers
        || intent::grant(new.tag(), new.max_id()).is_some()
}

/// A stripe belongs to one node: the row of another one must not become this node's.
fn skipped(new: &AllocRow<'_>) {
    pg::log(&format!(
        "did not store the row of tag \"{}\", whose stripe belongs to another node; create the tag with leaf_tag_create",
        display(new.tag())
    ));
}

/// The row to be stored, whose stripe is the one that the tag has; `None` if it is the row of
/// another node, which is skipped. A row that is replicated from an original, not from
/// another node, has its incarnation and its stripe.
fn with_own_stripe<'r>(old: &AllocRow<'_>, new: AllocRow<'r>) -> Option<AllocRow<'r>> {
    let is_same = old.own_numbers() == new.own_numbers();
    if relation::is_replayed() && (old.is_striped() || new.is_striped()) {
        let is_copied = old.same_incarnation(&new) && is_same;
        return is_copied.then_some(new);
    }
    if !is_same {
        // When: an update of the columns of the stripe
        Report::not_ready(
            format!(
                "the stripe of tag \"{}\" cannot be changed",
                display(old.tag())
            ),
            "To get another one, drop the tag and create it above all ids in use.",
        )
        .raise();
    }
    Some(new)
}

/// A new row as it is stored. For tags that are attached, the role needs the privilege to attach tags.
fn made(new: AllocRow<'_>) -> AllocRow<'_> {
    let user = role::current();
    if new.is_of_centre() && !extension::may_call(user, "leaf_tag_attach") {
        error::denied(new.tag(), user, Privilege::Attach).raise()
    }
    new.made(&history::current(), &history::of_database())
}

/// The row to be stored: moved backwards only by what takes ids back, and forwards, without a
/// grant, only if its ids are its own.
fn check<'r>(old: &AllocRow<'_>, new: AllocRow<'r>) -> AllocRow<'r> {
    if !old.same_upstream(&new) && !intent::attaches(new.tag()) {
        // When: an update of `upstream_tag`
        Report::not_ready(
            format!(
                "cannot change where the ids of tag \"{}\" come from",
                display(old.tag())
            ),
            "Use leaf_tag_attach. To make a fed tag local again, drop it and create another one.",
        )
        .raise();
    }
    let granted_up_to = new.max_id().saturating_sub(1);
    if new.max_value() < old.max_value()
        && new.max_value() < granted_up_to
        && !trigger::is_replica()
    {
        // When: `leaf_tag_alter`, or an update of `max_value`
        Report::new(
            Code::ERRCODE_INVALID_PARAMETER_VALUE,
            format!(
                "max_value {} is less than what tag \"{}\" has granted",
                new.max_value(),
                display(old.tag())
            ),
            format!("To grant no more ids, use {granted_up_to}."),
        )
        .detail(format!("Numbers up to {granted_up_to} have been granted."))
        .raise();
    }
    let grant = intent::grant(new.tag(), new.max_id());
    match (new.max_id().cmp(&old.max_id()), grant) {
        (Ordering::Equal, _) | (Ordering::Greater, Some(_)) => new,
        (Ordering::Less, Some(grant)) if grant.takes_back => new,
        // When: `advance_to`, or an update of `max_id`, for a fed tag
        _ if new.is_of_centre() => Report::not_ready(
            format!("cannot move fed tag \"{}\"", display(old.tag())),
            "Move the centre's tag with leaf_tag_alter there.",
        )
        .detail("Its ids are granted by the centre.")
        .raise(),
        (Ordering::Greater, None) => new.moved(),
        (Ordering::Less, _) if trigger::is_replica() => new.with_max_id(old.max_id()),
        (Ordering::Less, _) => backwards(old),
    }
}

/// The row to be stored, with what is known of where it comes from: a grant says it anew, and
/// those who vouch for a row that was written behind the triggers do not say that it lacks no
/// grants.
fn signed<'r>(old: &AllocRow<'_>, new: AllocRow<'r>) -> AllocRow<'r> {
    match intent::grant(new.tag(), new.max_id()) {
        Some(_) if old.is_unsigned() => new.unvouched(),
        Some(_) => new,
        None if intent::vouches() => new.with_copy_of(old),
        None => new.with_signs_of(old, relation::is_replayed()),
    }
}

fn backwards(old: &AllocRow<'_>) -> ! {
    // When: `advance_to`, or an update of `max_id`, below what was granted, for buffers in memory
    // as well
    Report::new(
        Code::ERRCODE_INVALID_PARAMETER_VALUE,
        format!("tag \"{}\" cannot move backwards", display(old.tag())),
        format!(
            "Choose {} or more, or drop the tag and create it again.",
            old.max_id().saturating_sub(1).saturating_add(1)
        ),
    )
    .detail(format!(
        "Numbers up to {} have been granted.",
        old.max_id().saturating_sub(1)
    ))
    .raise()
}

/// Called after a change: records what has to be applied to shared memory at the commit.
fn leaf_alloc_changed(call: Call<'_>) -> Answer<'_> {
    match event(call, "leaf_alloc_changed") {
        Event::Insert { new } => changes::record_created(AllocRow(new).tag()),
        Event::Delete { old } => changes::record_dropped(AllocRow(old).tag()),
        Event::Truncate => changes::record_truncated(),
        Event::Update { old, new } => note_update(&AllocRow(old), &AllocRow(new)),
    }
    Answer::NOTHING
}

fn note_update(old: &AllocRow<'_>, new: &AllocRow<'_>) {
    let is_grant = intent::grant(new.tag(), new.max_id()).is_some();
    if new.max_id() < old.max_id() && !is_grant {
        // Another trigger, which fired after ours, has changed the row.
        backwards(old);
    }
    if old.tag() != new.tag() {
        // When: an `UPDATE` of `leaf.alloc` that gives another `biz_tag`
        Report::new(
            Code::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("tag \"{}\" cannot get another name", display(old.tag())),
            "Create a tag with the new name and a start above all ids of this one, let the defaults of columns draw from it, and drop this one.",
        )
        .raise();
    }
    if !old.same_incarnation(new) {
        // Another tag, in a row that is still the one that others see.
        changes::record(new.tag(), Change::Identity);
    } else if (old.max_id() != new.max_id() && !is_grant) || new.max_value() < old.max_value() {
        changes::record(new.tag(), Change::Position);
    } else if !old.same_permissions(new)
        || !old.same_cache(new)
        || old.max_value() != new.max_value()
        // The loader asks the centre by what it knows of the row.
        || (new.is_of_centre() && !old.same_steps(new))
        // What was refused may be right now.
        || (old.is_unsigned() && !is_grant)
    {
        changes::record(new.tag(), Change::Permissions);
    } else if !is_grant {
        changes::record(new.tag(), Change::Other);
    }
}

/// The event that fired the trigger, which must be a trigger of `leaf.alloc`.
fn event<'call>(call: Call<'call>, function: &'static str) -> Event<'call> {
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
    super::not_a_trigger(function, table).raise()
}
