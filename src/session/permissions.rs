//! Who may draw from a tag, and who may alter, grant and drop it.

use pgrx::{PgSqlErrorCode as Code, pg_sys};

use super::error::{self, Privilege};
use super::patience::{Ids, Patience};
use crate::catalog::permissions::{self, Permissions, Readable};
use crate::catalog::{self, alloc};
use crate::error::Report;
use crate::history;
use crate::pg::{process, role};

/// Waits until permissions can be looked up; an error once the time is up.
pub fn wait_until_readable(patience: &Patience<'_>) -> Readable {
    permissions::wait_until_readable(|| {
        patience.nap_or_give_up("table \"leaf.alloc\" is locked by another transaction");
    })
}

/// The privilege of a role for a tag; `None` if there is no such tag.
pub fn of(tag: &[u8], role: pg_sys::Oid) -> Option<Permissions> {
    wait_until_readable(&Patience::new(Ids::OfTag(tag))).permissions(tag, role)
}

/// The row's permissions; an error unless they allow `user` to draw.
pub fn require_draw(readable: &Readable, tag: &[u8], user: pg_sys::Oid) -> Permissions {
    find_to_draw(readable, tag, user).unwrap_or_else(|error| error.raise())
}

/// The row's permissions, if there is a row and they allow `user` to draw.
pub fn find_to_draw(
    readable: &Readable,
    tag: &[u8],
    user: pg_sys::Oid,
) -> Result<Permissions, Report> {
    let permissions = readable.permissions(tag, user);
    let permissions = permissions.ok_or_else(|| error::no_tag_to_draw(tag))?;
    check_may_draw(&permissions, tag, user)?;
    match permissions.is_elsewhere {
        true => Err(error::granted_elsewhere(tag, &permissions)),
        false => Ok(permissions),
    }
}

/// An error unless the permissions of a tag's row allow `user` to draw.
pub fn check_may_draw(
    permissions: &Permissions,
    tag: &[u8],
    user: pg_sys::Oid,
) -> Result<(), Report> {
    match permissions.may_draw {
        true => Ok(()),
        false => Err(error::denied(tag, user, Privilege::Draw)),
    }
}

/// Raises an error unless the current role owns the tag. Locks its row, so that the
/// owner does not change until the transaction ends.
pub fn require_owner(tag: &[u8]) {
    check_owner(tag);
    require_primary();
    catalog::as_owner(|| alloc::lock(tag, &history::current()));
    // A transaction that held the lock before may have changed the owner, or dropped the
    // tag.
    check_owner(tag);
}

/// As [`require_owner`], without a lock.
pub fn check_owner(tag: &[u8]) {
    if !check_owner_if_exists(tag) {
        error::no_such_tag(tag).raise();
    }
}

/// Returns whether the tag exists; an error if it does and the current role does not own it.
pub fn check_owner_if_exists(tag: &[u8]) -> bool {
    let user = role::current();
    let Some(permissions) = of(tag, user) else {
        return false;
    };
    if !permissions.is_owner {
        error::denied(tag, user, Privilege::Own).raise();
    }
    true
}

/// Raises an error if `leaf.alloc` stays locked, by which a tag can be neither read nor
/// created, for as long as a call may wait.
pub fn require_readable(tag: &[u8]) {
    wait_until_readable(&Patience::new(Ids::OfTag(tag)));
}

/// Raises an error while the server is in recovery, when tags cannot be changed.
pub fn require_primary() {
    if process::in_recovery() {
        // When: a function that changes tags, on a standby
        Report::new(
            Code::ERRCODE_READ_ONLY_SQL_TRANSACTION,
            "cannot change tags while the server is in recovery",
            "Change them on the primary.",
        )
        .raise();
    }
}
