//! Locking a table, those below it, and the sequences of a column, while sessions insert.
//!
//! A session may have locked a sequence and want the table, or the other way round. So an attempt
//! waits for one relation only, while it holds no other, and takes the rest only if it is free;
//! if something is not, all is released, and that is what the next attempt waits for. No session
//! becomes the victim of a deadlock, and nothing of the users' is locked while leaf waits.
//!
//! Sessions queue behind a request for a lock. It is therefore limited, and between two requests,
//! ten times as long passes; meanwhile the lock is tried without a queue. The same pause follows
//! when something was locked in vain.

use std::cell::Cell;
use std::time::{Duration, Instant};

use pgrx::pg_sys::Oid;

use super::error::Error;
use super::look;
use crate::catalog::columns::{self, Column};
use crate::catalog::relation;
use crate::catalog::sequences::Sequence;
use crate::error::Problem;
use crate::pg::relation_lock::{self, Lock};
use crate::pg::wait_event::WaitEvent;
use crate::pg::{guc, latch, process, sub_xact};
use crate::segment::permissions::require_readable;

/// How long a request may hold up those behind it, unless a tenth of the time that the caller
/// allows is longer.
const REQUEST: Duration = Duration::from_secs(2);

/// How many times as long as a request the pause after it is.
const PAUSE: u32 = 10;

/// Between two attempts that do not wait.
const NAP: Duration = Duration::from_millis(20);

/// Runs `work` with the column and its sequences, exclusively locked, as they are then; an error
/// if the locks are not available within `lock_timeout`. Nothing that `work` does waits for a
/// lock: it is repeated. `tag` is the tag whose row it reads or writes, if there is one.
pub fn locked<R>(
    before: &Column,
    tag: Option<&[u8]>,
    work: impl Fn(&Column, &[Sequence]) -> R,
) -> R {
    let began = Instant::now();
    let limit = guc::lock_timeout();
    // Another session would become the victim if it found a deadlock over what the transaction
    // had locked before.
    let held = columns::locks_are_held();
    let longest = match held {
        true => guc::deadlock_timeout() * 9 / 10,
        false => limit.map_or(REQUEST, |limit| (limit / (PAUSE + 1)).max(REQUEST)),
    };
    let catalog = catalog_of(tag);
    let missing = Cell::new(before.table);
    let is_over = || limit.is_some_and(|limit| began.elapsed() >= limit);
    let (mut next_attempt, mut next_request) = (began, began);
    loop {
        let first = missing.get();
        let left = limit.map_or(longest, |limit| limit.saturating_sub(began.elapsed()));
        let wait = (Instant::now() >= next_request).then(|| longest.min(left));
        let requested = Instant::now();
        let attempt = || {
            match wait {
                Some(wait) => request(first, wait),
                None => take(first, &missing, Lock::Exclusive),
            }
            at_once(|| {
                let (column, sequences) = lock_column(before, &missing);
                // From then on, only a row can be missing.
                for &relation in &catalog {
                    take(relation, &missing, Lock::ForWriting);
                }
                work(&column, &sequences)
            })
        };
        if let Some(result) = sub_xact::unless_blocked(attempt) {
            return result;
        }
        let rest = Instant::now() + requested.elapsed() * PAUSE;
        if wait.is_some() {
            next_request = rest;
        }
        if missing.get() != first {
            // What was there was locked in vain.
            next_attempt = rest;
        }
        if held && columns::is_awaited_by_holder(missing.get()) {
            let table = before.table_name.clone();
            Error::Deadlock { table }.raise();
        }
        if is_over() {
            let relation = columns::kind_and_name_of(missing.get());
            Error::Locked { relation }.raise();
        }
        if let Some(tag) = tag
            && catalog.contains(&missing.get())
        {
            // As long as any call waits for it.
            require_readable(tag);
            missing.set(before.table);
        }
        loop {
            latch::wait(NAP, WaitEvent::Column);
            process::check_for_interrupts();
            if Instant::now() >= next_attempt || is_over() {
                break;
            }
        }
    }
}

/// Locks a relation, for which it may wait.
fn request(relation: Oid, wait: Duration) {
    let wait = guc::milliseconds(wait.max(Duration::from_millis(1)));
    let settings = [
        (c"lock_timeout", wait.as_c_str()),
        // Before a session that waits for this one looks for a deadlock.
        (c"deadlock_timeout", c"10ms"),
    ];
    guc::with(&settings, || relation_lock::lock(relation, Lock::Exclusive));
}

/// Locks a relation if nobody else has. An error if somebody has: it is then what is missing.
fn take(relation: Oid, missing: &Cell<Oid>, lock: Lock) {
    missing.set(relation);
    if !relation_lock::lock_at_once(relation, lock) {
        let relation = columns::kind_and_name_of(relation);
        Error::Locked { relation }.raise();
    }
}

/// Runs `work`, in which waiting for any lock is an error.
fn at_once<R>(work: impl FnOnce() -> R) -> R {
    guc::with(&[(c"lock_timeout", c"1ms")], work)
}

/// Locks what is there to be locked. Returns the column and its sequences as they are then:
/// whatever was looked up before a lock was waited for, a name above all, may mean something else
/// by now.
fn lock_column(before: &Column, missing: &Cell<Oid>) -> (Column, Vec<Sequence>) {
    let mut locked = Vec::new();
    loop {
        let column = look::at(before.table, &before.attribute);
        let sequences = look::sequences_of(&column);
        let of_sequences = sequences.iter().map(|sequence| sequence.oid);
        let mut wanted: Vec<_> = column.tables().into_iter().chain(of_sequences).collect();
        wanted.retain(|relation| !locked.contains(relation));
        if wanted.is_empty() {
            return (column, sequences);
        }
        for relation in wanted {
            take(relation, missing, Lock::Exclusive);
            locked.push(relation);
        }
    }
}

/// The relations of leaf that are read and written for a column.
fn catalog_of(tag: Option<&[u8]>) -> Vec<Oid> {
    let relations = match tag {
        Some(_) => [relation::alloc_index(), Some(relation::require_alloc())],
        None => [relation::worker_index(), relation::worker()],
    };
    relations.into_iter().flatten().collect()
}
