//! The privileges of roles for a tag, according to its row of `leaf.alloc`.

use std::ffi::CStr;

use leaf_core::grant::Grantor;
use pgrx::pg_sys;

use super::alloc_row::{self, column};
use super::relation;
use crate::pg::{heap, role};

/// Means all roles among a tag's grantees. No role can have this name.
pub const PUBLIC: &CStr = c"public";

/// The privilege of a role for a tag.
#[derive(Clone, Debug)]
pub struct Permissions {
    /// The identity of the row.
    pub incarnation: [u8; 16],
    /// Whether the role may draw.
    pub may_draw: bool,
    /// Whether the role may alter, grant and drop.
    pub is_owner: bool,
    /// Who grants the tag's numbers.
    pub grantor: Grantor,
    /// Whether the current transaction, or in a parallel worker that of its leader, wrote
    /// the row: other sessions do not see this version.
    pub is_uncommitted: bool,
    /// Numbers in a block of the tag's stripe, the longest block that can be reserved; `None`
    /// if the tag has all numbers.
    pub stripe_width: Option<u64>,
    /// How many ids a session takes at once.
    pub cache: u64,
    /// Whether another node may grant the same numbers, so that nothing may be drawn here.
    pub is_elsewhere: bool,
}

/// `leaf.alloc` and its index, locked so that they can be read.
pub struct Readable {
    _lock: heap::Readable,
    alloc: pg_sys::Oid,
    index: Option<pg_sys::Oid>,
}

/// Waits until `leaf.alloc` can be read, and calls `keep_waiting`, which sleeps or raises
/// an error, as long as it cannot.
pub fn wait_until_readable(mut keep_waiting: impl FnMut()) -> Readable {
    loop {
        let (alloc, index) = (relation::require_alloc(), relation::alloc_index());
        let relations: Vec<_> = [Some(alloc), index].into_iter().flatten().collect();
        let lock = heap::wait_until_readable(&relations, &mut keep_waiting);
        // With the lock, changes of other sessions become visible: they may have dropped
        // the extension and created it again, or the index.
        if (relation::require_alloc(), relation::alloc_index()) == (alloc, index) {
            return Readable {
                _lock: lock,
                alloc,
                index,
            };
        }
    }
}

impl Readable {
    /// The privilege of `user` for a tag, according to its current row; `None` if there is no
    /// row.
    pub fn permissions(&self, tag: &[u8], user: pg_sys::Oid) -> Option<Permissions> {
        heap::find_by_text(self.alloc, self.index, tag, |row| {
            let is = |name: &CStr| {
                let role = role::by_name(name);
                role.is_some_and(|role| role::has_privileges_of(user, role))
            };
            let is_owner = row.name(column::OWNER).is_some_and(is) || role::is_superuser(user);
            let grantees = row.names(column::GRANTEES);
            let may_draw = is_owner
                || grantees
                    .into_iter()
                    .any(|name| *name == *PUBLIC || is(&name));
            Permissions {
                incarnation: row.uuid(column::INCARNATION).unwrap_or_default(),
                may_draw,
                is_owner,
                grantor: alloc_row::grantor_of(row),
                is_uncommitted: row.is_from_this_transaction(),
                stripe_width: alloc_row::own_numbers_of(row).stripe().width(),
                cache: alloc_row::cache_of(row),
                is_elsewhere: alloc_row::may_be_granted_elsewhere(row),
            }
        })
    }
}
