//! Grants of tags that only the current transaction draws from ([`own_tags`]): by ordinary updates
//! of their rows.

use leaf_core::Run;
use leaf_core::grant::Grantor;

use super::{error, frontier, own_tags};
use crate::catalog::intent::Move;
use crate::catalog::{self, alloc, relation};
use crate::history;
use crate::pg::xact;
use crate::settings::segment as settings;

/// Takes up to `count` ids of an own tag.
pub fn take(tag: &[u8], count: u64) -> Run {
    if own_tags::left(tag) == 0 {
        refill(tag, Length::AtLeast(count));
    }
    own_tags::hand_out(tag, count)
}

/// Takes exactly `count` consecutive ids of an own tag.
pub fn take_block(tag: &[u8], count: u64) -> Run {
    refill(tag, Length::Exactly(count));
    own_tags::hand_out(tag, count)
}

/// How many ids should be granted.
#[derive(Clone, Copy)]
enum Length {
    AtLeast(u64),
    Exactly(u64),
}

/// Grants ids of an own tag by updating its row in this transaction.
fn refill(tag: &[u8], length: Length) {
    let no_such_tag = || -> ! { error::no_tag_to_draw(tag).raise() };
    let Some(last_step) = own_tags::last_step(tag) else {
        no_such_tag()
    };
    if xact::is_parallel() {
        error::parallel_query(tag).raise();
    }
    let history = history::current();
    let (grant, step) = xact::writable(|| {
        catalog::as_owner(|| {
            let Some(mut row) = frontier::lock(tag) else {
                no_such_tag()
            };
            if row.grantor() == Grantor::Centre {
                error::centre_here(tag).raise();
            }
            // Doubling keeps the number of row versions small.
            let longest = row
                .policy(&settings::step_policy(Grantor::Row))
                .max_step
                .max(row.step);
            let position = &mut row.position;
            let step = (last_step * 2).clamp(row.step, longest);
            let grant = match length {
                Length::AtLeast(count) => position.grant_up_to(step.max(count)),
                Length::Exactly(count) => position.grant_block(count),
            };
            let grant = grant.unwrap_or_else(|_| frontier::exhausted(tag).raise());
            let to = Move {
                to: position.max_id,
                takes_back: false,
            };
            alloc::set_position(tag, to, &history);
            (grant, step)
        })
    });
    own_tags::note_grant(tag, grant, step);
}

/// Called before the commit: sets the rows of own tags to just past the ids that were
/// handed out.
pub fn before_commit() {
    let drawn = own_tags::drawn();
    // The transaction may have dropped the catalog with the extension.
    if drawn.is_empty() || relation::alloc().is_none() {
        return;
    }
    let history = history::current();
    let settle = || {
        for (tag, high_water, end) in &drawn {
            let Some(row) = frontier::lock(tag) else {
                continue;
            };
            // The numbers that this transaction granted to itself last and did not use are
            // given back.
            let is_unused = Some(row.stored) == *end;
            let max_id = match is_unused {
                true => *high_water,
                false => row.position.max_id,
            };
            if max_id != row.stored {
                let to = Move {
                    to: max_id,
                    takes_back: true,
                };
                alloc::set_position(tag, to, &history);
            }
        }
    };
    xact::with_snapshot(|| xact::writable(|| catalog::as_owner(settle)));
}
