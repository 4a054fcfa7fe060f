//! Tags that only the current transaction draws from, because it has created them.
//!
//! Such a tag is not visible to other sessions. Its ids come from a buffer private to
//! the transaction, and are granted by ordinary updates of the row; see
//! [`own_grants`](crate::session::own_grants).
//! Rolling back a savepoint undoes such an update although its ids may have been seen.
//! The highest id handed out is therefore kept until the transaction ends, and the row
//! is moved past it before the commit.

use std::cell::RefCell;
use std::collections::HashMap;

use leaf_core::Run;
use leaf_core::journal::Journal;
use pgrx::pg_sys::{Oid, SubTransactionId};

use crate::pg::{inval, xact, xact_end};

/// A tag that this transaction has created.
#[derive(Debug, Default)]
struct OwnTag {
    is_dropped: bool,
    /// The last grant; `None` if there was none, or if it was rolled back.
    grant: Option<Grant>,
    /// One past the highest id handed out; `None` before the first.
    high_water: Option<i64>,
    /// Ids in the last grant.
    step: u64,
    /// The role that was found to be allowed to draw, the generation at which it was, and
    /// the row's incarnation.
    allowed: Option<(Oid, u64, [u8; 16])>,
}

impl OwnTag {
    fn left(&self) -> u64 {
        self.grant.map_or(0, |grant| grant.left())
    }
}

/// Numbers that are granted and not handed out yet: `[next, end)`.
#[derive(Clone, Copy, Debug)]
struct Grant {
    next: i64,
    end: i64,
}

impl Grant {
    fn left(&self) -> u64 {
        self.end.abs_diff(self.next)
    }
}

/// An action that a rollback to a savepoint undoes, with the name of the tag.
#[derive(Debug)]
enum Action {
    Create(Vec<u8>),
    Drop(Vec<u8>),
    Grant(Vec<u8>),
}

#[derive(Default)]
struct OwnTags {
    /// The tags of each name, the current one last. A dropped tag may exist again after
    /// its savepoint was rolled back.
    versions: HashMap<Vec<u8>, Vec<OwnTag>>,
    /// In order; consecutive grants of a tag are one.
    actions: Journal<Action>,
}

impl OwnTags {
    fn get(&mut self, tag: &[u8]) -> Option<&mut OwnTag> {
        let latest = self.versions.get_mut(tag)?.last_mut()?;
        (!latest.is_dropped).then_some(latest)
    }

    fn add(&mut self, tag: &[u8], own: OwnTag) {
        self.versions.entry(tag.to_vec()).or_default().push(own);
    }

    /// Records a grant, unless an action that is undone with it implies it.
    fn note_grant(&mut self, sub: SubTransactionId, tag: &[u8]) {
        match self.actions.last_of(sub) {
            Some(Action::Create(last) | Action::Grant(last)) if last == tag => {}
            _ => {
                self.actions.push(sub, Action::Grant(tag.to_vec()));
            }
        }
    }
}

thread_local! {
    static OWN: RefCell<OwnTags> = RefCell::default();
}

fn with<R>(act: impl FnOnce(&mut OwnTags) -> R) -> R {
    OWN.with_borrow_mut(act)
}

/// The transaction has created a tag.
pub fn create(tag: &[u8]) {
    xact_end::involve();
    let sub = xact::current_sub();
    with(|it| {
        it.actions.push(sub, Action::Create(tag.to_vec()));
        it.add(tag, OwnTag::default());
    });
}

/// The transaction has dropped a tag.
pub fn drop_tag(tag: &[u8]) {
    let sub = xact::current_sub();
    with(|it| {
        if let Some(own) = it.get(tag) {
            own.is_dropped = true;
            it.actions.push(sub, Action::Drop(tag.to_vec()));
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
            if let Some(grant) = &mut own.grant {
                grant.next = grant.end;
            }
            own.allowed = None;
        }
    });
}

/// Whether the tag is one of this transaction's own.
pub fn has(tag: &[u8]) -> bool {
    with(|it| it.get(tag).is_some())
}

/// One past the highest id of a tag that this transaction is known to have handed out.
pub fn high_water(tag: &[u8]) -> Option<i64> {
    with(|it| it.get(tag)?.high_water)
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
        let grant = own.grant.as_mut().expect("its grant");
        let run = Run {
            first: grant.next,
            len: count.min(grant.left()),
        };
        grant.next += run.len as i64;
        own.high_water = Some(grant.next);
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
        it.note_grant(sub, tag);
        if let Some(own) = it.get(tag) {
            own.grant = Some(Grant {
                next: grant.first,
                end: grant.first + grant.len as i64,
            });
            own.step = step;
        }
    });
}

/// The own tags of which ids were handed out, each with one past the highest, and where the
/// last grant ends, if it was not rolled back.
pub fn drawn() -> Vec<(Vec<u8>, i64, Option<i64>)> {
    with(|it| {
        let versions = it.versions.iter();
        let latest = versions.filter_map(|(tag, versions)| Some((tag, versions.last()?)));
        latest
            .filter(|(_, own)| !own.is_dropped)
            .filter_map(|(tag, own)| {
                let end = own.grant.map(|grant| grant.end);
                Some((tag.clone(), own.high_water?, end))
            })
            .collect()
    })
}

/// The transaction has ended.
pub fn after_end() {
    with(std::mem::take);
}

/// A savepoint was released: its actions now belong to its parent.
pub fn after_sub_commit(sub: SubTransactionId, parent: SubTransactionId) {
    with(|it| it.actions.release(sub, parent));
}

/// A savepoint was rolled back: tags that it created no longer exist, tags that it
/// dropped exist again, and its grants are no longer valid.
pub fn after_sub_abort(sub: SubTransactionId) {
    with(|it| {
        it.actions
            .roll_back(sub, |action| undo(&mut it.versions, action));
    });
}

/// Undoes the last action.
fn undo(versions: &mut HashMap<Vec<u8>, Vec<OwnTag>>, action: Action) {
    let (Action::Create(tag) | Action::Drop(tag) | Action::Grant(tag)) = &action;
    let Some(of_tag) = versions.get_mut(tag) else {
        return;
    };
    match (&action, of_tag.last_mut()) {
        (Action::Drop(_), Some(own)) => own.is_dropped = false,
        (Action::Grant(_), Some(own)) => own.grant = None,
        (Action::Create(_), _) | (_, None) => {
            of_tag.pop();
        }
    }
    if of_tag.is_empty() {
        versions.remove(tag);
    }
}
