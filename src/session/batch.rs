//! Drawing many ids of a tag, one after the other.

use std::collections::VecDeque;

use leaf_core::Run;
use pgrx::pg_sys::Oid;

use super::draw::draw_many;
use super::own_grants;
use super::patience::{Ids, Patience};
use super::tags::{self, KnownTag, Origin, SlotOfTag};
use crate::pg::{inval, process, role};

/// The rest of a batch. It draws step by step, so that a batch of any size needs no
/// more memory than one draw.
pub struct Batch {
    tag: Vec<u8>,
    left: u64,
    drawn: VecDeque<Run>,
    /// The circumstances under which `drawn` was drawn: if they change, the tag is looked up again.
    drawn_under: Option<Under>,
    /// Where the last id of the session is recorded.
    known: Option<&'static KnownTag>,
}

impl Batch {
    /// A batch of `count` ids.
    pub fn new(tag: &[u8], count: u64) -> Self {
        Batch {
            tag: tag.to_vec(),
            left: count,
            drawn: VecDeque::with_capacity(2),
            drawn_under: None,
            known: None,
        }
    }

    /// Looks the tag up, and draws unless there are ids of the same slot and epoch.
    fn draw(&mut self) {
        let patience = Patience::new(Ids::OfTag(&self.tag));
        let mut under = self.drawn_under.take();
        loop {
            let (role, generation) = (role::current(), inval::generation());
            let origin = tags::resolve(&self.tag, &patience);
            if !under.take().is_some_and(|under| under.is_of(&origin)) {
                self.drawn.clear();
            }
            let (incarnation, slot) = match origin {
                Origin::Own(incarnation) => {
                    self.drawn.push_back(own_grants::take(&self.tag, self.left));
                    (incarnation, None)
                }
                Origin::Slot(from) => {
                    if self.drawn.is_empty() {
                        let drawn = draw_from(&from, &self.tag, self.left, &patience);
                        self.drawn.extend(drawn);
                    }
                    (from.incarnation, Some(from))
                }
            };
            self.known = Some(tags::know(&self.tag));
            self.drawn_under = Some(Under {
                role,
                generation,
                incarnation,
                slot,
            });
            if !self.drawn.is_empty() {
                return;
            }
        }
    }
}

/// Draws from a slot, first what the session has taken ahead; nothing if the slot has begun a new
/// epoch.
fn draw_from(
    from: &SlotOfTag,
    tag: &[u8],
    count: u64,
    patience: &Patience<'_>,
) -> impl Iterator<Item = Run> + use<> {
    let ahead = tags::known(tag).and_then(|known| known.cache.take(from.slot, from.epoch, count));
    let drawn = match ahead {
        Some(_) => None,
        None => draw_many(from, tag, count, patience),
    };
    let drawn = drawn.into_iter().flat_map(|runs| runs.iter());
    ahead.into_iter().chain(drawn)
}

/// The circumstances under which ids were drawn.
struct Under {
    role: Oid,
    /// The generation of [`inval`], which changes with every change of a tag by this
    /// transaction, and with its rollback.
    generation: u64,
    incarnation: [u8; 16],
    slot: Option<SlotOfTag>,
}

impl Under {
    fn holds(&self) -> bool {
        self.role == role::current()
            && self.generation == inval::generation()
            && self
                .slot
                .is_none_or(|from| from.slot.buffer.epoch() == from.epoch)
    }

    /// Whether what was drawn is of the same slot and epoch. Of a tag that only the transaction
    /// sees, nothing is kept: a rollback to a savepoint gives its numbers back.
    fn is_of(&self, origin: &Origin) -> bool {
        match (self.slot, origin) {
            (Some(before), Origin::Slot(now)) => {
                std::ptr::eq(before.slot, now.slot)
                    && before.epoch == now.epoch
                    // Compared again: the tag was looked up after its epoch was read.
                    && now.slot.buffer.epoch() == now.epoch
            }
            _ => false,
        }
    }
}

impl Iterator for Batch {
    type Item = i64;

    fn next(&mut self) -> Option<i64> {
        if self.left == 0 {
            return None;
        }
        // While a cursor is open, the tag may be dropped, or the role may change.
        let holds = self.drawn_under.as_ref().is_some_and(Under::holds);
        if !holds || self.drawn.is_empty() {
            process::check_for_interrupts();
            self.draw();
        }
        let run = self.drawn.front_mut()?;
        let id = run.first;
        run.first += 1;
        run.len -= 1;
        if run.len == 0 {
            self.drawn.pop_front();
        }
        self.left -= 1;
        if let (Some(known), Some(under)) = (self.known, &self.drawn_under) {
            known.drew_from(under.incarnation, id);
        }
        Some(id)
    }
}
