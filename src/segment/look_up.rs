//! Looking up in the catalog what a role may do with a tag.

use pgrx::pg_sys;

use super::error::Error;
use crate::catalog::permissions::{self, Permissions, Readable};
use crate::error::Problem;
use crate::patience::Patience;
use crate::pg::{display, role};

/// Waits until permissions can be looked up; an error once the time is up.
pub fn wait_until_readable(patience: &Patience<'_>) -> Readable {
    permissions::wait_until_readable(|| {
        patience.nap_or_give_up("table \"leaf.alloc\" is locked by another transaction");
    })
}

/// The row's permissions; an error unless they allow `user` to draw.
pub fn require_draw(readable: &Readable, tag: &[u8], user: pg_sys::Oid) -> Permissions {
    let Some(permissions) = readable.permissions(tag, user) else {
        Error::NoSuchTag { tag: display(tag) }.raise();
    };
    require_may_draw(&permissions, tag, user);
    permissions
}

/// An error unless the permissions of a tag's row allow `user` to draw.
pub fn require_may_draw(permissions: &Permissions, tag: &[u8], user: pg_sys::Oid) {
    if !permissions.may_draw {
        Error::MayNotDraw {
            tag: display(tag),
            role: display(role::name_of(user).to_bytes()),
        }
        .raise();
    }
}
