//! Tags that only the current transaction draws from, because it has created them, or
//! because there is no other session; see [`single_user`](super::single_user).
//!
//! Such a tag is not visible to other sessions. Its ids come from a buffer private to
//! the transaction, and are granted by ordinary updates of the row; see
//! [`own_grants`](super::own_grants).
//! Rolling back a savepoint undoes such an update although its ids may have been seen.
//! The highest id handed out is therefore kept until the transaction ends, and the row
//! is moved past it before the commit.

use std::cell::RefCell;
use std::collections::HashMap;

use leaf_core::Run;
use leaf_core::journal::Journal;
use pgrx::pg_sys::{Oid, SubTransactionId};

use crate::pg::{inval, process, xact, xact_end};

/// A tag that this transaction has created.
#[derive(Debug)]
struct OwnTag {
    /// The numbers of the actions that created it (`None` if it was adopted) and dropped
    /// it; see [`OwnTags::actions`].
    created: Option<usize>,
    dropped: Option<usize>,
    /// Granted and not handed out yet: `[next, end)`; both are `i64::MIN` if no grant is
    /// valid.
    next: i64,
    end: i64,
    /// The number of the action that granted them.
    granted: usize,
    /// One past the highest id handed out; `i64::MIN` before the first.
    high_water: i64,
    /// Whether it got this name from another one. It then gives no ids before the commit: if
    /// they were drawn under this name, a rollback to a savepoint would leave the earlier name
    /// without a trace of them.
    is_renamed: bool,
    /// Ids in the last grant.
    step: u64,
    /// The role that was found to be allowed to draw, the generation at which it was, and
    /// the row's incarnation.
    allowed: Option<(Oid, u64, [u8; 16])>,
}

impl OwnTag {
    fn new(created: Option<usize>, high_water: i64) -> Self {
        OwnTag {
            created,
            dropped: None,
            next: i64::MIN,
            end: i64::MIN,
            granted: 0,
            high_water,
            is_renamed: false,
            step: 0,
            allowed: None,
        }
    }

    fn is_alive(&self) -> bool {
        self.dropped.is_none()
    }

    /// One past the highest id handed out, if any was and the tag is alive.
    fn high_water(&self) -> Option<i64> {
        (self.is_alive() && self.high_water != i64::MIN).then_some(self.high_water)
    }

    fn left(&self) -> u64 {
        self.end.abs_diff(self.next)
    }

    /// Undoes the action with this number and all later ones.
    fn undo(&mut self, number: usize) {
        if self.dropped.is_some_and(|dropped| dropped >= number) {
            self.dropped = None;
        }
        if self.granted >= number {
            (self.next, self.end) = (i64::MIN, i64::MIN);
        }
    }
}

#[derive(Default)]
struct OwnTags {
    /// The tags of each name, the current one last. A dropped tag may exist again after
    /// its savepoint was rolled back.
    versions: HashMap<Vec<u8>, Vec<OwnTag>>,
    /// For each creation, drop and grant, in order: its tag.
    actions: Journal<Vec<u8>>,
}

impl OwnTags {
    fn get(&mut self, tag: &[u8]) -> Option<&mut OwnTag> {
        let latest = self.versions.get_mut(tag)?.last_mut()?;
        latest.is_alive().then_some(latest)
    }

    fn add(&mut self, tag: &[u8], own: OwnTag) {
        self.versions.entry(tag.to_vec()).or_default().push(own);
    }

    /// Records an action; returns its number.
    fn note(&mut self, sub: SubTransactionId, tag: &[u8]) -> usize {
        match self.actions.last_of(sub) {
            Some((number, last)) if last == tag => number,
            _ => self.actions.push(sub, tag.to_vec()),
        }
    }

    fn high_waters(&self) -> impl Iterator<Item = (&[u8], &OwnTag, i64)> {
        let latest = self
            .versions
            .iter()
            .filter_map(|(tag, versions)| Some((tag.as_slice(), versions.last()?)));
        latest.filter_map(|(tag, own)| Some((tag, own, own.high_water()?)))
    }
}

thread_local! {
    static OWN: RefCell<OwnTags> = RefCell::default();
    /// Without other sessions: one past the highest id of each tag that transactions handed
    /// out that were rolled back.
    static UNDONE: RefCell<HashMap<Vec<u8>, i64>> = RefCell::default();
}

fn with<R>(act: impl FnOnce(&mut OwnTags) -> R) -> R {
    OWN.with_borrow_mut(act)
}

/// The transaction has created a tag.
pub fn create(tag: &[u8]) {
    xact_end::involve();
    let sub = xact::current_sub();
    with(|it| {
        let created = it.actions.push(sub, tag.to_vec());
        it.add(tag, OwnTag::new(Some(created), i64::MIN));
    });
}

/// Allows this transaction to grant ids of a tag to itself, from `above` on, as if it
/// had created the tag.
pub fn adopt(tag: &[u8], above: i64) {
    if state_of(tag) == Own::No {
        xact_end::involve();
        with(|it| it.add(tag, OwnTag::new(None, above)));
    }
}

/// The transaction has given a tag another name, under which it gives no ids before the commit.
/// `high_water` is one past the highest id handed out.
pub fn rename(from: &[u8], to: &[u8], high_water: i64) {
    drop_tag(from);
    create(to);
    with(|it| {
        if let Some(own) = it.get(to) {
            own.high_water = high_water;
            own.is_renamed = true;
        }
    });
}

/// The transaction has dropped a tag.
pub fn drop_tag(tag: &[u8]) {
    let sub = xact::current_sub();
    with(|it| {
        if it.get(tag).is_some() {
            let dropped = it.actions.push(sub, tag.to_vec());
            if let Some(own) = it.get(tag) {
                own.dropped = Some(dropped);
            }
        }
    });
}

/// The transaction has dropped all tags.
pub fn drop_all() {
    let tags: Vec<_> = with(|it| it.versions.keys().cloned().collect());
    for tag in tags {
        drop_tag(&tag);
    }
}

/// The tag's row has changed: ids that it has granted and that were not handed out are
/// discarded.
pub fn forget_grant(tag: &[u8]) {
    with(|it| {
        if let Some(own) = it.get(tag) {
            own.next = own.end;
            own.allowed = None;
        }
    });
}

/// What the current transaction may do with a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// The tag is not one of its own.
    No,
    /// It draws from the tag.
    Drawn,
    /// It has renamed the tag, and gets no ids of it.
    Renamed,
}

/// Whether the tag is one of this transaction's own.
pub fn state_of(tag: &[u8]) -> Own {
    with(|it| match it.get(tag) {
        None => Own::No,
        Some(own) if own.is_renamed => Own::Renamed,
        Some(_) => Own::Drawn,
    })
}

/// One past the highest id of a tag that this transaction, or one before it that was rolled back,
/// is known to have handed out; `i64::MIN` if none is.
pub fn high_water(tag: &[u8]) -> i64 {
    let own = with(|it| it.get(tag).map_or(i64::MIN, |own| own.high_water));
    let undone = UNDONE.with_borrow(|undone| undone.get(tag).copied());
    own.max(undone.unwrap_or(i64::MIN))
}

/// The tags of which transactions that were rolled back have handed out ids, each with one past
/// the highest.
pub fn take_undone() -> HashMap<Vec<u8>, i64> {
    UNDONE.take()
}

/// Whether the transaction has had no own tag.
pub fn is_empty() -> bool {
    with(|it| it.versions.is_empty())
}

/// Calls `check`, which raises an error unless `user` may draw from the tag, and returns the
/// incarnation of its row. It is not called again while nothing has changed.
pub fn permit(tag: &[u8], user: Oid, check: impl FnOnce() -> [u8; 16]) -> [u8; 16] {
    let now = (user, inval::generation());
    let known = with(|it| it.get(tag)?.allowed);
    if let Some((role, generation, incarnation)) = known
        && (role, generation) == now
    {
        return incarnation;
    }
    let incarnation = check();
    with(|it| {
        if let Some(own) = it.get(tag) {
            own.allowed = Some((now.0, now.1, incarnation));
        }
    });
    incarnation
}

/// How many ids of an own tag are granted and not handed out.
pub fn left(tag: &[u8]) -> u64 {
    with(|it| it.get(tag).map_or(0, |own| own.left()))
}

/// Hands out up to `count` of them.
pub fn hand_out(tag: &[u8], count: u64) -> Run {
    with(|it| {
        let own = it.get(tag).expect("the tag was granted from just now");
        let run = Run {
            first: own.next,
            len: count.min(own.left()),
        };
        own.next += run.len as i64;
        own.high_water = own.next;
        run
    })
}

/// Ids in the last grant of an own tag; `None` if there is no such tag.
pub fn last_step(tag: &[u8]) -> Option<u64> {
    with(|it| it.get(tag).map(|own| own.step))
}

/// The transaction has granted ids of an own tag to itself.
pub fn note_grant(tag: &[u8], grant: Run, step: u64) {
    let sub = xact::current_sub();
    with(|it| {
        let granted = it.note(sub, tag);
        if let Some(own) = it.get(tag) {
            own.next = grant.first;
            own.end = grant.first + grant.len as i64;
            own.granted = granted;
            own.step = step;
        }
    });
}

/// The own tags of which ids were handed out, each with one past the highest, and where the
/// last grant ends.
pub fn drawn() -> Vec<(Vec<u8>, i64, i64)> {
    with(|it| {
        it.high_waters()
            .map(|(tag, own, high_water)| (tag.to_vec(), high_water, own.end))
            .collect()
    })
}

/// The transaction has committed.
pub fn after_commit() {
    with(std::mem::take);
}

/// The transaction was rolled back. Ids of tags that existed before it stay handed out, whatever
/// it has done to the tags since. (Where there are other sessions, only tags that it has created
/// are its own.)
pub fn after_abort() {
    let own = with(std::mem::take);
    if process::under_postmaster() {
        return;
    }
    let versions = own.versions.into_iter();
    let all = versions
        .flat_map(|(tag, versions)| versions.into_iter().map(move |own| (tag.clone(), own)));
    UNDONE.with_borrow_mut(|undone| {
        for (tag, own) in all.filter(|(_, own)| own.created.is_none()) {
            let known = undone.entry(tag).or_insert(i64::MIN);
            *known = own.high_water.max(*known);
        }
    });
}

/// A savepoint was released: its actions now belong to its parent.
pub fn after_sub_commit(sub: SubTransactionId, parent: SubTransactionId) {
    with(|it| it.actions.release(sub, parent));
}

/// A savepoint was rolled back: tags that it created no longer exist, tags that it
/// dropped exist again, and its grants are no longer valid.
pub fn after_sub_abort(sub: SubTransactionId) {
    with(|it| {
        it.actions.roll_back(sub, |number, tag| {
            let Some(versions) = it.versions.get_mut(&tag) else {
                return;
            };
            versions.retain(|own| own.created.is_none_or(|created| created < number));
            for own in versions.iter_mut() {
                own.undo(number);
            }
            if versions.is_empty() {
                it.versions.remove(&tag);
            }
        });
    });
}
