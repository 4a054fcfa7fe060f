//! `leaf.mask_secret`: what the keys of masks are derived from.
//!
//! A table of its own, because others see `leaf.alloc`: the owner of the database has to, for a
//! dump. There can be several secrets, the database's own and those that came with tags from
//! elsewhere; the row of a tag names its own.

use pgrx::pg_sys;

use super::permissions::MaskSource;
use super::relation;
use crate::pg::heap;

/// Columns of `leaf.mask_secret`.
mod column {
    pub const ID: i16 = 1;
    pub const SECRET: i16 = 2;
}

/// How many zeros precede a secret.
const ZEROS: usize = 32;

/// The secret of the masks of a tag, if this database has it. Its wait for the table is as in
/// [`heap::wait_until_readable`].
pub fn secret(source: &MaskSource, keep_waiting: impl FnMut()) -> Option<Vec<u8>> {
    let (table, index) = found()?;
    let relations: Vec<_> = [Some(table), index].into_iter().flatten().collect();
    let _lock = heap::wait_until_readable(&relations, keep_waiting);
    heap::find_by_uuid(table, index, source.secret_id?, |row| {
        let secret = row.bytes(column::SECRET)?.get(ZEROS..)?;
        Some(secret.to_vec())
    })?
}

/// A secret of this database, for a tag that has none.
pub fn any_id() -> Option<[u8; 16]> {
    let (table, index) = found()?;
    heap::any_row(table, index, |row| row.uuid(column::ID))?
}

/// Whether a role may choose of which secret, and with which salt, the masks of a new row are:
/// another one would get the keys of other tags by naming theirs.
pub fn may_choose(role: pg_sys::Oid) -> bool {
    found().is_none_or(|(table, _)| heap::may_insert(role, table))
}

fn found() -> Option<(pg_sys::Oid, Option<pg_sys::Oid>)> {
    let [table, index] = relation::mask_secret();
    table.map(|table| (table, index))
}
