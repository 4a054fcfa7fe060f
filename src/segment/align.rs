//! Moving tags past the largest ids in the columns that draw from them.
//!
//! Users own these columns: nothing of theirs is executed, only tables whose owner could
//! also draw from the tag can move it, and no value that the tag cannot grant does. The table of
//! a role that may draw, but does not own the tag, moves it no farther than a block that the role
//! could reserve, and by half of what is left at most, so that it cannot exhaust it.

use std::collections::{BTreeMap, HashMap};

use leaf_core::grant::{Grantor, MAX_ID, OwnNumbers, Position};
use pgrx::pg_sys;

use super::error::Error;
use super::key::key;
use super::permissions;
use crate::catalog::defaults::{self, DefaultOfTag};
use crate::catalog::permissions::Permissions;
use crate::catalog::{self, alloc, relation};
use crate::error::Problem;
use crate::history;
use crate::patience::{Ids, Patience};
use crate::pg::display;
use crate::pg::relation_lock::{self, Lock};
use crate::settings::segment::max_reserve;
use crate::shmem;

/// The columns whose default draws from a tag, in tables whose owner may draw from it: anybody
/// can set such a default.
pub fn columns_of(tag: &[u8]) -> Vec<DefaultOfTag> {
    let mut columns = catalog::as_owner(defaults::of_tags);
    columns.retain(|it| {
        it.tag.as_deref() == Some(tag) && permissions(tag, it.owner).is_none_or(|it| it.may_draw)
    });
    columns
}

/// Raises an error if the default of a column draws from a tag.
pub fn require_unused(tag: &[u8]) {
    let columns = columns_of(tag).into_iter();
    let columns: Vec<_> = columns.map(|it| display(&it.column)).collect();
    if !columns.is_empty() {
        let tag = display(tag);
        Error::InUse { tag, columns }.raise();
    }
}

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
    /// What was not counted, if anything.
    pub ignored: Option<String>,
}

/// Aligns one tag, or all tags.
pub fn align(tag: Option<&[u8]>) -> Vec<Aligned> {
    lock_catalog(tag);
    if let Some(tag) = tag
        && state_of(tag).is_none()
    {
        Error::NoSuchTag { tag: display(tag) }.raise();
    }
    let mut aligned: Vec<Aligned> = Vec::new();
    let mut reaches = HashMap::new();
    for column in defaults::of_tags() {
        if tag.is_none() || column.tag.as_deref() == tag {
            let mut of_tag = aligned.iter().filter(|it| it.tag == column.tag);
            let before = of_tag.find(|it| it.moved).and(aligned.last());
            let next = align_to(column, before, &mut reaches);
            aligned.push(next);
        }
    }
    keep(&aligned);
    aligned
}

/// Locks `leaf.alloc` for reading and writing: nothing waits for the table later.
fn lock_catalog(tag: Option<&[u8]>) {
    let patience = Patience::new(tag.map_or(Ids::OfTags, Ids::OfTag));
    let _readable = permissions::wait_until_readable(&patience);
    while !relation_lock::lock_at_once(relation::require_alloc(), Lock::ForWriting) {
        patience.nap_or_give_up("table \"leaf.alloc\" is locked by another transaction");
    }
}

/// Keeps the ids that were found in use: unused ids that would be taken back could be among
/// them, or have been taken back meanwhile. The rows are locked only now, so that a long
/// search delays no grant.
fn keep(aligned: &[Aligned]) {
    let mut highest: BTreeMap<&[u8], i64> = BTreeMap::new();
    for column in aligned {
        if let (Some(tag), Some(id)) = (column.tag.as_deref(), column.highest) {
            let kept = highest.entry(tag).or_insert(id);
            *kept = id.max(*kept);
        }
    }
    let history = history::current();
    for (tag, highest) in highest {
        catalog::as_owner(|| match alloc::lock(tag, &history) {
            // Its ids come from the centre, whatever the columns have.
            Some(row) if row.grantor() == Grantor::Centre => {}
            Some(row) if row.position.max_id <= highest => {
                alloc::advance(tag, highest.min(MAX_ID) + 1);
            }
            Some(_) => alloc::raise_floor(tag, highest.saturating_add(1)),
            None => {}
        });
    }
}

/// Moves the tag of a column past the column's largest id. If the tag was moved before,
/// `before` is the result for the previous column. `reaches` is how far tables of roles that do
/// not own a tag can move it, from where it was at first.
fn align_to(
    column: DefaultOfTag,
    before: Option<&Aligned>,
    reaches: &mut HashMap<Vec<u8>, i64>,
) -> Aligned {
    let tag = column.tag.as_deref();
    let mut bounds = Bounds {
        last: MAX_ID,
        reach: MAX_ID,
        numbers: OwnNumbers::ALL,
    };
    if let Some(tag) = tag
        && let Some(state) = state_of(tag)
    {
        bounds = Bounds {
            last: state.last,
            reach: *reaches.entry(tag.to_vec()).or_insert_with(|| state.reach()),
            numbers: state.numbers,
        };
    }
    let mut found = ids_in(&column, tag, &bounds);
    found.is_of_centre = tag.is_some_and(|tag| catalog::as_owner(|| alloc::is_of_centre(tag)));
    // Read after the ids, so that ids drawn in between do not make the tag look behind. If
    // the tag was moved, its position is the one this transaction has set.
    let position = match before {
        Some(before) => before.position,
        None => tag.and_then(state_of).map(|tag| tag.position),
    };
    let moved_to = match (tag, found.highest, position) {
        (Some(tag), Some(highest), Some(position))
            if highest >= position && !found.is_of_centre =>
        {
            Some(move_past(tag, highest))
        }
        _ => None,
    };
    Aligned {
        highest: found.highest,
        position: moved_to.or(position),
        moved: moved_to.is_some(),
        ignored: found.ignored(),
        used_in: column.column,
        tag: column.tag,
    }
}

/// What the tables of a column have.
#[derive(Default)]
struct Found {
    highest: Option<i64>,
    has_outliers: bool,
    has_others: bool,
    has_strangers: bool,
    has_distant: bool,
    has_unreadable: bool,
    has_changed: bool,
    /// Whether the tag cannot be moved, because a centre grants its numbers.
    is_of_centre: bool,
}

impl Found {
    /// What was not counted, for the reader of the result.
    fn ignored(&self) -> Option<String> {
        let reasons = [
            (self.has_outliers, "values that are not ids of the tag"),
            (self.has_others, "ids of other stripes"),
            (
                self.has_strangers,
                "tables whose owner may not draw from the tag",
            ),
            (
                self.has_distant,
                "values far ahead of the tag in tables whose owner does not own it",
            ),
            (
                self.has_unreadable,
                "columns of another type than numbers, and foreign or temporary tables",
            ),
            (
                self.has_changed,
                "tables that were changed meanwhile: call the function again",
            ),
            (
                self.is_of_centre,
                "all of it for the tag's position: its ids come from a centre",
            ),
        ];
        let given: Vec<_> = reasons
            .iter()
            .filter(|(is_given, _)| *is_given)
            .map(|(_, reason)| *reason)
            .collect();
        (!given.is_empty()).then(|| given.join("; "))
    }
}

/// Which ids count.
struct Bounds {
    /// The tag's largest id.
    last: i64,
    /// The largest one that counts in tables of roles that do not own the tag.
    reach: i64,
    /// The numbers that the tag may grant.
    numbers: OwnNumbers,
}

/// The ids in a column that are among the tag's numbers.
fn ids_in(column: &DefaultOfTag, tag: Option<&[u8]>, bounds: &Bounds) -> Found {
    let mut found = Found::default();
    for member in column.members() {
        let Some(readable) = member.column else {
            found.has_unreadable = true;
            continue;
        };
        let permissions = tag.map(|tag| permissions(tag, member.owner));
        // Without a row there is no tag to move.
        let (may_draw, is_owner) = match permissions {
            Some(Some(permissions)) => (permissions.may_draw, permissions.is_owner),
            Some(None) => (true, true),
            None => (false, false),
        };
        if !may_draw {
            found.has_strangers = true;
            continue;
        }
        let limit = match is_owner {
            true => bounds.last,
            false => bounds.reach,
        };
        let Some(summary) = readable.summary(limit, |id| bounds.numbers.has(id)) else {
            found.has_changed = true;
            continue;
        };
        found.highest = found.highest.max(summary.largest);
        match is_owner {
            true => found.has_outliers |= summary.has_outliers,
            false => found.has_distant |= summary.has_outliers,
        }
        found.has_others |= summary.has_others;
    }
    found
}

/// What a role may do with a tag; `None` if there is no such tag.
fn permissions(tag: &[u8], role: pg_sys::Oid) -> Option<Permissions> {
    let readable = permissions::wait_until_readable(&Patience::new(Ids::OfTag(tag)));
    readable.permissions(tag, role)
}

/// A tag as it is now.
struct Extent {
    /// Its next id.
    position: i64,
    /// Its largest id.
    last: i64,
    /// The numbers that it may grant.
    numbers: OwnNumbers,
}

impl Extent {
    /// How far a role that does not own the tag can move it by its tables.
    fn reach(&self) -> i64 {
        let half = self.last.saturating_sub(self.position) / 2;
        let block = i64::try_from(max_reserve()).unwrap_or(i64::MAX);
        self.position.saturating_add(half.min(block))
    }
}

fn state_of(tag: &[u8]) -> Option<Extent> {
    let row = catalog::as_owner(|| alloc::position(tag))?;
    let mut next = None;
    let index = &shmem::require().index;
    index.with(key(tag), |slot| next = slot.buffer.levels().position);
    Some(Extent {
        position: next.unwrap_or_else(|| first_of(&row)),
        last: row.max_value.min(MAX_ID),
        numbers: row.numbers,
    })
}

/// The first id that a row will grant, if it has one left.
fn first_of(row: &Position) -> i64 {
    row.next().unwrap_or(row.max_id)
}

/// Moves a tag past an id and past all granted ids, because buffers may hold ids that
/// are in use. Returns the next id.
fn move_past(tag: &[u8], highest: i64) -> i64 {
    let row = catalog::as_owner(|| alloc::position(tag));
    let granted = row.map_or(highest, |row| row.max_id);
    let max_id = highest.max(granted).min(MAX_ID) + 1;
    catalog::as_owner(|| alloc::advance(tag, max_id));
    row.map_or(max_id, |row| first_of(&Position { max_id, ..row }))
}
