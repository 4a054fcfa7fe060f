//! What all processes share.
//!
//! # Structures
//!
//! - [`Slot`]: one per tag in use, with its double buffer. Found through the
//!   [`index`] by (database, oid of that database's `leaf.alloc`, tag).
//! - [`loaders`]: which database has a loader, and where its latch is.
//! - [`mailbox`]: blocks that sessions ask the loader to reserve.
//! - [`Worker`]: one per database that issues snowflake ids, with its generator.
//! - `requested`: one word per slot, the database whose loader shall load it.
//!   Kept apart from the slots so that a loader scans few cache lines.
//!
//! Everything is sized at server start and lies at the same address in every
//! process (the postmaster maps it before it forks).
//!
//! # Locks, in the order in which they are taken
//!
//! 1. `index`: which slot serves which tag; free slots.
//! 2. a slot's `state`: every write to its buffer (publish, discard, epoch)
//!    and what the loader knows of the tag. Drawing needs no lock at all.
//! 3. `loaders`, `mailbox`: each by itself, nothing else is taken under them.
//! 4. `directory`: which worker serves which database; then a worker's `state`:
//!    its lease. Neither is taken together with the locks above.
//!
//! Nothing that can raise an error runs under any of them.
//!
//! # Epochs
//!
//! A slot's epoch moves whenever its ids start to mean something else (the slot
//! serves another tag; the tag was dropped, moved or its permissions changed).
//! Whoever learned under one epoch what a slot is compares it after each draw,
//! and drops the ids if it has moved. The loader reads it before it reads the
//! tag's row, and publishes what the row granted only if it has not moved.

pub mod index;
pub mod loaders;
pub mod mailbox;
pub mod slot;
pub mod text;
pub mod worker;

use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use pgrx::{pg_guard, pg_sys};
use uuid::Uuid;

use crate::pg::control::ControlFile;
use crate::pg::{lock::Locked, shm};
use crate::{history, restart, settings};
pub use slot::Slot;
pub use worker::Worker;

/// The regions of shared memory.
pub struct Shared {
    pub index: &'static Locked<index::Heads>,
    pub buckets: &'static [index::Bucket],
    pub slots: &'static [Slot],
    /// For each slot, the database whose loader shall load it; 0 for none.
    pub requested: &'static [AtomicU32],
    pub loaders: &'static Locked<loaders::Table>,
    pub mailbox: &'static Locked<mailbox::Table>,
    pub mail: &'static mailbox::Bells,
    /// Guards whose worker is whose.
    pub directory: &'static Locked<()>,
    pub workers: &'static [Worker],
    /// Tells this start's history from others; see [`history`].
    pub nonce: Uuid,
}

/// Set in the postmaster, inherited by every process it forks.
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(std::ptr::null_mut());

/// The shared memory, or `None` when the server did not preload leaf.
pub fn shared() -> Option<&'static Shared> {
    // SAFETY: null, or a `Shared` that is never freed.
    unsafe { SHARED.load(Ordering::Relaxed).as_ref() }
}

/// Installs the hooks that size and attach the shared memory. Called while the
/// server preloads leaf.
pub fn init() {
    // SAFETY: hooks are installed by one thread, each calling its predecessor.
    unsafe {
        PREVIOUS_REQUEST = pg_sys::shmem_request_hook;
        pg_sys::shmem_request_hook = Some(request);
        PREVIOUS_STARTUP = pg_sys::shmem_startup_hook;
        pg_sys::shmem_startup_hook = Some(startup);
    }
}

static mut PREVIOUS_REQUEST: pg_sys::shmem_request_hook_type = None;
static mut PREVIOUS_STARTUP: pg_sys::shmem_startup_hook_type = None;

#[pg_guard]
unsafe extern "C-unwind" fn request() {
    // SAFETY: written once, before any hook runs.
    if let Some(previous) = unsafe { PREVIOUS_REQUEST } {
        // SAFETY: the hook that was installed before this one.
        unsafe { previous() };
    }
    let tags = settings::max_tags();
    shm::request::<Locked<index::Heads>>(1);
    shm::request::<index::Bucket>(index::buckets_for(tags));
    shm::request::<Slot>(tags);
    shm::request::<AtomicU32>(tags);
    shm::request::<Locked<loaders::Table>>(1);
    shm::request::<Locked<mailbox::Table>>(1);
    shm::request::<mailbox::Bells>(1);
    shm::request::<Locked<()>>(1);
    shm::request::<Worker>(settings::max_databases());
}

#[pg_guard]
unsafe extern "C-unwind" fn startup() {
    // SAFETY: as in `request`.
    if let Some(previous) = unsafe { PREVIOUS_STARTUP } {
        // SAFETY: the hook that was installed before this one.
        unsafe { previous() };
    }
    let tags = settings::max_tags();
    let tranche = shm::lock_tranche();
    let control_file = ControlFile::read();
    let shared = Shared {
        index: &shm::attach(c"leaf index", 1, |_| {
            Locked::new(index::Heads::new(tags), tranche)
        })[0],
        buckets: shm::attach(c"leaf buckets", index::buckets_for(tags), |_| {
            index::Bucket::new()
        }),
        slots: shm::attach(c"leaf slots", tags, |i| Slot::new(i, tags, tranche)),
        requested: shm::attach(c"leaf requests", tags, |_| AtomicU32::new(0)),
        loaders: &shm::attach(c"leaf loaders", 1, |_| {
            Locked::new(loaders::Table::new(), tranche)
        })[0],
        mailbox: &shm::attach(c"leaf mailbox", 1, |_| {
            Locked::new(mailbox::Table::new(), tranche)
        })[0],
        mail: &shm::attach(c"leaf mail", 1, |_| mailbox::Bells::new())[0],
        directory: &shm::attach(c"leaf directory", 1, |_| Locked::new((), tranche))[0],
        workers: shm::attach(c"leaf workers", settings::max_databases(), |_| {
            Worker::new(tranche)
        }),
        nonce: history::nonce_at_server_start(control_file.as_ref()),
    };
    restart::at_server_start(&shared, control_file.as_ref());
    // After a crash the postmaster runs this again, and the regions may lie
    // elsewhere. The old value is leaked: a few words per crash.
    SHARED.store(Box::into_raw(Box::new(shared)), Ordering::Relaxed);
}
