//! From which number on nothing of a tag was handed out.
//!
//! Whoever continues a tag's numbers other than by a grant of the loader asks here: a
//! transaction that draws from its own tag or commits it, an attachment to a tag of the centre, a
//! release of a column to a sequence, an alignment. The row alone does not know: it may be a copy
//! that lacks grants of an earlier history, an update of it may have been rolled back to a
//! savepoint, and it may have been moved back behind the triggers.

use leaf_core::grant::Row;

use super::error::{Error, Left, Refusal};
use super::key::key;
use super::own_tags;
use crate::catalog::{self, alloc};
use crate::error::Problem;
use crate::pg::display;
use crate::{history, shmem};

/// A tag's row, locked until the transaction ends: at its position and above, nothing was handed
/// out. `None` if there is no such tag.
pub fn lock(tag: &[u8]) -> Option<Row> {
    let mut row = catalog::as_owner(|| alloc::lock(tag, &history::current()))?;
    if let Some(handed_out) = handed_out(tag, row.incarnation) {
        row.position.max_id = row.position.max_id.max(handed_out);
    }
    Some(row)
}

/// As [`lock`]; an error if there is no such tag, or if other nodes get numbers of it, too. Then
/// its numbers from its position on are this database's alone.
pub fn lock_own(tag: &[u8]) -> Row {
    let Some(row) = lock(tag) else {
        Error::NoSuchTag { tag: display(tag) }.raise();
    };
    if row.is_shared() {
        Refusal::SharedLine.raise(tag);
    }
    row
}

/// What is left of a tag; nothing if there is no such tag.
pub fn left(tag: &[u8]) -> Left {
    let row = catalog::as_owner(|| alloc::look(tag, &history::current()));
    row.map_or_else(Left::default, |row| Left {
        numbers: row.position.left(),
        held_back: row.left_as_stored() - row.position.left(),
        most_at_once: row.position.most_at_once(),
    })
}

/// The error of a tag that has too few ids left.
pub fn exhausted(tag: &[u8]) -> Error {
    let left = left(tag);
    let tag = display(tag);
    Error::Exhausted { tag, left }
}

/// One past the largest number of a tag that memory or this session knows to be handed out.
fn handed_out(tag: &[u8], incarnation: [u8; 16]) -> Option<i64> {
    let mut published = None;
    let index = &shmem::require().index;
    if index
        .find(key(tag))
        .is_some_and(|found| found.incarnation == incarnation)
    {
        index.with(key(tag), |slot| {
            published = Some(slot.state.read().high_water)
        });
    }
    // A slot has `i64::MIN` before its first load.
    let published = published.filter(|&high_water| high_water != i64::MIN);
    published.max(own_tags::high_water(tag))
}
