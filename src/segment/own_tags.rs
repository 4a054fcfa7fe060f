//! Tags that only the present transaction draws from, because it has created
//! them (or because there is nobody else: see [`alone`](crate::alone)).
//!
//! Such a tag is visible to nobody else. Its ids come from a buffer private to
//! the transaction, granted by ordinary updates of the row; see [`take`]. A
//! rolled-back savepoint undoes such an update although its ids may have been
//! seen, so the highest id handed out is kept until the transaction ends, and
//! the row is brought up to it before the commit.

use leaf_core::buffer::Run;
use pgrx::pg_sys::{Oid, SubTransactionId};

use super::{granting, involve, with};
use crate::catalog;
use crate::error::Error;
use crate::pg::{inval, xact};
use crate::settings;

/// A tag that this transaction has created.
#[derive(Debug)]
pub struct Private {
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
    allowed: Option<(Oid, u64)>,
}

/// The subtransaction that is the whole transaction.
const TOP: SubTransactionId = 1;

impl Private {
    /// A tag created just now.
    pub fn new(created_in: SubTransactionId) -> Self {
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

    /// Whether the tag has not been dropped since.
    pub fn is_alive(&self) -> bool {
        self.dropped_in.is_none()
    }

    /// One past the highest id handed out, if any was and the tag is alive.
    pub fn high_water(&self) -> Option<i64> {
        (self.is_alive() && self.high_water != i64::MIN).then_some(self.high_water)
    }

    /// The tag was dropped by the subtransaction.
    pub fn drop_in(&mut self, sub: SubTransactionId) {
        self.dropped_in.get_or_insert(sub);
    }

    /// The row has changed: what was granted of it and not handed out is not
    /// used any more.
    pub fn forget_grant(&mut self) {
        self.next = self.end;
        self.allowed = None;
    }

    /// Whether the subtransaction created the tag.
    pub fn was_created_in(&self, sub: SubTransactionId) -> bool {
        self.created_in == sub
    }

    /// What the subtransaction did is its parent's now.
    pub fn after_sub_commit(&mut self, sub: SubTransactionId, parent: SubTransactionId) {
        for owner in [&mut self.created_in, &mut self.granted_in] {
            if *owner == sub {
                *owner = parent;
            }
        }
        if self.dropped_in == Some(sub) {
            self.dropped_in = Some(parent);
        }
    }

    /// What the subtransaction did is undone.
    pub fn after_sub_abort(&mut self, sub: SubTransactionId) {
        if self.dropped_in == Some(sub) {
            self.dropped_in = None;
        }
        if self.granted_in == sub {
            (self.next, self.end) = (i64::MIN, i64::MIN);
        }
        self.allowed = None;
    }
}

/// Lets this transaction grant ids of a tag to itself, from `above` on, as if
/// it had created the tag.
pub fn adopt(tag: &[u8], above: i64) {
    involve();
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
pub fn is_allowed(tag: &[u8], user: Oid) -> bool {
    let now = Some((user, inval::generation()));
    with(|it| {
        it.private(tag)
            .is_some_and(|private| private.allowed == now)
    })
}

/// Remembers that `user` may draw from the private tag.
pub fn allow(tag: &[u8], user: Oid) {
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
    if xact::is_parallel() {
        Error::ParallelQuery {
            tag: catalog::display(tag),
        }
        .raise();
    }
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
    // The transaction may have dropped the catalog with the extension.
    if drawn.is_empty() || catalog::alloc().is_none() {
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
                    if max_id != position.max_id {
                        granting(|| catalog::set_position(tag, max_id));
                    }
                }
            })
        })
    });
}
