//! The trigger of `leaf.worker`.

use leaf_core::snowflake::Scheme;
use pgrx::{PgSqlErrorCode as Code, pg_sys};

use crate::api::args;
use crate::catalog::intent;
use crate::catalog::worker_row::{self, WorkerRow};
use crate::error::Report;
use crate::history;
use crate::lease::error::{self, at};
use crate::pg::call::{Call, sql_functions};
use crate::pg::trigger::{self, Answer, Event};
use crate::pg::{clock, heap, role};

sql_functions!(leaf_worker_check);

/// Called before a change of `leaf.worker`: the time up to which a worker id was used must
/// not be lost while the worker id may be in use.
fn leaf_worker_check(call: Call<'_>) -> Answer<'_> {
    let Some((table, event)) = trigger::event(call) else {
        super::not_a_trigger("leaf_worker_check", "leaf.worker").raise();
    };
    match event {
        Event::Insert { new } => {
            let new = WorkerRow(new);
            check_scheme(&new, worker_row::scheme_in(table));
            check_history(&new, table);
            Answer::go_on_with(new.0)
        }
        Event::Update { old, new } => {
            let new = check_update(&WorkerRow(old), WorkerRow(new));
            Answer::go_on_with(new.0)
        }
        Event::Delete { old } => {
            let old = WorkerRow(old);
            match old.ceiling() > clock::now() {
                // Without a row to return, the old one is kept.
                true if trigger::is_replica() => Answer::NOTHING,
                true => in_use(&old),
                false => Answer::go_on_with(old.0),
            }
        }
        // When: `TRUNCATE leaf.worker`
        Event::Truncate => Report::new(
            Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            "cannot truncate leaf.worker",
            "Delete the rows of nodes that are gone.",
        )
        .detail("Truncating it would lose the record of the worker ids in use.")
        .raise(),
    }
}

/// A role that may only add rows, as to restore a dump, adds records of what was used elsewhere:
/// it makes no lease of this database.
fn check_history(row: &WorkerRow, table: pg_sys::Oid) {
    if !heap::may_update(role::current(), table)
        && row.history() == history::of_database().as_bytes()
    {
        // When: an `INSERT` into `leaf.worker` by a role without further privileges
        args::raise_bad(
            format!(
                "worker id {} is not leased by this database",
                row.worker_id()
            ),
            "Lease it with leaf_worker_register.",
        );
    }
}

/// All rows have one layout and epoch.
fn check_scheme(row: &WorkerRow<'_>, registered: Option<Scheme>) {
    let Some(wanted) = row.scheme() else {
        // When: a row of `leaf.worker` written by hand
        args::raise_bad(
            "unknown layout",
            "Use one of the layouts that leaf.snowflake_layout accepts.",
        );
    };
    if let Some(registered) = registered
        && registered != wanted
    {
        error::other_scheme(registered, wanted).raise();
    }
}

/// The row as it may be stored. In a session that is a replica, a lower ceiling is not an
/// error, because a lease may have ended early where the change was made; the old
/// ceiling is then kept.
fn check_update<'r>(old: &WorkerRow<'_>, new: WorkerRow<'r>) -> WorkerRow<'r> {
    check_scheme(&new, old.scheme());
    if new.worker_id() != old.worker_id() {
        // When: an update of `leaf.worker`
        args::raise_bad(
            format!(
                "worker id {} cannot be changed to {}",
                old.worker_id(),
                new.worker_id()
            ),
            "Register the node again with leaf_worker_register.",
        );
    }
    // A release lowers the ceiling as far as that.
    if new.start_at().is_some_and(|at| at < old.ceiling())
        && new.start_at() != old.start_at()
        && !trigger::is_replica()
    {
        // When: an update of `leaf.worker`
        args::raise_bad(
            format!(
                "start_at of worker id {} cannot be moved below its ceiling",
                old.worker_id()
            ),
            "Ids up to the ceiling may have been issued; the next lease starts there.",
        );
    }
    if new.ceiling() >= old.ceiling() || intent::releases(old.worker_id().into()) {
        return new;
    }
    if !trigger::is_replica() {
        // When: an update of `leaf.worker`
        args::raise_bad(
            format!(
                "the ceiling of worker id {} cannot be lowered",
                old.worker_id()
            ),
            "Ids up to the ceiling may have been issued; the next lease starts there.",
        );
    }
    new.with_ceiling(old.ceiling())
}

fn in_use(old: &WorkerRow<'_>) -> ! {
    // When: `DELETE FROM leaf.worker` before the ceiling has passed
    Report::new(
        Code::ERRCODE_OBJECT_IN_USE,
        format!("worker id {} is in use", old.worker_id()),
        "Release the lease with leaf_worker_release, or try again after that time.",
    )
    .detail(format!(
        "Node \"{}\" may issue ids with it until {}.",
        old.node(),
        at(old.ceiling())
    ))
    .raise()
}
