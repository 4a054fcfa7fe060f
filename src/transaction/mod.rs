//! What the present transaction has done to tags.
//!
//! # Changes
//!
//! A change of a row of `leaf.alloc`, through a function or by plain SQL, is
//! collected by a trigger and acts on shared memory when the transaction
//! commits: the tag's slot begins a new epoch. Changes of a subtransaction that
//! was rolled back act as well, which is harmless.
//!
//! Tags that the transaction has created are the business of [`private`].

mod private;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use pgrx::pg_sys::SubTransactionId;

use crate::alone;
use crate::catalog::AllocRow;
use crate::error::Error;
use crate::pg::{self, inval, xact};
use crate::shmem::{self, index::KeyRef, mailbox::Ticket};
use private::Private;
pub use private::{adopt, allow, before_commit, is_allowed, take, take_block};

/// What a change means for the ids in memory; a later one is stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Decisions about the tag are void; its ids are still good.
    Permissions,
    /// The tag's ids have moved.
    Position,
    /// The tag is another one, or none.
    Identity,
}

#[derive(Default)]
struct Transaction {
    changes: HashMap<Vec<u8>, Change>,
    /// TRUNCATE: every tag of the catalog.
    everything: bool,
    /// Versions of a tag's row, the present one last.
    private: HashMap<Vec<u8>, Vec<Private>>,
    /// A block asked of the loader.
    request: Option<Ticket>,
}

impl Transaction {
    fn is_clean(&self) -> bool {
        self.changes.is_empty() && !self.everything
    }

    /// The tags that ids were handed out of privately, each with one past the
    /// highest.
    fn high_waters(&self) -> impl Iterator<Item = (&[u8], i64)> {
        let latest = self
            .private
            .iter()
            .filter_map(|(tag, versions)| Some((tag.as_slice(), versions.last()?)));
        latest.filter_map(|(tag, private)| Some((tag, private.high_water()?)))
    }

    fn private(&mut self, tag: &[u8]) -> Option<&mut Private> {
        let latest = self.private.get_mut(tag)?.last_mut()?;
        latest.is_alive().then_some(latest)
    }
}

thread_local! {
    static TRANSACTION: RefCell<Transaction> = RefCell::default();
    /// Set while leaf itself updates rows, to the subtransaction that does: its
    /// grants are no changes.
    static GRANTING: Cell<Option<SubTransactionId>> = const { Cell::new(None) };
}

fn with<R>(act: impl FnOnce(&mut Transaction) -> R) -> R {
    TRANSACTION.with_borrow_mut(act)
}

/// Runs `work`, whose updates of `leaf.alloc` are grants and not changes.
/// After an error the mark is cleared by the abort.
pub fn granting<R>(work: impl FnOnce() -> R) -> R {
    GRANTING.set(Some(xact::current_sub()));
    let result = work();
    GRANTING.set(None);
    result
}

/// Whether an update that a trigger sees is a grant.
pub fn is_granting() -> bool {
    GRANTING.get().is_some()
}

/// Collects a change of a tag's row.
pub fn record(tag: &[u8], change: Change) {
    inval::bump();
    with(|it| {
        let known = it.changes.entry(tag.to_vec()).or_insert(change);
        *known = change.max(*known);
        if change >= Change::Position
            && let Some(private) = it.private(tag)
        {
            private.forget_grant();
        }
    });
}

/// Collects the creation of a tag.
pub fn record_created(row: &AllocRow) {
    record(row.tag(), Change::Identity);
    let created = Private::new(xact::current_sub());
    with(|it| {
        it.private
            .entry(row.tag().to_vec())
            .or_default()
            .push(created)
    });
}

/// Collects the end of a tag.
pub fn record_dropped(tag: &[u8]) {
    record(tag, Change::Identity);
    let sub = xact::current_sub();
    with(|it| {
        if let Some(private) = it.private(tag) {
            private.drop_in(sub);
        }
    });
}

/// Collects the end of every tag.
pub fn record_truncated() {
    inval::bump();
    let sub = xact::current_sub();
    with(|it| {
        it.everything = true;
        for private in it
            .private
            .values_mut()
            .filter_map(|versions| versions.last_mut())
        {
            private.drop_in(sub);
        }
    });
}

/// Whether this transaction has changed the tag's row.
pub fn has_changed(tag: &[u8]) -> bool {
    with(|it| !it.is_clean() && (it.everything || it.changes.contains_key(tag)))
}

/// Whether this transaction has created the tag.
pub fn has_created(tag: &[u8]) -> bool {
    with(|it| it.private(tag).is_some())
}

/// Remembers a request to the loader, to be withdrawn if the wait is cut short.
pub fn set_request(ticket: Option<Ticket>) {
    with(|it| it.request = ticket);
}

/// Withdraws the request that a cancelled statement or an ending session left.
pub fn withdraw_request() {
    if let (Some(ticket), Some(shared)) = (with(|it| it.request.take()), shmem::shared()) {
        shared.withdraw(ticket);
    }
}

/// Before `PREPARE TRANSACTION`: what shared memory must learn at the commit
/// would be lost with this session.
pub fn before_prepare() {
    if with(|it| !it.is_clean()) {
        Error::Prepared.raise();
    }
}

/// After the commit: shared memory learns what has changed. Raises no error.
pub fn after_commit() {
    let done = with(std::mem::take);
    GRANTING.set(None);
    if done.is_clean() {
        return;
    }
    inval::bump();
    let (Some(shared), Some(catalog)) = (shmem::shared(), inval::last_watched()) else {
        return;
    };
    let database = pg::database().to_u32();
    if done.everything {
        shared.free_all(database, |other| other == catalog.to_u32());
    }
    for (tag, change) in &done.changes {
        let key = KeyRef {
            database,
            catalog: catalog.to_u32(),
            tag,
        };
        match change {
            Change::Identity => shared.free(key),
            Change::Position => shared.reconsider(key, true),
            Change::Permissions => shared.reconsider(key, false),
        }
    }
}

/// After a rollback: nothing has changed.
pub fn after_abort() {
    withdraw_request();
    GRANTING.set(None);
    let undone = with(std::mem::take);
    alone::after_abort(undone.high_waters());
    if !undone.is_clean() {
        inval::bump();
    }
}

/// After a savepoint was released: its doings are its parent's.
pub fn after_sub_commit(sub: SubTransactionId, parent: SubTransactionId) {
    with(|it| {
        for private in it.private.values_mut().flatten() {
            private.after_sub_commit(sub, parent);
        }
    });
}

/// After a savepoint was rolled back: tags it created are gone, tags it dropped
/// are back, and what it granted is granted no more.
pub fn after_sub_abort(sub: SubTransactionId) {
    withdraw_request();
    // A trigger on the table may roll back savepoints of its own meanwhile.
    if GRANTING.get() == Some(sub) {
        GRANTING.set(None);
    }
    with(|it| {
        if it.private.is_empty() {
            return;
        }
        inval::bump();
        for versions in it.private.values_mut() {
            versions.retain(|private| !private.was_created_in(sub));
            for private in versions {
                private.after_sub_abort(sub);
            }
        }
    });
}
