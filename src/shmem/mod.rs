//! The shared memory of all processes.
//!
//! # Structures
//!
//! - [`index`]: the slots, found by (database, OID of that database's
//!   `leaf.alloc`, tag), and which of them a loader should load.
//! - [`slot`]: one per tag in use, with its double buffer.
//! - [`loaders`]: which database has a loader, and where its latch is; and how it fares with
//!   the centre ([`upstream`]).
//! - [`requests`]: what is asked of loaders, in the [`mailbox`]: to reserve blocks, to take unused
//!   ids of blocks back, and what the centre knows.
//! - [`leftovers`]: unused ids of evicted slots, which loaders take back.
//! - [`generators`]: one per database that issues snowflake ids.
//! - [`texts`]: why loads of slots have failed.
//!
//! Everything is sized at server start and has the same address in every process,
//! because the postmaster maps it before it forks.
//!
//! # Locks, in the order in which they are taken
//!
//! 1. the index's: which slot serves which tag; free slots.
//! 2. a slot's `state`: every write to its buffer (publish, discard, epoch), and what
//!    the loader has recorded about the tag. Drawing needs no lock.
//! 3. the loader table's. Before a loader leaves, it checks under this lock whether
//!    there is work, and takes the next two to do so.
//! 4. the mailbox's, that of the leftovers, that of the texts, and those of the contacts with the
//!    centre: no other lock is taken under them.
//! 5. the generators' directory: which generator serves which database; then a
//!    generator's `state`: its lease. Neither is taken together with 1 or 2.
//!
//! Nothing that can raise an error runs under any of them.
//!
//! # Epochs
//!
//! A slot's epoch changes whenever its ids start to mean something else: the slot
//! serves another tag; the tag was dropped or moved, or its permissions have changed.
//! A session that has looked a slot up compares the epoch after each draw, and drops
//! the ids if it has changed. The loader reads the epoch before it reads the tag's row,
//! and publishes what the row granted only if the epoch has not changed.

pub mod call;
pub mod failures;
pub mod generators;
pub mod index;
pub mod key;
pub mod leftovers;
pub mod loaders;
pub mod mailbox;
mod queue;
pub mod requests;
pub mod slot;
pub mod text;
pub mod texts;
pub mod upstream;
pub mod waits;

use std::sync::OnceLock;
use std::sync::atomic::{AtomicPtr, Ordering};

use generators::Generators;
use index::Index;
use leftovers::Leftovers;
use loaders::Loaders;
use mailbox::Mailbox;

use crate::error::Report;
use crate::pg::bgworker;
use crate::pg::shm::{self, Request, Startup};
use crate::settings;

/// The shared memory.
pub struct Shared {
    pub index: Index,
    pub loaders: Loaders,
    pub mailbox: Mailbox,
    pub leftovers: Leftovers,
    pub generators: Generators,
}

const MAILBOX: requests::Names = [c"leaf mailbox lock", c"leaf mailbox", c"leaf mailbox used"];

/// Set in the postmaster, inherited by every process it forks.
static SHARED: AtomicPtr<Shared> = AtomicPtr::new(std::ptr::null_mut());

/// The shared memory; `None` if the server did not preload leaf.
pub fn get() -> Option<&'static Shared> {
    // SAFETY: null, or a `Shared` that is never freed.
    unsafe { SHARED.load(Ordering::Relaxed).as_ref() }
}

/// The shared memory; an error if the server did not preload leaf.
pub fn require() -> &'static Shared {
    // When: any function of leaf, in a server without leaf in `shared_preload_libraries`
    get().unwrap_or_else(|| Report::not_ready(
        "leaf is not loaded by the server",
        "Add leaf to shared_preload_libraries and restart the server.",
    )
    .detail("Its shared memory and background workers exist only in a server that loads it at start.")
    .raise())
}

/// The work on shared memory before any session draws from it.
type AtStartup = fn(&Shared);

static AT_STARTUP: OnceLock<AtStartup> = OnceLock::new();

/// Requests the shared memory, and attaches to it. Called while the server preloads leaf.
pub fn init(at_startup: AtStartup) {
    if AT_STARTUP.set(at_startup).is_ok() {
        shm::init(request, startup);
    }
}

fn request(request: &Request) {
    Index::request_memory(request, settings::server::max_tags());
    // Each loader is a background worker.
    Loaders::request_memory(request, bgworker::most());
    Mailbox::request_memory(request, Mailbox::places());
    Leftovers::request_memory(request);
    Generators::request_memory(request);
    texts::request_memory(request);
}

fn startup(startup: &Startup) {
    texts::attach(startup);
    let loaders = (c"leaf loaders lock", c"leaf loaders");
    let shared = Shared {
        index: Index::attach(startup, settings::server::max_tags()),
        loaders: Loaders::attach(startup, loaders, bgworker::most()),
        mailbox: Mailbox::attach(startup, MAILBOX, Mailbox::places()),
        leftovers: Leftovers::attach(startup),
        generators: Generators::attach(startup),
    };
    if let Some(at_startup) = AT_STARTUP.get() {
        at_startup(&shared);
    }
    // After a crash, this is a second value. The old one is leaked: a few words per crash.
    SHARED.store(Box::into_raw(Box::new(shared)), Ordering::Relaxed);
}
