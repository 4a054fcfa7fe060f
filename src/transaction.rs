//! What the present transaction has done to tags.
//!
//! # Changes
//!
//! A change of a row of `leaf.alloc`, through a function or by plain SQL, is
//! collected by a trigger and acts on shared memory when the transaction
//! commits: the tag's slot begins a new epoch. Changes of a subtransaction that
//! was rolled back act as well, which is harmless.
//!
//! # Tags of this transaction
//!
//! A tag that the transaction has created is visible to nobody else. Its ids
//! come from a buffer private to the transaction, granted by ordinary updates
//! of the row; see [`take`]. A rolled-back savepoint undoes such an update, so
//! the highest id handed out is kept until the transaction ends, and the row is
//! brought up to it before the commit.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use leaf_core::buffer::Run;
use pgrx::pg_sys::SubTransactionId;

use crate::alone;
use crate::catalog::{self, AllocRow};
use crate::error::Error;
use crate::pg::{self, inval, xact};
use crate::settings;
use crate::shmem::{self, index::KeyRef, mailbox::Ticket};

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

/// A tag that this transaction has created.
#[derive(Debug)]
struct Private {
    created_in: SubTransactionId,
    dropped_in: Option<SubTransactionId>,
    /// Granted and not handed out yet: `[next, end)`; both `i64::MIN` without a
    /// grant that still stands.
    next: i64,
    end: i64,
    /// The subtransaction whose update granted them.
    granted_in: SubTransactionId,
    /// One past the highest id handed out; `i64::MIN` before the first.
    high_water: i64,
    /// Ids in the last grant.
    step: u64,
    /// Who was found to be allowed to draw, and when.
    allowed: Option<(pgrx::pg_sys::Oid, u64)>,
}

/// The subtransaction that is the whole transaction.
const TOP: SubTransactionId = 1;

impl Private {
    fn new(created_in: SubTransactionId) -> Self {
        Private {
            created_in,
            dropped_in: None,
            next: i64::MIN,
            end: i64::MIN,
            granted_in: created_in,
            high_water: i64::MIN,
            step: 0,
            allowed: None,
        }
    }
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
        latest
            .filter(|(_, private)| private.dropped_in.is_none() && private.high_water != i64::MIN)
            .map(|(tag, private)| (tag, private.high_water))
    }

    fn private(&mut self, tag: &[u8]) -> Option<&mut Private> {
        let latest = self.private.get_mut(tag)?.last_mut()?;
        latest.dropped_in.is_none().then_some(latest)
    }
}

thread_local! {
    static TRANSACTION: RefCell<Transaction> = RefCell::default();
    /// Set while leaf itself updates rows: its grants are no changes.
    static GRANTING: Cell<bool> = const { Cell::new(false) };
}

fn with<R>(act: impl FnOnce(&mut Transaction) -> R) -> R {
    TRANSACTION.with_borrow_mut(act)
}

/// Runs `work`, whose updates of `leaf.alloc` are grants and not changes.
/// After an error the mark is cleared by the abort.
pub fn granting<R>(work: impl FnOnce() -> R) -> R {
    GRANTING.set(true);
    let result = work();
    GRANTING.set(false);
    result
}

/// Whether an update that a trigger sees is a grant.
pub fn is_granting() -> bool {
    GRANTING.get()
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
            private.next = private.end;
            private.allowed = None;
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
            private.dropped_in = Some(sub);
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
            private.dropped_in.get_or_insert(sub);
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

/// Lets this transaction grant ids of a tag to itself, from `above` on, as if
/// it had created the tag.
pub fn adopt(tag: &[u8], above: i64) {
    with(|it| {
        if it.private(tag).is_none() {
            let adopted = Private {
                high_water: above,
                ..Private::new(TOP)
            };
            it.private.entry(tag.to_vec()).or_default().push(adopted);
        }
    });
}

/// Whether `user` was already found to be allowed to draw from the private tag.
pub fn is_allowed(tag: &[u8], user: pgrx::pg_sys::Oid) -> bool {
    let now = Some((user, inval::generation()));
    with(|it| {
        it.private(tag)
            .is_some_and(|private| private.allowed == now)
    })
}

/// Remembers that `user` may draw from the private tag.
pub fn allow(tag: &[u8], user: pgrx::pg_sys::Oid) {
    let now = Some((user, inval::generation()));
    with(|it| {
        if let Some(private) = it.private(tag) {
            private.allowed = now;
        }
    });
}

/// Takes up to `count` ids of a tag that this transaction has created.
pub fn take(tag: &[u8], count: u64) -> Run {
    let left = with(|it| {
        it.private(tag)
            .map_or(0, |private| private.end.abs_diff(private.next))
    });
    if left == 0 {
        refill(tag, |step| step.max(count), false);
    }
    hand_out(tag, count)
}

/// Takes exactly `count` consecutive ids of a tag that this transaction has
/// created.
pub fn take_block(tag: &[u8], count: u64) -> Run {
    refill(tag, |_| count, true);
    hand_out(tag, count)
}

fn hand_out(tag: &[u8], count: u64) -> Run {
    with(|it| {
        let private = it
            .private(tag)
            .expect("the tag was created by this transaction");
        let run = Run {
            first: private.next,
            len: count.min(private.end.abs_diff(private.next)),
        };
        private.next += run.len as i64;
        private.high_water = private.next;
        run
    })
}

/// Grants ids of a private tag by updating its row in this transaction.
fn refill(tag: &[u8], size: impl FnOnce(u64) -> u64, whole: bool) {
    let Some((high_water, last_step)) = with(|it| it.private(tag).map(|p| (p.high_water, p.step)))
    else {
        Error::NoSuchTag(catalog::display(tag)).raise();
    };
    let (grant, step) = xact::writable(|| {
        catalog::as_owner(|| {
            let Some((mut position, row_step)) = catalog::lock_position(tag) else {
                Error::NoSuchTag(catalog::display(tag)).raise();
            };
            position.max_id = position.max_id.max(high_water);
            // Doubling keeps the number of row versions small.
            let ceiling = settings::step_policy().max_step.max(row_step as u64);
            let step = (last_step * 2).clamp(row_step.max(1) as u64, ceiling);
            let count = size(step);
            let grant = match whole {
                true => position.grant_block(count),
                false => position.grant_up_to(count),
            };
            let grant = grant.unwrap_or_else(|_| {
                Error::Exhausted {
                    tag: catalog::display(tag),
                }
                .raise()
            });
            granting(|| catalog::set_position(tag, position.max_id));
            (grant, step)
        })
    });
    let sub = xact::current_sub();
    with(|it| {
        if let Some(private) = it.private(tag) {
            private.next = grant.first;
            private.end = grant.first + grant.len as i64;
            private.granted_in = sub;
            private.step = step;
        }
    });
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

/// Before the commit: the rows of private tags are set to just past the ids
/// that were handed out.
pub fn before_commit() {
    let drawn: Vec<(Vec<u8>, i64, i64)> = with(|it| {
        let end = |tag: &[u8]| {
            it.private[tag]
                .last()
                .map_or(i64::MIN, |private| private.end)
        };
        it.high_waters()
            .map(|(tag, high_water)| (tag.to_vec(), high_water, end(tag)))
            .collect()
    });
    if drawn.is_empty() {
        return;
    }
    xact::with_snapshot(|| {
        xact::writable(|| {
            catalog::as_owner(|| {
                for (tag, high_water, end) in &drawn {
                    let Some((position, _)) = catalog::lock_position(tag) else {
                        continue;
                    };
                    // What this transaction granted to itself last and did not
                    // use goes back.
                    let unused = position.max_id == *end;
                    let max_id = if unused {
                        *high_water
                    } else {
                        position.max_id.max(*high_water)
                    };
                    granting(|| catalog::set_position(tag, max_id));
                }
            })
        })
    });
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
    GRANTING.set(false);
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
    GRANTING.set(false);
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
            for owner in [&mut private.created_in, &mut private.granted_in] {
                if *owner == sub {
                    *owner = parent;
                }
            }
            if private.dropped_in == Some(sub) {
                private.dropped_in = Some(parent);
            }
        }
    });
}

/// After a savepoint was rolled back: tags it created are gone, tags it dropped
/// are back, and what it granted is granted no more.
pub fn after_sub_abort(sub: SubTransactionId) {
    withdraw_request();
    GRANTING.set(false);
    with(|it| {
        if it.private.is_empty() {
            return;
        }
        inval::bump();
        for versions in it.private.values_mut() {
            versions.retain(|private| private.created_in != sub);
            for private in versions {
                if private.dropped_in == Some(sub) {
                    private.dropped_in = None;
                }
                if private.granted_in == sub {
                    (private.next, private.end) = (i64::MIN, i64::MIN);
                }
                private.allowed = None;
            }
        }
    });
}
