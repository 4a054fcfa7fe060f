//! The loader: a background worker per database that grants segments, and leases the
//! worker id of snowflake ids, for all sessions of the database.
//!
//! It is started by the first session that has to wait or crosses a prefetch threshold
//! ([`call_loader`](shmem::call::call_loader)), enters itself in shared memory (a second loader of the same database ends
//! at once), does what is requested, and ends when nothing has been requested for
//! `leaf.loader_idle_timeout`. The postmaster never restarts it; the next session that
//! needs a loader starts one.
//!
//! It must not block other sessions. Every transaction that it runs is short and is
//! cancelled by the loader's own timeouts. Each begins with a check whether a session is
//! waiting for exclusive access to the database (`DROP DATABASE` and similar commands
//! lock it and then wait for other sessions to leave); between transactions, the loader
//! checks this at least once a second. A termination ends every wait.
//!
//! The work of the loader is defined by the features, each of which gives it a [`Work`]. Its states
//! and what wakes it are in `docs/architecture.md`.

pub mod conversation;
pub mod grant;
pub mod lease;
pub mod work;

use std::ffi::CString;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pgrx::{pg_guard, pg_sys};

use crate::pg::wait_event::WaitEvent;
use crate::pg::{bgworker, clock, guc, latch, own_xact, process};
use crate::settings;
use crate::shmem::{self, Shared};
use work::{Done, Work};

/// How long a loader sleeps at most. It then checks for requests that were lost, and for
/// a session that is waiting for exclusive access to the database.
const NAP: Duration = Duration::from_secs(1);

/// The kinds of work that loaders do.
static WORKS: OnceLock<&'static [&'static dyn Work]> = OnceLock::new();

/// Sets the kinds of work that loaders do. Called while the server preloads leaf.
pub fn init(works: &'static [&'static dyn Work]) {
    let _ = WORKS.set(works);
}

fn works() -> &'static [&'static dyn Work] {
    WORKS.get().copied().unwrap_or_default()
}

/// The database whose loader this process is; 0 before it has become the loader, and after
/// it has left.
static LOADER_OF: AtomicU32 = AtomicU32::new(0);

/// The main function of the background worker.
///
/// # Safety
/// Called by the postmaster's child with the database's OID as argument.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn leaf_loader_main(argument: pg_sys::Datum) {
    let Some(shared) = shmem::get() else {
        return;
    };
    let database = argument.value() as u32;
    let Some(contact) = shared.loaders.enter(database) else {
        return;
    };
    LOADER_OF.store(database, Ordering::Relaxed);
    // Before all other hooks, so that it ends the process last: the thread that speaks with the
    // centre may be in a library that is being torn down.
    process::exit_without_destructors();
    process::before_exit(at_exit);
    conversation::begin(contact);
    each(|work| work.before_connect());
    bgworker::connect(pg_sys::Oid::from(database));
    each(|work| work.after_connect());
    prepare_session();
    work(shared, database);
}

/// Sets what a grant requires, whatever is set for the database, the role or in the
/// configuration file.
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
        // The rows are found by their place or their key, independently of their number.
        (c"enable_tidscan", c"on"),
        (c"enable_seqscan", c"off"),
        (c"enable_hashjoin", c"off"),
        (c"enable_mergejoin", c"off"),
    ] {
        guc::set(name, value);
    }
    // A reload that changed it would call setenv, while the thread that speaks with the centre may
    // be reading the environment.
    guc::set(
        c"lc_messages",
        &CString::new(guc::text(c"lc_messages")).unwrap_or_default(),
    );
}

fn work(shared: &Shared, database: u32) {
    let mut last_work = Instant::now();
    let mut last_look = Instant::now();
    loop {
        process::check_for_interrupts();
        if bgworker::reload_if_asked() {
            conversation::reconsider();
            let outdated = works()
                .iter()
                .filter(|work| work.reconsider(shared, database));
            if outdated.count() > 0 {
                return;
            }
        }
        guc::insist_on_durable_commits();
        bgworker::report_statistics();
        if last_look.elapsed() >= NAP {
            last_look = Instant::now();
            each(|work| work.request_overdue(shared, database));
        }
        let is_heard = conversation::turn();
        match run_works(shared, database) {
            Done::Leave => return,
            Done::Nothing if !is_heard => {}
            Done::Nothing | Done::Something => {
                last_work = Instant::now();
                continue;
            }
        }
        if !run_empty_transaction() {
            return;
        }
        let is_idle = last_work.elapsed() >= settings::server::loader_idle_timeout()
            && conversation::nap().is_none()
            && !works().iter().any(|work| work.is_needed(shared, database));
        let has_work = || next_try(shared, database).is_some();
        if is_idle && shared.loaders.leave(database, has_work) {
            LOADER_OF.store(0, Ordering::Relaxed);
            return;
        }
        let nap = next_try(shared, database).unwrap_or(NAP).min(NAP);
        let nap = conversation::nap().unwrap_or(NAP).min(nap);
        latch::wait_or_readable(nap, conversation::descriptor(), WaitEvent::LoaderMain);
    }
}

fn each(act: impl Fn(&dyn Work)) {
    for &work in works() {
        act(work);
    }
}

fn run_works(shared: &Shared, database: u32) -> Done {
    let mut done = Done::Nothing;
    for work in works() {
        match work.run(shared, database) {
            Done::Nothing => {}
            Done::Something => done = Done::Something,
            Done::Leave => return Done::Leave,
        }
    }
    done
}

/// How long until the next request may be tried; `None` if there is none.
fn next_try(shared: &Shared, database: u32) -> Option<Duration> {
    let tries = works()
        .iter()
        .filter_map(|work| work.next_try(shared, database));
    Some(tries.min()?.since(clock::monotonic()))
}

/// Runs a transaction for nothing but what each begins with: it fails if a session is waiting for
/// exclusive access to the database.
fn run_empty_transaction() -> bool {
    own_xact::run_briefly(|| Some(()), |()| {}) == Ok(true)
}

/// Runs however the loader ends, and frees its place for the next one.
#[pg_guard]
unsafe extern "C-unwind" fn at_exit(_code: i32, _argument: pg_sys::Datum) {
    let database = LOADER_OF.swap(0, Ordering::Relaxed);
    // If this process has already left, its successor may be responsible for the
    // requests.
    if database != 0
        && let Some(shared) = shmem::get()
    {
        each(|work| work.hand_over(shared, database));
        conversation::end();
        shared.loaders.leave(database, || false);
    }
}
