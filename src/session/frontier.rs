//! The first number of a tag that nobody has been given.
//!
//! Code that continues a tag's numbers other than by a grant of the loader asks here: a
//! transaction that draws from its own tag or commits it, an attachment to a tag of the centre, a
//! release of a column to a sequence, an alignment. The row alone does not know: it may be a copy
//! that lacks grants of an earlier history, an update of it may have been rolled back to a
//! savepoint, and it may have been moved back behind the triggers.

use leaf_core::grant::{Grantor, Row};
use pgrx::PgSqlErrorCode as Code;

use super::key::key;
use super::{error, own_tags};
use crate::catalog::{self, alloc};
use crate::error::Report;
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
        error::no_such_tag(tag).raise();
    };
    if row.is_shared() {
        // When: `leaf_column_release` of a column whose tag has a stripe or is fed
        Report::not_ready(
            format!("other nodes have numbers of tag \"{}\", too", display(tag)),
            "Move it with leaf_tag_alter above the numbers of all nodes. To have a sequence in its place, drop the default with ALTER TABLE, and choose numbers that no other node has.",
        )
        .detail("The tag has a stripe of the numbers, or a centre feeds it.")
        .raise();
    }
    row
}

/// How many numbers a tag's row can grant; 0 if there is no such tag. One that a centre feeds
/// grants none: if it is exhausted, the centre's numbers are above its maximum.
pub fn left(tag: &[u8]) -> u64 {
    look(tag).map_or(0, |row| row.position.left())
}

/// The row of a tag, if it grants numbers itself.
fn look(tag: &[u8]) -> Option<Row> {
    let row = catalog::as_owner(|| alloc::look(tag, &history::current()));
    row.filter(|row| row.grantor() == Grantor::Row)
}

/// The error of a tag that has too few ids left.
pub fn exhausted(tag: &[u8]) -> Report {
    let row = look(tag);
    let left = row.map_or(0, |row| row.position.left());
    let held_back = row.map_or(0, |row| row.left_as_stored() - left);
    let tag = display(tag);
    if left > 0 {
        let most = row.map_or(0, |row| row.position.most_at_once());
        // When: a block of more ids than are left, or than a ten-thousandth of them; DETAIL says
        // how many
        return Report::new(
            Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
            format!("tag \"{tag}\" has too few ids left for such a block"),
            "Ask for fewer ids at once, or raise max_value with leaf_tag_alter.",
        )
        .detail(format!(
            "{left} ids are left, of which a block can have {most}."
        ));
    }
    if held_back > 0 {
        // When: the [skip](../concepts.md#history) after a promotion, a restore or a copy reaches
        // the end of the tag; DETAIL says how many are left
        return Report::new(
            Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
            format!("tag \"{tag}\" has only ids left that are held back"),
            "Raise max_value with leaf_tag_alter; or, if it has handed out none of them, lower leaf.history_skip until the next grant.",
        )
        .detail(format!("{held_back} ids are left, which the server may have handed out before it was promoted, restored or copied."));
    }
    // When: a draw or a block beyond `max_value`
    Report::new(
        Code::ERRCODE_SEQUENCE_GENERATOR_LIMIT_EXCEEDED,
        format!("tag \"{tag}\" has reached its maximum value"),
        "Raise max_value with leaf_tag_alter.",
    )
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
