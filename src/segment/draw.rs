//! Drawing from a slot, and waiting for the loader when it is empty.

use std::sync::atomic::Ordering;
use std::time::Instant;

use leaf_core::buffer::Runs;

use crate::catalog;
use crate::error::{Error, Ids};
use crate::patience::Patience;
use crate::pg;
use crate::session::{self, SharedSource};
use crate::shmem::slot::Verdict;

/// Asks the loader for the slot's next segment. Never waits, never fails.
#[cold]
pub fn request_load(number: usize) {
    let shared = session::shared();
    let database = pg::database().to_u32();
    shared.request(number, database);
    shared.call_loader(database);
}

/// Draws one id, waiting for the loader if need be. `None` when the slot has
/// begun a new epoch: resolve the tag again.
pub fn draw(source: &SharedSource, tag: &[u8], patience: &Patience) -> Option<i64> {
    loop {
        if let Some(drawn) = source.slot.buffer.draw() {
            if drawn.due {
                request_load(source.number);
            }
            return (source.slot.buffer.epoch() == source.epoch).then_some(drawn.id);
        }
        wait(source, tag, patience)?;
    }
}

/// As [`draw`] for several ids at once, at most `count`.
pub fn draw_many(
    source: &SharedSource,
    tag: &[u8],
    count: u64,
    patience: &Patience,
) -> Option<Runs> {
    loop {
        if let Some(drawn) = source.slot.buffer.draw_many(count) {
            if drawn.due {
                request_load(source.number);
            }
            return (source.slot.buffer.epoch() == source.epoch).then_some(drawn.runs);
        }
        wait(source, tag, patience)?;
    }
}

/// What ends a wait.
enum End {
    Ids,
    NewEpoch,
    Exhausted,
    Missing,
    TimedOut,
}

/// Waits until the slot has ids. `None` when it has begun a new epoch.
fn wait(source: &SharedSource, tag: &[u8], patience: &Patience) -> Option<()> {
    let slot = source.slot;
    let began = Instant::now();
    let end = slot.changed.wait_for(
        || {
            if let Some(end) = look(source) {
                return Some(end);
            }
            if source.own_change {
                Error::OwnChange {
                    tag: catalog::display(tag),
                }
                .raise();
            }
            if patience.is_over() {
                return Some(End::TimedOut);
            }
            session::shared().request(source.number, pg::database().to_u32());
            patience.call_loader();
            None
        },
        || patience.next_nap(),
    );
    match end {
        End::Ids => slot.waits.add(began.elapsed()),
        End::NewEpoch => return None,
        End::Exhausted => Error::Exhausted {
            tag: catalog::display(tag),
        }
        .raise(),
        End::Missing => {
            // The row may have appeared since; resolving the tag anew tells.
            session::forget(tag);
            slot.state.exclusive().verdict = Verdict::Loadable;
            patience.nap();
            return None;
        }
        End::TimedOut => {
            slot.waits.timeouts.fetch_add(1, Ordering::Relaxed);
            let cause = slot.state.shared().error.message();
            patience.give_up(Ids::of(tag), cause);
        }
    }
    Some(())
}

/// Whether there is anything to wait for.
fn look(source: &SharedSource) -> Option<End> {
    let slot = source.slot;
    if slot.buffer.epoch() != source.epoch {
        return Some(End::NewEpoch);
    }
    if slot.buffer.has_ids() {
        return Some(End::Ids);
    }
    match slot.state.shared().verdict {
        Verdict::Loadable => None,
        Verdict::Exhausted => Some(End::Exhausted),
        Verdict::Missing => Some(End::Missing),
    }
}
