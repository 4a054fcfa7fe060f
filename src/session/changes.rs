//! The changes of the current transaction to `leaf.alloc`.
//!
//! A change of a row, through a function or by plain SQL, is recorded by a trigger and
//! applied to shared memory when the transaction commits: the tag's slot begins a new
//! epoch. Changes of a savepoint that was rolled back are discarded.

use std::cell::RefCell;
use std::collections::HashMap;

use leaf_core::journal::Journal;
use pgrx::pg_sys::SubTransactionId;

use super::own_tags;
use crate::pg::{database, inval, xact, xact_end};
use crate::shmem;
use crate::shmem::index::Index;
use crate::shmem::key::KeyRef;

/// The effect of a change on the ids in memory; a later one is stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// Nothing that sessions know of the tag; but the loader cannot lock the row before the
    /// commit.
    Other,
    /// Earlier decisions about the tag are invalid; its ids remain valid.
    Permissions,
    /// The tag's ids have moved.
    Position,
    /// The tag has become another one, or no longer exists.
    Identity,
}

/// The state of a tag's row in the current transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RowState {
    /// Nothing: the row is as all sessions see it.
    Committed,
    /// It has changed the row, which the loader cannot lock before the commit.
    Changed,
    /// It has created the tag, which no other session sees.
    Created,
}

/// A change, with its catalog, because a savepoint may drop the extension, create it
/// again, and be rolled back.
struct Made {
    tag: Vec<u8>,
    catalog: u32,
    change: Change,
    /// The number of the change of the same tag before this one.
    before: Option<usize>,
}

#[derive(Default)]
struct Changes {
    /// For each tag, the strongest change of each subtransaction that has made one.
    made: Journal<Made>,
    /// The number of the last change of each tag.
    last: HashMap<Vec<u8>, usize>,
    /// TRUNCATE: every tag of these catalogs.
    truncated: Journal<u32>,
}

impl Changes {
    fn is_empty(&self) -> bool {
        self.made.is_empty() && self.truncated.is_empty()
    }

    /// Calls `act` for every tag that was changed and may be in shared memory. If a tag
    /// was changed several times, `act` may be called as often.
    fn each(&self, act: impl Fn(&Index, KeyRef<'_>, Change)) {
        let Some(shared) = shmem::get() else {
            return;
        };
        let (index, database) = (&shared.index, database::current());
        for &catalog in self.truncated.iter() {
            for key in index.keys_of(database, catalog) {
                act(index, key.as_ref(), Change::Identity);
            }
        }
        for made in self.made.iter() {
            let key = KeyRef {
                database,
                catalog: made.catalog,
                tag: &made.tag,
            };
            act(index, key, made.change);
        }
    }

    fn record(&mut self, sub: SubTransactionId, catalog: u32, tag: &[u8], change: Change) {
        let before = self.last.get(tag).copied();
        let same = before.and_then(|number| self.made.get_mut(number, sub));
        if let Some(same) = same.filter(|same| same.catalog == catalog) {
            same.change = same.change.max(change);
            return;
        }
        let made = Made {
            tag: tag.to_vec(),
            catalog,
            change,
            before,
        };
        let number = self.made.push(sub, made);
        self.last.insert(tag.to_vec(), number);
    }
}

thread_local! {
    static CHANGES: RefCell<Changes> = RefCell::default();
}

fn with<R>(act: impl FnOnce(&mut Changes) -> R) -> R {
    CHANGES.with_borrow_mut(act)
}

/// Requests to be notified of the end of the transaction, and invalidates what was
/// looked up before. Returns the subtransaction and the catalog's OID.
fn begin() -> (SubTransactionId, u32) {
    xact_end::involve();
    inval::bump();
    let catalog = inval::last_watched().map_or(0, |catalog| catalog.to_u32());
    (xact::current_sub(), catalog)
}

/// Records a change of a tag's row.
pub fn record(tag: &[u8], change: Change) {
    let (sub, catalog) = begin();
    with(|it| it.record(sub, catalog, tag, change));
    if change >= Change::Position {
        own_tags::forget_grant(tag);
    }
}

/// Records the creation of a tag.
pub fn record_created(tag: &[u8]) {
    record(tag, Change::Identity);
    own_tags::create(tag);
}

/// Records the removal of a tag.
pub fn record_dropped(tag: &[u8]) {
    record(tag, Change::Identity);
    own_tags::drop_tag(tag);
}

/// Records the removal of all tags.
pub fn record_truncated() {
    let (sub, catalog) = begin();
    with(|it| it.truncated.push(sub, catalog));
    own_tags::drop_all();
}

/// The state of the tag's row in this transaction.
pub fn state_of(tag: &[u8]) -> RowState {
    if own_tags::has(tag) {
        return RowState::Created;
    }
    match with(|it| !it.truncated.is_empty() || it.last.contains_key(tag)) {
        true => RowState::Changed,
        false => RowState::Committed,
    }
}

/// Whether nothing has to be applied to shared memory at the commit.
pub fn need_no_commit() -> bool {
    with(|it| it.truncated.is_empty() && it.made.iter().all(|made| made.change == Change::Other))
}

/// Called just before the commit becomes visible: drops the ids that the changes make
/// invalid. The rows are locked until the commit is visible, so no ids can be loaded
/// from them. If the ids were dropped only afterwards, a session could see the new row
/// and still draw an old id. If the commit then fails, the ids are a gap.
pub fn drop_stale_ids() {
    with(|it| {
        it.each(|index, key, change| {
            if change >= Change::Position {
                index.with(key, |slot| slot.drop_ids());
            }
        });
    });
}

/// Called after the commit: applies the changes to shared memory. A session that has looked a
/// tag up since [`drop_stale_ids`] may have seen the old row: the epoch changes once more. Raises
/// no error.
pub fn after_commit() {
    let done = with(std::mem::take);
    if done.is_empty() {
        return;
    }
    inval::bump();
    done.each(|index, key, change| match change {
        Change::Identity => index.free(key),
        Change::Position => index.with(key, |slot| slot.drop_ids()),
        Change::Permissions => index.with(key, |slot| slot.reconsider()),
        Change::Other => {}
    });
}

/// Called after a rollback: discards the changes.
pub fn after_abort() {
    if !with(std::mem::take).is_empty() {
        inval::bump();
    }
}

/// A savepoint was released: its actions now belong to its parent.
pub fn after_sub_commit(sub: SubTransactionId, parent: SubTransactionId) {
    with(|it| {
        it.made.release(sub, parent);
        it.truncated.release(sub, parent);
    });
}

/// A savepoint was rolled back: its changes are discarded.
pub fn after_sub_abort(sub: SubTransactionId) {
    with(|it| {
        if it.is_empty() {
            return;
        }
        inval::bump();
        let last = &mut it.last;
        it.made.roll_back(sub, |made| match made.before {
            Some(before) => drop(last.insert(made.tag, before)),
            None => drop(last.remove(&made.tag)),
        });
        it.truncated.roll_back(sub, |_| {});
    });
}
