//! The loader: a background worker per database that grants segments and leases
//! the worker id of snowflake ids.
//!
//! Its life: it is started by the first session that has to wait or crosses a
//! prefetch threshold ([`call_loader`](crate::shmem::Shared::call_loader)),
//! enters itself in shared memory (a second one for the same database leaves at
//! once), loads what is requested, and goes when nothing has been requested for
//! `leaf.loader_idle_timeout`. It is never restarted by the postmaster; whoever
//! needs one starts one.
//!
//! It must never be in the way. Every transaction it runs is short, cancelled
//! by timeouts of its own, and begins by looking whether somebody wants the
//! database for himself (`DROP DATABASE` and its like lock it and then wait for
//! others to go); between transactions it looks at least once a second. A
//! termination ends every wait.
//!
//! [`jobs`] collects which segments are to be granted, [`refill`] grants them;
//! [`lease`] keeps the database's worker id and its ceiling.

mod jobs;
mod lease;
mod refill;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pgrx::{pg_guard, pg_sys};

use crate::pg::{self, latch, worker, xact};
use crate::settings;
use crate::shmem::{self, Shared};

/// How long a loader sleeps at most: it looks for requests that got lost
/// and for somebody who wants the database.
const NAP: Duration = Duration::from_secs(1);

/// Whether this loader has given up its place before it ended.
static HAS_LEFT: AtomicBool = AtomicBool::new(false);

/// The main function of the background worker.
///
/// # Safety
/// Called by the postmaster's child with the database's oid as argument.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn leaf_loader_main(argument: pg_sys::Datum) {
    let Some(shared) = shmem::shared() else {
        return;
    };
    let database = argument.value() as u32;
    if !shared.enter_as_loader(database) {
        return;
    }
    worker::before_exit(at_exit, database);
    worker::connect(pg_sys::Oid::from(database));
    prepare_session();
    work(shared, database);
}

/// Whatever database, role and configuration file say, this is what a grant
/// needs.
fn prepare_session() {
    for (name, value) in [
        (c"default_transaction_isolation", c"read committed"),
        (c"default_transaction_read_only", c"off"),
        (c"default_transaction_deferrable", c"off"),
        (c"session_replication_role", c"origin"),
        (c"search_path", c"pg_catalog, pg_temp"),
        (c"lock_timeout", c"500ms"),
        (c"idle_in_transaction_session_timeout", c"0"),
        #[cfg(not(any(feature = "pg15", feature = "pg16")))]
        (c"transaction_timeout", c"0"),
        (c"row_security", c"off"),
        (c"jit", c"off"),
        // The rows are found by their key however many there are.
        (c"enable_seqscan", c"off"),
        (c"enable_hashjoin", c"off"),
        (c"enable_mergejoin", c"off"),
    ] {
        worker::set(name, value);
    }
}

fn work(shared: &Shared, database: u32) {
    let mut last_work = Instant::now();
    let mut last_poll = Instant::now();
    loop {
        pg::check_for_interrupts();
        if worker::reload_if_asked() {
            lease::reconsider(shared, database);
        }
        worker::insist_on_durable_commits();
        worker::report_statistics();
        if last_poll.elapsed() >= NAP {
            last_poll = Instant::now();
            shared.request_overdue(database);
            lease::request_overdue(shared, database);
        }
        if let Some((registry, worker)) = lease::next(shared, database) {
            last_work = Instant::now();
            if !lease::run(shared, registry, worker) {
                return;
            }
        }
        let jobs = jobs::collect(shared, database);
        if !jobs.is_empty() {
            last_work = Instant::now();
            if !refill::run(shared, database, jobs) {
                return;
            }
            continue;
        }
        if !database_is_free(database) {
            return;
        }
        let idle = last_work.elapsed() >= settings::loader_idle_timeout();
        if idle && shared.leave_as_loader(database, || has_requests(shared, database)) {
            HAS_LEFT.store(true, Ordering::Relaxed);
            return;
        }
        latch::wait(next_try(shared, database).unwrap_or(NAP).min(NAP));
    }
}

/// Whether anything waits for the loader of the database.
fn has_requests(shared: &Shared, database: u32) -> bool {
    shared.has_requests(database) || lease::next_try(shared, database).is_some()
}

/// How long until something that was requested may be tried.
fn next_try(shared: &Shared, database: u32) -> Option<Duration> {
    let tries = [shared.next_try(database), lease::next_try(shared, database)];
    let at = tries.into_iter().flatten().min()?;
    let wait = at.saturating_sub(pg::monotonic_us()).max(0);
    Some(Duration::from_micros(wait as u64))
}

fn database_is_free(database: u32) -> bool {
    let mut free = false;
    let outcome = xact::run(
        || worker::database_is_free(pg_sys::Oid::from(database)),
        |answer, _| free = answer,
    );
    outcome.is_ok() && free
}

/// Whatever ends the loader: the next one may come, and requests it took are
/// there for that one.
#[pg_guard]
unsafe extern "C-unwind" fn at_exit(_code: i32, argument: pg_sys::Datum) {
    let Some(shared) = shmem::shared() else {
        return;
    };
    if HAS_LEFT.load(Ordering::Relaxed) {
        // There may be a successor by now, whose business it all is.
        return;
    }
    let database = argument.value() as u32;
    shared.put_back_all(database);
    shared.forget_requests(database);
    lease::forget_requests(shared, database);
    shared.leave_as_loader(database, || false);
}
