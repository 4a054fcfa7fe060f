//! Leasing the database's worker id, and keeping its ceiling ahead.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pgrx::pg_sys;

use crate::catalog;
use crate::pg::{self, timeout, worker as process, xact};
use crate::settings::snowflake as settings;
use crate::shmem::slot::next_pause_us;
use crate::shmem::worker::{Refusal, Registry, State};
use crate::shmem::{Shared, Worker};
use crate::snowflake::Trouble;
use crate::snowflake::lease::{self, Leased};

/// A try that takes longer is cancelled. Below the five seconds that `DROP
/// DATABASE` waits for others.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(3);

/// What the transaction came to.
enum Work {
    Done(Result<Leased, Trouble>),
    /// The registry is not the worker's any more.
    Gone,
    /// The database is wanted.
    Leave,
}

/// The worker that wants a lease, or a higher ceiling, now.
pub fn next(shared: &Shared, database: u32) -> Option<(Registry, &'static Worker)> {
    let now = pg::monotonic_us();
    shared.workers_of(database).into_iter().find(|(_, worker)| {
        worker.requested.load(Ordering::Acquire) && worker.retry_at.load(Ordering::Relaxed) <= now
    })
}

/// When a worker that wants a lease may be tried, if there is one.
pub fn next_try(shared: &Shared, database: u32) -> Option<i64> {
    let workers = shared.workers_of(database);
    let wanting = workers
        .iter()
        .filter(|(_, worker)| worker.requested.load(Ordering::Acquire));
    wanting
        .map(|(_, worker)| worker.retry_at.load(Ordering::Relaxed))
        .min()
}

/// Requests what a session should have requested and has not.
pub fn request_overdue(shared: &Shared, database: u32) {
    for (_, worker) in shared.workers_of(database) {
        let has_failed = worker.retry_at.load(Ordering::Relaxed) != 0;
        if worker.generator.is_leased() && worker.generator.is_due() && !has_failed {
            worker.requested.store(true, Ordering::Release);
        }
    }
}

/// After a change of settings: another worker id may be wanted.
pub fn reconsider(shared: &Shared, database: u32) {
    let Some(wanted) = settings::worker_id() else {
        return;
    };
    for (_, worker) in shared.workers_of(database) {
        let lease = worker.state.shared().lease;
        if lease.is_some_and(|lease| lease.worker != wanted) {
            worker.requested.store(true, Ordering::Release);
        }
    }
}

/// Drops what was requested of the loader; who still waits asks again.
pub fn forget_requests(shared: &Shared, database: u32) {
    for (_, worker) in shared.workers_of(database) {
        worker.requested.store(false, Ordering::Release);
    }
}

/// Leases or renews. `false` when the loader must leave the database.
pub fn run(shared: &Shared, registry: Registry, worker: &'static Worker) -> bool {
    // Cleared before anything is looked at, so that a later request is not lost.
    worker.requested.store(false, Ordering::SeqCst);
    let (current, last_us) = {
        let state = worker.state.shared();
        let current = current(&state);
        (current, current.map_or(i64::MIN, |it| last_us(worker, &it)))
    };
    let mut stays = true;
    let outcome = xact::run(
        || {
            timeout::start(STATEMENT_TIMEOUT);
            let work = work(shared, registry, current, last_us);
            timeout::stop();
            work
        },
        |work, is_reliable| match work {
            Work::Done(Ok(leased)) if is_reliable => settle(shared, registry, worker, &leased),
            // The wait for the standby was cut short: a failover may lose the
            // ceiling, so nobody may issue below it. The loader ends next.
            Work::Done(Ok(_)) => {}
            Work::Done(Err(trouble)) => refused(worker, trouble),
            Work::Gone => shared.retire_worker(registry),
            Work::Leave => stays = false,
        },
    );
    if let Err(failure) = outcome {
        failed(worker, &failure.message);
    }
    stays
}

fn current(state: &State) -> Option<Leased> {
    Some(Leased {
        lease: state.lease?,
        scheme: state.scheme?,
        clock_offset_us: state.clock_offset_us,
    })
}

fn last_us(worker: &Worker, leased: &Leased) -> i64 {
    let tick = worker.generator.last_tick(&leased.scheme.layout);
    leased.scheme.instant_of(tick)
}

fn work(shared: &Shared, registry: Registry, current: Option<Leased>, last_us: i64) -> Work {
    if !process::database_is_free(pg_sys::Oid::from(registry.database)) {
        return Work::Leave;
    }
    let alloc = catalog::alloc().map(|oid| oid.to_u32());
    if alloc != Some(registry.catalog) || catalog::worker::relation().is_none() {
        return Work::Gone;
    }
    Work::Done(catalog::as_owner(|| {
        lease::for_server(shared, current, last_us)
    }))
}

/// Makes a committed lease known. Raises no error.
fn settle(shared: &Shared, registry: Registry, worker: &'static Worker, leased: &Leased) {
    let other_scheme = |worker: &Worker| {
        let scheme = worker.state.shared().scheme;
        scheme.is_some_and(|scheme| scheme != leased.scheme)
    };
    if other_scheme(worker) {
        // Somebody may be drawing with the old layout in mind: this worker is
        // never given another. Whoever waits finds the next one.
        shared.retire_worker(registry);
        match shared.claim_worker(registry) {
            Some(fresh) if !other_scheme(fresh) => settle(shared, registry, fresh, leased),
            _ => {}
        }
        return;
    }
    let mut state = worker.state.exclusive();
    let before = current(&state);
    state.scheme = Some(leased.scheme);
    state.lease = Some(leased.lease);
    state.clock_offset_us = leased.clock_offset_us;
    state.refusal = None;
    state.pause_us = 0;
    state.attempts += 1;
    worker.retry_at.store(0, Ordering::Relaxed);
    lease::install(&worker.generator, before, leased);
    drop(state);
    worker.changed.broadcast();
}

/// Tells who waits why there is no lease.
fn refused(worker: &Worker, trouble: Trouble) {
    let parts = trouble.parts();
    let now = pg::now();
    let mut state = worker.state.exclusive();
    let is_first = state.pause_us == 0;
    state.error.set(now, &parts.1);
    state.refusal = Some(Refusal::of(&parts));
    state.attempts += 1;
    pause(worker, &mut state);
    drop(state);
    worker.changed.broadcast();
    if is_first {
        pg::log(&format!("no worker id for snowflake ids: {}", parts.1));
    }
}

/// Records a failure that another try may mend; who waits asks for it.
fn failed(worker: &Worker, message: &str) {
    let now = pg::now();
    let mut state = worker.state.exclusive();
    let is_first = state.pause_us == 0;
    state.error.set(now, message);
    pause(worker, &mut state);
    drop(state);
    if is_first {
        pg::log(&format!("could not lease a worker id: {message}"));
    }
}

fn pause(worker: &Worker, state: &mut State) {
    state.pause_us = next_pause_us(state.pause_us);
    let until = pg::monotonic_us() + state.pause_us;
    worker.retry_at.store(until, Ordering::Relaxed);
}
