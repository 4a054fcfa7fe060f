//! Moving tags past the largest ids in the columns that draw from them.

use leaf_core::grant::MAX_ID;
use pgrx::pg_sys;

use super::error::Error;
use super::key::key;
use super::owner::require_owner;
use crate::catalog::defaults::{self, DefaultOfTag};
use crate::catalog::{self, alloc};
use crate::error::Problem;
use crate::pg::display;
use crate::shmem;

/// A column, and the position of its tag now.
pub struct Aligned {
    /// The tag; `None` if it is not a constant in the default.
    pub tag: Option<Vec<u8>>,
    /// The column.
    pub used_in: Vec<u8>,
    /// The largest id in the column.
    pub highest: Option<i64>,
    /// The next id of the tag.
    pub position: Option<i64>,
    /// Whether the tag was moved.
    pub moved: bool,
}

/// Aligns one tag, or all tags. `sibling` is any function of the extension.
pub fn align(tag: Option<&[u8]>, sibling: pg_sys::Oid) -> Vec<Aligned> {
    if let Some(tag) = tag
        && position(tag).is_none()
    {
        Error::NoSuchTag { tag: display(tag) }.raise();
    }
    let mut aligned: Vec<Aligned> = Vec::new();
    for column in defaults::of_tags(sibling) {
        if tag.is_none() || column.tag.as_deref() == tag {
            let mut of_tag = aligned.iter().filter(|it| it.tag == column.tag);
            let before = of_tag.find(|it| it.moved).and(aligned.last());
            let next = align_to(column, before);
            aligned.push(next);
        }
    }
    aligned
}

/// Moves the tag of a column past the column's largest id. If the tag was moved before,
/// `before` is the result for the previous column.
fn align_to(column: DefaultOfTag, before: Option<&Aligned>) -> Aligned {
    let highest = column.largest();
    let tag = column.tag;
    // Read after the maximum, so that ids drawn in between do not make the tag look
    // behind. If the tag was moved, its position is the one this transaction has set.
    let position = match before {
        Some(before) => before.position,
        None => tag.as_deref().and_then(position),
    };
    let behind = match (&tag, highest, position) {
        (Some(tag), Some(highest), Some(position)) if highest >= position => Some((tag, highest)),
        _ => None,
    };
    let moved_to = behind.map(|(tag, highest)| move_past(tag, highest));
    Aligned {
        used_in: column.column,
        highest,
        position: moved_to.or(position),
        moved: moved_to.is_some(),
        tag,
    }
}

/// The next id of a tag, if there is such a tag.
fn position(tag: &[u8]) -> Option<i64> {
    let max_id = catalog::as_owner(|| alloc::max_id(tag))?;
    let mut position = None;
    let index = &shmem::require().index;
    index.with(key(tag), |slot| position = slot.buffer.levels().position);
    Some(position.unwrap_or(max_id))
}

/// Moves a tag past an id and past all granted ids, because buffers may hold ids that
/// are in use. Returns the next id.
fn move_past(tag: &[u8], highest: i64) -> i64 {
    require_owner(tag);
    let granted = catalog::as_owner(|| alloc::max_id(tag)).unwrap_or(highest);
    let next = highest.max(granted).min(MAX_ID) + 1;
    catalog::as_owner(|| alloc::update(tag, None, Some(next), None, None));
    next
}
