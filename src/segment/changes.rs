//! What the present transaction has done to tags.
//!
//! # Changes
//!
//! A change of a row of `leaf.alloc`, through a function or by plain SQL, is
//! collected by a trigger and acts on shared memory when the transaction
//! commits: the tag's slot begins a new epoch. Changes of a savepoint that was
//! rolled back are forgotten.
//!
//! Tags that the transaction has created are the business of [`private`].

mod private;

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use pgrx::pg_sys::SubTransactionId;

use crate::alone;
use crate::catalog::AllocRow;
use crate::error::Error;
use crate::pg::{self, inval, xact};
use crate::shmem::{self, Shared, index::KeyRef, mailbox::Ticket};
use crate::snowflake;
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

/// A change, by whom and of which catalog: a savepoint may drop the extension,
/// create it again, and be rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Made {
    by: SubTransactionId,
    catalog: u32,
    change: Change,
}

impl Made {
    /// A change made here and now.
    fn now(change: Change) -> Self {
        Made {
            by: xact::current_sub(),
            catalog: inval::last_watched().map_or(0, |catalog| catalog.to_u32()),
            change,
        }
    }
}

#[derive(Default)]
struct Transaction {
    /// For each tag, the strongest change of each subtransaction that has made
    /// one, outermost first.
    changes: HashMap<Vec<u8>, Vec<Made>>,
    /// TRUNCATE: every tag of a catalog.
    everything: Vec<Made>,
    /// Versions of a tag's row, the present one last.
    private: HashMap<Vec<u8>, Vec<Private>>,
    /// A block asked of the loader.
    request: Option<Ticket>,
}

impl Transaction {
    /// Calls `act` for every tag that was changed, and that shared memory may
    /// know. A tag that was changed several times may be met as often.
    fn each_change(&self, act: impl Fn(&Shared, KeyRef<'_>, Change)) {
        let Some(shared) = shmem::shared() else {
            return;
        };
        let database = pg::database().to_u32();
        for made in &self.everything {
            for key in shared.keys_of(database, made.catalog) {
                act(shared, key.as_ref(), made.change);
            }
        }
        for (tag, changes) in &self.changes {
            for made in changes {
                let key = KeyRef {
                    database,
                    catalog: made.catalog,
                    tag,
                };
                act(shared, key, made.change);
            }
        }
    }

    fn is_clean(&self) -> bool {
        self.changes.is_empty() && self.everything.is_empty()
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

/// Whether the present transaction has anything to do with tags beyond drawing
/// ids. Most have not, and their end costs no more than this look.
static IS_INVOLVED: AtomicBool = AtomicBool::new(false);

/// Whether the end of the transaction concerns leaf.
pub fn is_involved() -> bool {
    IS_INVOLVED.load(Ordering::Relaxed)
}

/// Makes the end of the transaction concern leaf.
pub fn involve() {
    IS_INVOLVED.store(true, Ordering::Relaxed);
}

thread_local! {
    static TRANSACTION: RefCell<Transaction> = RefCell::default();
    /// Set while leaf itself updates rows, to the subtransaction that does: its
    /// grants are no changes.
    static GRANTING: Cell<Option<SubTransactionId>> = const { Cell::new(None) };
    /// Set meanwhile if the update takes ids back.
    static RETURNING: Cell<bool> = const { Cell::new(false) };
}

fn with<R>(act: impl FnOnce(&mut Transaction) -> R) -> R {
    TRANSACTION.with_borrow_mut(act)
}

/// Runs `work`, whose updates of `leaf.alloc` are grants and not changes.
/// After an error the mark is cleared by the abort.
pub fn granting<R>(work: impl FnOnce() -> R) -> R {
    involve();
    GRANTING.set(Some(xact::current_sub()));
    let result = work();
    GRANTING.set(None);
    result
}

/// As [`granting`], for an update that takes ids back.
pub fn returning<R>(work: impl FnOnce() -> R) -> R {
    RETURNING.set(true);
    let result = granting(work);
    RETURNING.set(false);
    result
}

/// Whether an update that a trigger sees takes ids back.
pub fn is_returning() -> bool {
    is_granting() && RETURNING.get()
}

/// Whether an update that a trigger sees is a grant.
pub fn is_granting() -> bool {
    GRANTING.get().is_some()
}

/// Collects a change of a tag's row.
pub fn record(tag: &[u8], change: Change) {
    involve();
    inval::bump();
    let made = Made::now(change);
    with(|it| {
        let changes = it.changes.entry(tag.to_vec()).or_default();
        match changes.last_mut() {
            Some(last) if (last.by, last.catalog) == (made.by, made.catalog) => {
                last.change = last.change.max(change);
            }
            _ => changes.push(made),
        }
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
    involve();
    inval::bump();
    let made = Made::now(Change::Identity);
    let sub = made.by;
    with(|it| {
        it.everything.push(made);
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
    with(|it| !it.everything.is_empty() || it.changes.contains_key(tag))
}

/// Whether this transaction has created the tag.
pub fn has_created(tag: &[u8]) -> bool {
    with(|it| it.private(tag).is_some())
}

/// Remembers a request to the loader, to be withdrawn if the wait is cut short.
pub fn set_request(ticket: Option<Ticket>) {
    involve();
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
    if with(|it| !it.is_clean() || !it.private.is_empty()) {
        Error::Prepared.raise();
    }
    snowflake::releases::forget();
}

/// Just before the commit becomes visible: ids that the changes make stale are
/// dropped. Until it is visible the rows are locked, so that none can be loaded
/// again; were they dropped only afterwards, somebody could see the new row and
/// still draw an old id. If the commit fails after all, the ids are a gap.
pub fn drop_stale_ids() {
    with(|it| {
        it.each_change(|shared, key, change| {
            if change >= Change::Position {
                shared.reconsider(key, true);
            }
        });
    });
}

/// After the commit: shared memory learns what has changed. Raises no error.
pub fn after_commit() {
    IS_INVOLVED.store(false, Ordering::Relaxed);
    snowflake::private::end_of_transaction();
    snowflake::releases::after_commit();
    let done = with(std::mem::take);
    GRANTING.set(None);
    if done.is_clean() {
        return;
    }
    inval::bump();
    done.each_change(|shared, key, change| match change {
        Change::Identity => shared.free(key),
        Change::Position => shared.reconsider(key, true),
        Change::Permissions => shared.reconsider(key, false),
    });
}

/// After a rollback: nothing has changed.
pub fn after_abort() {
    IS_INVOLVED.store(false, Ordering::Relaxed);
    snowflake::private::end_of_transaction();
    snowflake::releases::forget();
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
    snowflake::releases::after_sub_commit(sub, parent);
    with(|it| {
        for private in it.private.values_mut().flatten() {
            private.after_sub_commit(sub, parent);
        }
        let changes = it.changes.values_mut().flatten();
        for made in changes.chain(&mut it.everything) {
            if made.by == sub {
                made.by = parent;
            }
        }
    });
}

/// After a savepoint was rolled back: tags it created are gone, tags it dropped
/// are back, and what it granted is granted no more.
pub fn after_sub_abort(sub: SubTransactionId) {
    snowflake::releases::after_sub_abort(sub);
    withdraw_request();
    // A trigger on the table may roll back savepoints of its own meanwhile.
    if GRANTING.get() == Some(sub) {
        GRANTING.set(None);
    }
    with(|it| {
        if it.private.is_empty() && it.is_clean() {
            return;
        }
        inval::bump();
        it.changes.retain(|_, changes| {
            changes.retain(|made| made.by != sub);
            !changes.is_empty()
        });
        it.everything.retain(|made| made.by != sub);
        for versions in it.private.values_mut() {
            versions.retain(|private| !private.was_created_in(sub));
            for private in versions {
                private.after_sub_abort(sub);
            }
        }
    });
}
