//! The loader: a background worker per database that does for all its sessions
//! what none of them could do alone: it grants segments and leases the worker id
//! of snowflake ids.
//!
//! Its life: it is started by the first session that has to wait or crosses a
//! prefetch threshold ([`call`]), enters itself in shared memory (a second one for
//! the same database leaves at once), does what is requested, and goes when nothing
//! has been requested for `leaf.loader_idle_timeout`. The postmaster never restarts
//! it; whoever needs one starts one.
//!
//! It must never be in the way. Every transaction it runs is short, cancelled
//! by timeouts of its own, and begins by looking whether a session is waiting for
//! exclusive access to the database (`DROP DATABASE` and its like lock it and then
//! wait for others to go); between transactions it looks at least once a second. A
//! termination ends every wait.
//!
//! What there is to do is the business of the features, each of which gives the
//! loader its [`Work`].

pub mod call;
pub mod work;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use pgrx::{pg_guard, pg_sys};

use crate::pg::{bgworker, clock, guc, latch, own_xact, process};
use crate::settings;
use crate::shmem::{self, Shared};
use work::{Done, Work};

/// How long a loader sleeps at most: it looks for requests that got lost
/// and for somebody who waits for the database.
const NAP: Duration = Duration::from_secs(1);

/// All that loaders do.
static WORKS: OnceLock<&'static [&'static dyn Work]> = OnceLock::new();

/// Says what loaders do. Called while the server preloads leaf.
pub fn init(works: &'static [&'static dyn Work]) {
    let _ = WORKS.set(works);
}

fn works() -> &'static [&'static dyn Work] {
    WORKS.get().copied().unwrap_or_default()
}

/// The database whose loader this process is; 0 before it is one, and after it has
/// given up its place.
static PLACE: AtomicU32 = AtomicU32::new(0);

/// The main function of the background worker.
///
/// # Safety
/// Called by the postmaster's child with the database's oid as argument.
#[pg_guard]
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn leaf_loader_main(argument: pg_sys::Datum) {
    let Some(shared) = shmem::get() else {
        return;
    };
    let database = argument.value() as u32;
    if !shared.loaders.enter(database) {
        return;
    }
    PLACE.store(database, Ordering::Relaxed);
    process::before_exit(at_exit);
    bgworker::connect(pg_sys::Oid::from(database));
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
        guc::set(name, value);
    }
}

fn work(shared: &Shared, database: u32) {
    let mut last_work = Instant::now();
    let mut last_look = Instant::now();
    loop {
        process::check_for_interrupts();
        if bgworker::reload_if_asked() {
            each(|work| work.reconsider(shared, database));
        }
        guc::insist_on_durable_commits();
        bgworker::report_statistics();
        if last_look.elapsed() >= NAP {
            last_look = Instant::now();
            each(|work| work.request_overdue(shared, database));
        }
        match run_works(shared, database) {
            Done::Leave => return,
            Done::Something => {
                last_work = Instant::now();
                continue;
            }
            Done::Nothing => {}
        }
        if !database_is_free() {
            return;
        }
        let is_idle = last_work.elapsed() >= settings::server::loader_idle_timeout();
        let has_work = || next_try(shared, database).is_some();
        if is_idle && shared.loaders.leave(database, has_work) {
            PLACE.store(0, Ordering::Relaxed);
            return;
        }
        latch::wait(next_try(shared, database).unwrap_or(NAP).min(NAP));
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

/// How long until something that is requested may be tried; `None` if nothing is.
fn next_try(shared: &Shared, database: u32) -> Option<Duration> {
    let tries = works()
        .iter()
        .filter_map(|work| work.next_try(shared, database));
    Some(tries.min()?.since(clock::monotonic()))
}

/// Whether nobody waits for exclusive access to the database.
fn database_is_free() -> bool {
    own_xact::run_briefly(|| Some(()), |()| {}) == Ok(true)
}

/// Whatever ends the loader: the next one may come.
#[pg_guard]
unsafe extern "C-unwind" fn at_exit(_code: i32, _argument: pg_sys::Datum) {
    let database = PLACE.swap(0, Ordering::Relaxed);
    // Without a place there may be a successor by now, whose business it all is.
    if database != 0
        && let Some(shared) = shmem::get()
    {
        each(|work| work.hand_over(shared, database));
        shared.loaders.leave(database, || false);
    }
}
