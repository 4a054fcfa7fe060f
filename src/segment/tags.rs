//! What this session knows of tags: where their slots are, and that it may draw
//! from them.
//!
//! An entry is good for one epoch of the slot, one role and one generation of
//! invalidations. Looking these up costs a few catalogue accesses, comparing
//! them costs three loads, and that is all that a draw does.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use pgrx::pg_sys;

use crate::alone;
use crate::catalog::{self, Permissions};
use crate::error::{Error, Ids};
use crate::patience::Patience;
use crate::pg::heap::Readable;
use crate::pg::{self, inval, role, xact};
use crate::shmem::index::{Found, KeyRef, OwnedKey};
use crate::shmem::{self, Shared, Slot};
use crate::transaction;

/// A tag this session has drawn from. Never freed, so that executor state may
/// point at it; void until [`is_good`](Entry::is_good) says otherwise.
pub struct Entry {
    tag: Box<[u8]>,
    slot: Cell<Option<&'static Slot>>,
    number: Cell<usize>,
    epoch: Cell<u64>,
    user: Cell<pg_sys::Oid>,
    generation: Cell<u64>,
}

impl Entry {
    /// Whether the session may draw from the slot without looking again,
    /// provided the epoch still is [`epoch`](Self::epoch) after the draw.
    #[inline(always)]
    pub fn is_good(&self) -> bool {
        self.generation.get() == inval::generation() && self.user.get() == role::current()
    }

    /// The tag.
    #[inline(always)]
    pub fn tag(&self) -> &[u8] {
        &self.tag
    }

    /// The slot; present once the entry was good.
    #[inline(always)]
    pub fn slot(&self) -> Option<&'static Slot> {
        self.slot.get()
    }

    /// The epoch under which the session may draw.
    #[inline(always)]
    pub fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// The slot's number.
    pub fn number(&self) -> usize {
        self.number.get()
    }
}

thread_local! {
    static ENTRIES: RefCell<HashMap<Box<[u8]>, &'static Entry>> = RefCell::default();
}

/// Where a tag's ids come from.
pub enum Source {
    /// A slot that everybody draws from.
    Shared(SharedSource),
    /// A tag that only the present transaction draws from.
    Private,
}

/// A slot, as this session may draw from it.
#[derive(Clone, Copy)]
pub struct SharedSource {
    pub slot: &'static Slot,
    pub number: usize,
    /// Compare it after each draw.
    pub epoch: u64,
    /// Whether the present transaction has changed the tag's row, so that the
    /// loader cannot have it.
    pub own_change: bool,
}

/// The shared memory, or an error that says how to get it.
pub fn shared() -> &'static Shared {
    shmem::shared().unwrap_or_else(|| Error::NotPreloaded.raise())
}

/// Finds out where ids of `tag` come from, and that the current role may draw
/// them. Raises an error otherwise.
pub fn resolve(tag: &[u8], patience: &Patience) -> Source {
    let shared = shared();
    if pg::in_recovery() {
        Error::InRecovery.raise();
    }
    let user = role::current();
    if !pg::under_postmaster() {
        may_draw(tag, user);
        alone::adopt(shared, tag);
        return Source::Private;
    }
    if transaction::has_changed(tag) {
        return resolve_changed(shared, tag, user, patience);
    }
    if let Some(entry) = known(tag)
        && entry.is_good()
        && let Some(slot) = entry.slot()
        && slot.buffer.epoch() == entry.epoch()
    {
        return Source::Shared(SharedSource {
            slot,
            number: entry.number(),
            epoch: entry.epoch(),
            own_change: false,
        });
    }
    let _readable = wait_until_readable(tag, patience);
    // Before the look-up: what changes meanwhile makes the entry void.
    let generation = inval::generation();
    let found = find(shared, tag, user, patience);
    let permissions = may_draw(tag, user);
    if permissions.is_own_version && xact::is_parallel_worker() {
        Error::ParallelQuery {
            tag: catalog::display(tag),
        }
        .raise();
    }
    let source = source(shared, found, permissions.is_own_version);
    let entry = entry(tag);
    entry.slot.set(Some(source.slot));
    entry.number.set(source.number);
    entry.epoch.set(source.epoch);
    entry.user.set(user);
    entry.generation.set(generation);
    Source::Shared(source)
}

/// As [`resolve`] for a tag whose row the present transaction has changed:
/// nothing is remembered.
fn resolve_changed(
    shared: &'static Shared,
    tag: &[u8],
    user: pg_sys::Oid,
    patience: &Patience,
) -> Source {
    let _readable = wait_until_readable(tag, patience);
    if transaction::has_created(tag) {
        if !transaction::is_allowed(tag, user) {
            may_draw(tag, user);
            transaction::allow(tag, user);
        }
        return Source::Private;
    }
    let found = find(shared, tag, user, patience);
    may_draw(tag, user);
    Source::Shared(source(shared, found, true))
}

fn source(shared: &'static Shared, found: Found, own_change: bool) -> SharedSource {
    SharedSource {
        slot: &shared.slots[found.number],
        number: found.number,
        epoch: found.epoch,
        own_change,
    }
}

/// The row's permissions, if they let `user` draw; an error otherwise.
pub fn may_draw(tag: &[u8], user: pg_sys::Oid) -> Permissions {
    let Some(permissions) = catalog::permissions(tag, user) else {
        Error::NoSuchTag(catalog::display(tag)).raise();
    };
    if !permissions.may_draw {
        Error::MayNotDraw {
            tag: catalog::display(tag),
            role: catalog::display(role::name_of(user).to_bytes()),
        }
        .raise();
    }
    permissions
}

/// The slot of `tag`. One is claimed only for a tag that exists and may be
/// drawn from, so that bad calls leave nothing behind.
fn find(shared: &Shared, tag: &[u8], user: pg_sys::Oid, patience: &Patience) -> Found {
    let key = key(tag);
    if let Some(found) = shared.find(key) {
        return found;
    }
    may_draw(tag, user);
    loop {
        if let Some(found) = shared.claim(key) {
            return found;
        }
        if patience.is_over() {
            Error::NoSlot {
                tag: catalog::display(tag),
            }
            .raise();
        }
        patience.nap();
    }
}

/// The key of a tag of this database.
pub fn key(tag: &[u8]) -> KeyRef<'_> {
    KeyRef {
        database: pg::database().to_u32(),
        catalog: catalog::require_alloc().to_u32(),
        tag,
    }
}

/// As [`key`], by value.
pub fn owned_key(tag: &[u8]) -> OwnedKey {
    let key = key(tag);
    OwnedKey {
        database: key.database,
        catalog: key.catalog,
        tag: tag.to_vec(),
    }
}

/// Waits until permissions can be looked up, as long as patience lasts.
pub fn wait_until_readable(tag: &[u8], patience: &Patience) -> Readable {
    catalog::wait_until_readable(|| {
        patience.nap_or_give_up(
            Ids::of(tag),
            "table \"leaf.alloc\" is locked by another transaction",
        );
    })
}

/// This session's entry for a tag, if it has drawn from it.
pub fn known(tag: &[u8]) -> Option<&'static Entry> {
    ENTRIES.with_borrow(|entries| entries.get(tag).copied())
}

/// Whether ids drawn from the source before may still be handed out: the slot
/// is in the same epoch, and the role is the one that was allowed to draw.
pub fn is_still_good(tag: &[u8], source: &SharedSource) -> bool {
    let by_the_same = source.own_change || known(tag).is_some_and(Entry::is_good);
    by_the_same && source.slot.buffer.epoch() == source.epoch
}

/// Makes the session look the tag up again.
pub fn forget(tag: &[u8]) {
    if let Some(entry) = known(tag) {
        entry.generation.set(0);
    }
}

/// This session's entry for a tag that it may draw from, void if it is new.
fn entry(tag: &[u8]) -> &'static Entry {
    known(tag).unwrap_or_else(|| {
        let entry: &'static Entry = Box::leak(Box::new(Entry {
            tag: tag.into(),
            slot: Cell::new(None),
            number: Cell::new(0),
            epoch: Cell::new(0),
            user: Cell::new(pg_sys::InvalidOid),
            generation: Cell::new(0),
        }));
        ENTRIES.with_borrow_mut(|entries| entries.insert(tag.into(), entry));
        entry
    })
}
