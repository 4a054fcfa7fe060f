//! The tags that this session has looked up: where their slots are, and that it may
//! draw from them.
//!
//! A record is valid for one epoch of the slot, one role and one generation of
//! invalidations. Making a record needs a few system catalog lookups; comparing it costs
//! three loads, and a draw only compares.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use leaf_core::grant::Grantor;
use pgrx::{PgSqlErrorCode as Code, pg_sys};

use super::cache::Cache;
use super::changes::{self, RowState};
use super::key::key;
use super::patience::Patience;
use super::permissions::{require_draw, wait_until_readable};
use super::{asking, error, own_tags};
use crate::catalog::permissions::{Permissions, Readable};
use crate::error::Report;
use crate::pg::{clock, database, display, inval, role, xact};
use crate::shmem::index::{Claim, FoundSlot};
use crate::shmem::slot::Slot;
use crate::shmem::{self, Shared};

/// A tag that this session has drawn from. Never freed, so that executor state may
/// point to it. Valid only while [`is_good`](KnownTag::is_good) returns true.
pub struct KnownTag {
    tag: Box<[u8]>,
    slot: Cell<Option<&'static Slot>>,
    /// The slot, if the session draws each id when it is needed.
    shared: Cell<Option<&'static Slot>>,
    /// What the session has taken ahead, if it does.
    pub cache: Cache,
    number: Cell<usize>,
    epoch: Cell<u64>,
    user: Cell<pg_sys::Oid>,
    generation: Cell<u64>,
    /// The last id that the session drew, or [`NO_ID`], and the row it is from.
    last: Cell<i64>,
    incarnation: Cell<[u8; 16]>,
}

/// No id: the largest number is never granted.
const NO_ID: i64 = i64::MAX;

impl KnownTag {
    /// Whether the session may draw from the slot without another lookup, provided that
    /// the epoch is still [`epoch`](Self::epoch) after the draw.
    #[inline(always)]
    pub fn is_good(&self) -> bool {
        // The call first: what is loaded before it would have to be kept.
        let user = role::current();
        self.user.get() == user && self.generation.get() == inval::generation()
    }

    /// The tag.
    #[inline(always)]
    pub fn tag(&self) -> &[u8] {
        &self.tag
    }

    /// The slot; `None` until the tag was good for the first time, and if the session takes ids
    /// ahead.
    #[inline(always)]
    pub fn shared(&self) -> Option<&'static Slot> {
        self.shared.get()
    }

    /// The epoch under which the session may draw.
    #[inline(always)]
    pub fn epoch(&self) -> u64 {
        self.epoch.get()
    }

    /// Records an id that was drawn while the tag was good.
    #[inline(always)]
    pub fn drew(&self, id: i64) {
        self.last.set(id);
    }

    /// Records an id that was drawn from the row with that incarnation.
    pub fn drew_from(&self, incarnation: [u8; 16], id: i64) {
        self.incarnation.set(incarnation);
        self.last.set(id);
    }

    /// The last id that the session drew from the row with that incarnation, if it did.
    pub fn last_of(&self, incarnation: [u8; 16]) -> Option<i64> {
        let last = self.last.get();
        (last != NO_ID && self.incarnation.get() == incarnation).then_some(last)
    }

    /// The slot's number.
    pub fn number(&self) -> usize {
        self.number.get()
    }

    fn new(tag: &[u8]) -> Self {
        KnownTag {
            tag: tag.into(),
            slot: Cell::new(None),
            shared: Cell::new(None),
            cache: Cache::new(),
            number: Cell::new(0),
            epoch: Cell::new(0),
            user: Cell::new(pg_sys::InvalidOid),
            generation: Cell::new(0),
            last: Cell::new(NO_ID),
            incarnation: Cell::new([0; 16]),
        }
    }

    /// The slot, as it was found, unless its epoch has ended.
    fn current(&self) -> Option<SlotOfTag> {
        let slot = self.slot.get()?;
        (slot.buffer.epoch() == self.epoch()).then(|| SlotOfTag {
            slot,
            number: self.number(),
            epoch: self.epoch(),
            incarnation: self.incarnation.get(),
            row: RowState::Committed,
            cache: self.cache.size(),
        })
    }

    fn remember(&self, slot: &SlotOfTag, user: pg_sys::Oid, generation: u64) {
        self.slot.set(Some(slot.slot));
        self.shared.set((slot.cache == 1).then_some(slot.slot));
        self.cache.use_for(slot.slot, slot.epoch, slot.cache);
        self.number.set(slot.number);
        self.epoch.set(slot.epoch);
        self.user.set(user);
        self.generation.set(generation);
        if self.incarnation.replace(slot.incarnation) != slot.incarnation {
            self.last.set(NO_ID);
        }
    }
}

thread_local! {
    static KNOWN: RefCell<HashMap<Box<[u8]>, &'static KnownTag>> = RefCell::default();
}

/// The source of a tag's ids.
pub enum Origin {
    /// A slot that all sessions draw from.
    Slot(SlotOfTag),
    /// A tag that only the current transaction draws from; see
    /// [`own_tags`]. With the incarnation of its row.
    Own([u8; 16]),
}

/// A slot, as this session may draw from it.
#[derive(Clone, Copy)]
pub struct SlotOfTag {
    pub slot: &'static Slot,
    pub number: usize,
    /// The slot's epoch, to be compared after each draw.
    pub epoch: u64,
    /// The incarnation of the tag's row.
    pub incarnation: [u8; 16],
    /// The state of the tag's row. Unless it is `Committed`, the loader cannot lock the
    /// row.
    pub row: RowState,
    /// How many ids the session takes at once.
    pub cache: u64,
}

/// Determines where ids of `tag` come from. Raises an error unless the tag exists and the
/// current role may draw from it.
///
/// The sources are read in this order, so that no change in between is missed:
///
/// 1. what this transaction has done to the row;
/// 2. the generation of invalidations: one that arrives later makes the record invalid;
/// 3. the slot's epoch: a change of the row that is committed later ends it;
/// 4. the row, with the permissions. Its incarnation says whether the slot is the tag's.
pub fn resolve(tag: &[u8], patience: &Patience<'_>) -> Origin {
    let shared = shmem::require();
    asking::require_grants();
    let user = role::current();
    let known = known(tag).filter(|known| known.is_good());
    // 1. What this transaction has done.
    let row = changes::state_of(tag);
    if row == RowState::Committed
        && let Some(slot) = known.and_then(KnownTag::current)
    {
        return Origin::Slot(slot);
    }
    let readable = wait_until_readable(patience);
    // 2. The generation.
    let generation = inval::generation();
    match row {
        RowState::Created => Origin::Own(own_tags::permit(tag, user, || {
            require_draw(&readable, tag, user).incarnation
        })),
        RowState::Changed => Origin::Slot(SlotOfTag {
            row,
            ..slot_of(shared, &readable, tag, user, patience)
        }),
        RowState::Committed => {
            let slot = slot_of(shared, &readable, tag, user, patience);
            if slot.row == RowState::Committed {
                know(tag).remember(&slot, user, generation);
            }
            Origin::Slot(slot)
        }
    }
}

/// The slot of a tag that `user` may draw from. Its row is `Changed` if this transaction has
/// written it, even if that is not recorded.
fn slot_of(
    shared: &'static Shared,
    readable: &Readable,
    tag: &[u8],
    user: pg_sys::Oid,
    patience: &Patience<'_>,
) -> SlotOfTag {
    // 3. The epoch.
    let mut found = shared.index.find(key(tag));
    let (found, permissions) = loop {
        // 4. The row.
        let permissions = require_draw(readable, tag, user);
        if permissions.is_uncommitted && xact::is_parallel_worker() {
            error::parallel_query(tag).raise();
        }
        match found {
            Some(found) if found.incarnation == permissions.incarnation => {
                break (found, permissions);
            }
            // No ids can be loaded from a row that others do not see, and a slot for it would
            // take the ids of the row that they do see.
            _ if permissions.is_uncommitted => no_ids_here(tag, &permissions),
            _ => found = Some(claim(shared, tag, permissions.incarnation, patience)),
        }
    };
    SlotOfTag {
        slot: shared.index.slot(found.number),
        number: found.number,
        epoch: found.epoch,
        incarnation: found.incarnation,
        row: match permissions.is_uncommitted {
            true => RowState::Changed,
            false => RowState::Committed,
        },
        // A parallel worker ends with its query.
        cache: match xact::is_parallel_worker() {
            true => 1,
            false => permissions.cache,
        },
    }
}

/// Raises the error that a tag has no ids for a transaction that has written its row.
pub fn no_ids_here(tag: &[u8], permissions: &Permissions) -> ! {
    match permissions.grantor {
        Grantor::Centre => error::centre_here(tag).raise(),
        Grantor::Row => error::own_change(tag).raise(),
    }
}

/// Assigns a slot to a tag that exists and that the current role may draw from, so that
/// rejected calls do not occupy slots.
fn claim(shared: &Shared, tag: &[u8], incarnation: [u8; 16], patience: &Patience<'_>) -> FoundSlot {
    let since = clock::monotonic();
    loop {
        let claim = (shared.index).claim(key(tag), incarnation, since, &shared.leftovers);
        if let Claim::Slot(found, of_evicted) = claim {
            // The loader of this database is about to be called for the new slot, and does both in one
            // transaction.
            let other = of_evicted.filter(|&database| database != database::current());
            let loader = other.and_then(|database| shared.loaders.latch_of(database));
            if let Some(latch) = loader {
                latch.set();
            }
            return found;
        }
        if patience.is_over() {
            shared.index.stop_waiting();
            // When: every slot waits for a load
            Report::new(
                Code::ERRCODE_CONFIGURATION_LIMIT_EXCEEDED,
                format!("no room in shared memory for tag \"{}\"", display(tag)),
                "Raise leaf.max_tags and restart the server.",
            )
            .detail("Every slot, or every place for a name of more than 196 bytes, is waiting for a load.")
            .raise();
        }
        patience.nap();
    }
}

/// The record of a tag, if this session has drawn from it.
pub fn known(tag: &[u8]) -> Option<&'static KnownTag> {
    KNOWN.with_borrow(|known| known.get(tag).copied())
}

/// Invalidates the record of a tag, so that the session looks the tag up again.
pub fn forget(tag: &[u8]) {
    if let Some(known) = known(tag) {
        known.generation.set(0);
    }
}

/// The record of a tag from which this session may draw; a new one is invalid.
pub fn know(tag: &[u8]) -> &'static KnownTag {
    known(tag).unwrap_or_else(|| {
        let new: &'static KnownTag = Box::leak(Box::new(KnownTag::new(tag)));
        KNOWN.with_borrow_mut(|known| known.insert(tag.into(), new));
        new
    })
}
