//! Drawing from a slot, and waiting for the loader when it is empty.

use std::time::Instant;

use leaf_core::buffer::Runs;

use super::changes::RowState;
use super::patience::Patience;
use super::tags::{self, SlotOfTag};
use super::{error, frontier};
use crate::pg::{clock, database};
use crate::shmem;
use crate::shmem::call::call_loader;
use crate::shmem::slot::Verdict;
use crate::shmem::upstream::Denial;

/// Requests the slot's next segment from the loader. Never waits, never fails.
#[cold]
pub fn request_segment(number: usize) {
    let shared = shmem::require();
    let database = database::current();
    shared.index.request(number, database);
    call_loader(shared, database);
}

/// Draws one id, and waits for the loader if necessary. `None` if the slot has begun a
/// new epoch: the tag has to be resolved again.
pub fn draw(from: &SlotOfTag, tag: &[u8], patience: &Patience<'_>) -> Option<i64> {
    loop {
        if let Some(drawn) = from.slot.buffer.draw() {
            if drawn.due {
                request_segment(from.number);
            }
            return (from.slot.buffer.epoch() == from.epoch).then_some(drawn.id);
        }
        wait(from, tag, patience)?;
    }
}

/// Like [`draw`], for a tag whose ids this session takes ahead, as far as it does.
pub fn draw_ahead(from: &SlotOfTag, tag: &[u8], patience: &Patience<'_>) -> Option<i64> {
    let known = tags::known(tag);
    if let Some(run) = known.and_then(|known| known.cache.take(from.slot, from.epoch, 1)) {
        return Some(run.first);
    }
    let Some(known) = known.filter(|_| from.cache > 1 && from.row == RowState::Committed) else {
        return draw(from, tag, patience);
    };
    loop {
        if let Some(due) = known.cache.fill() {
            if due {
                request_segment(from.number);
            }
            return known.cache.next();
        }
        wait(from, tag, patience)?;
    }
}

/// Like [`draw`], for several ids at once, at most `count`.
pub fn draw_many(
    from: &SlotOfTag,
    tag: &[u8],
    count: u64,
    patience: &Patience<'_>,
) -> Option<Runs> {
    loop {
        if let Some(drawn) = from.slot.buffer.draw_many_at(from.epoch, count) {
            if drawn.due {
                request_segment(from.number);
            }
            return (!drawn.runs.is_empty()).then_some(drawn.runs);
        }
        wait(from, tag, patience)?;
    }
}

/// The end of a wait.
enum End {
    Ids,
    NewEpoch,
    Exhausted,
    Missing,
    Denied(Denial),
    OwnChange,
}

/// Waits until the slot has ids. `None` if it has begun a new epoch.
fn wait(from: &SlotOfTag, tag: &[u8], patience: &Patience<'_>) -> Option<()> {
    let slot = from.slot;
    let shared = shmem::require();
    let began = Instant::now();
    let request = || {
        slot.note_waiting(clock::monotonic());
        shared.index.request(from.number, database::current());
        patience.call_loader(shared);
    };
    match patience.wait_on(&slot.changed, || look(from), request) {
        Some(End::Ids) => slot.waits.add(began.elapsed()),
        Some(End::NewEpoch) => return None,
        Some(End::Exhausted) => {
            if frontier::left(tag) == 0 {
                frontier::exhausted(tag).raise();
            }
            // Less is skipped since then.
            slot.state.write().verdict = Verdict::Loadable;
            patience.nap();
            return None;
        }
        Some(End::OwnChange) => error::own_change(tag).raise(),
        Some(End::Denied(denial)) => {
            // A change at the centre shows when the next caller asks.
            slot.state.write().verdict = Verdict::Loadable;
            error::of_denial(tag, denial).raise()
        }
        Some(End::Missing) => {
            // The row may exist by now. Resolving the tag again shows whether it does.
            tags::forget(tag);
            slot.state.write().verdict = Verdict::Loadable;
            patience.nap();
            return None;
        }
        None => {
            slot.waits.add_timeout(began.elapsed());
            let cause = patience.last_cause(&mut slot.state.write().failures);
            patience.give_up(cause);
        }
    }
    Some(())
}

/// The reason to end the wait; `None` if there is still something to wait for.
fn look(from: &SlotOfTag) -> Option<End> {
    let slot = from.slot;
    if slot.buffer.epoch() != from.epoch {
        return Some(End::NewEpoch);
    }
    if slot.buffer.has_ids() {
        return Some(End::Ids);
    }
    let verdict = slot.state.read().verdict;
    match (verdict, from.row) {
        (Verdict::Exhausted, _) => Some(End::Exhausted),
        (Verdict::Missing, _) => Some(End::Missing),
        (Verdict::Denied(denial), _) => Some(End::Denied(denial)),
        (Verdict::Loadable, RowState::Committed) => None,
        (Verdict::Loadable, RowState::Changed | RowState::Created) => Some(End::OwnChange),
    }
}
