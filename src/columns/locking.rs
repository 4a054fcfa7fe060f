//! Locking a table and its sequences while sessions insert.
//!
//! A session that holds a lock on a sequence may wait for the table, or the other way round.
//! Each attempt therefore gives up sooner than PostgreSQL looks for a deadlock, and releases
//! what it has locked: no session becomes the victim, and none waits longer than that.
//! A deadlock over what the transaction had locked before would last: it is an error.

use std::time::{Duration, Instant};

use pgrx::pg_sys::Oid;

use super::error::Error;
use super::look;
use crate::catalog::columns::{self, Column};
use crate::catalog::sequences::Sequence;
use crate::error::Problem;
use crate::pg::wait_event::WaitEvent;
use crate::pg::{guc, latch, process, relation_lock, sub_xact};

/// How long one attempt may wait for a lock.
const LONGEST: Duration = Duration::from_millis(500);

/// How long sessions that wait for the table get to go on before the next attempt.
const PAUSE: Duration = Duration::from_millis(20);

/// Runs `work`, which locks relations, until it gets its locks; an error if it does not get
/// them within `lock_timeout`.
/// `relations` are those that it locks.
pub fn retrying<R>(table: &str, relations: &[Oid], work: impl Fn() -> R) -> R {
    let began = Instant::now();
    let limit = guc::lock_timeout();
    let slice = (guc::deadlock_timeout() / 3).clamp(Duration::from_millis(1), LONGEST);
    loop {
        let left = limit.map(|limit| limit.saturating_sub(began.elapsed()));
        let slice = left.map_or(slice, |left| left.min(slice));
        let timeout = guc::milliseconds(slice.max(Duration::from_millis(1)));
        let settings = [(c"lock_timeout", timeout.as_c_str())];
        let done = sub_xact::unless_blocked(|| guc::with(&settings, &work));
        if let Some(result) = done {
            return result;
        }
        if limit.is_some_and(|limit| began.elapsed() >= limit) {
            let table = table.to_owned();
            Error::Locked { table }.raise();
        }
        // What this attempt had locked is free again, so that others wait only for what the
        // transaction had locked before.
        if columns::is_awaited_by_holder(relations) {
            let table = table.to_owned();
            Error::Deadlock { table }.raise();
        }
        latch::wait(PAUSE, WaitEvent::Column);
        process::check_for_interrupts();
    }
}

/// Locks a table, those below it, and the column's sequences exclusively. Returns the column and
/// its sequences as they are then: whatever was looked up before a lock was waited for, a name
/// above all, may mean something else by now.
pub fn lock_column(table: Oid, attribute: &[u8]) -> (Column, Vec<Sequence>) {
    let mut locked = Vec::new();
    loop {
        let column = look::at(table, attribute);
        let sequences = look::sequences_of(&column);
        let mut wanted = relations(&column, &sequences);
        wanted.retain(|relation| !locked.contains(relation));
        if wanted.is_empty() {
            return (column, sequences);
        }
        for relation in wanted {
            relation_lock::exclusively(relation);
            locked.push(relation);
        }
    }
}

/// What is locked for a column, in this order.
pub fn relations(column: &Column, sequences: &[Sequence]) -> Vec<Oid> {
    let sequences = sequences.iter().map(|sequence| sequence.oid);
    column.tables().into_iter().chain(sequences).collect()
}
