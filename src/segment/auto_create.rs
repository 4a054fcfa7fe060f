//! A first draw creates its tag, if `leaf.auto_create` is on: for test databases, and for
//! databases that were restored without the rows of `leaf.alloc`.
//!
//! The loader creates the tag in a transaction of its own, so that the draw is as
//! independent of the caller's transaction as any other.

use pgrx::pg_sys::Oid;

use super::changes::{self, RowState};
use super::key::key;
use super::permissions;
use crate::asking;
use crate::catalog::alloc::{self, NewTag};
use crate::catalog::{self, extension};
use crate::patience::Patience;
use crate::pg::{guc, process, role};
use crate::settings::segment as settings;
use crate::shmem::mailbox::Asked;

/// Creates a tag that does not exist, if that is wanted and `user` may create tags.
pub fn ensure(tag: &[u8], user: Oid, patience: &Patience<'_>) {
    if !settings::auto_create() {
        return;
    }
    // If this transaction has dropped the tag, another one cannot create it.
    if changes::state_of(tag) == RowState::Committed
        && permissions::wait_until_readable(patience)
            .permissions(tag, user)
            .is_none()
        && extension::may_call(user, "leaf_tag_create")
    {
        match process::under_postmaster() {
            true => {
                let owner = user.to_u32();
                asking::ask_loader(key(tag), [0; 16], Asked::Tag { owner }, patience);
            }
            false => insert(tag, user),
        }
    }
}

/// Creates a tag unless it exists.
pub fn insert(tag: &[u8], owner: Oid) {
    let owner = role::name_of(owner);
    // Another transaction may have created it and not ended yet: others do not wait for that.
    guc::with(&[(c"lock_timeout", c"5ms")], || {
        catalog::as_owner(|| alloc::insert(tag, &NewTag::of(&owner)));
    });
}
