//! Keeping tags: create, alter, drop, grant, revoke.

use std::ffi::{CStr, CString};

use pgrx::prelude::*;
use pgrx::{AnyElement, pg_sys};

use super::segment::{bad_argument, checked};
use crate::catalog;
use crate::error::Error;
use crate::pg::{args, role};
use crate::session;

#[pg_extern(sql = false)]
fn leaf_tag_create(
    tag: Option<AnyElement>,
    step: Option<i32>,
    start: Option<i64>,
    max_value: Option<i64>,
    description: Option<AnyElement>,
) {
    session::shared();
    let tag = required_tag(tag);
    let step = checked_step(step.unwrap_or_else(|| missing("step")));
    let start = start.unwrap_or_else(|| missing("start"));
    let max_value = max_value.unwrap_or_else(|| missing("max_value"));
    if max_value < start {
        bad_argument(
            format!("max_value {max_value} is less than start {start}"),
            "A tag grants the ids from start to max_value.",
        );
    }
    let description = checked_description(description);
    let owner = role::name_of(role::current());
    let created =
        catalog::as_owner(|| catalog::insert(tag, step, start, max_value, description, &owner));
    if !created {
        Error::TagExists(catalog::display(tag)).raise();
    }
}

#[pg_extern(sql = false)]
fn leaf_tag_alter(
    tag: Option<AnyElement>,
    step: Option<i32>,
    advance_to: Option<i64>,
    max_value: Option<i64>,
    description: Option<AnyElement>,
) {
    session::shared();
    let tag = required_tag(tag);
    let step = step.map(checked_step);
    let description = checked_description(description);
    require_owner(tag);
    // A lower advance_to is refused by the table's own trigger.
    catalog::as_owner(|| catalog::update(tag, step, advance_to, max_value, description));
}

#[pg_extern(sql = false)]
fn leaf_tag_drop(tag: Option<AnyElement>) {
    session::shared();
    let tag = required_tag(tag);
    require_owner(tag);
    catalog::as_owner(|| catalog::delete(tag));
}

#[pg_extern(sql = false)]
fn leaf_tag_grant(tag: Option<AnyElement>, role: Option<AnyElement>) {
    session::shared();
    let tag = required_tag(tag);
    let grantee = checked_grantee(role);
    require_owner(tag);
    catalog::as_owner(|| catalog::add_grantee(tag, &grantee));
}

#[pg_extern(sql = false)]
fn leaf_tag_revoke(tag: Option<AnyElement>, role: Option<AnyElement>) {
    session::shared();
    let tag = required_tag(tag);
    let grantee = checked_grantee(role);
    require_owner(tag);
    catalog::as_owner(|| catalog::remove_grantee(tag, &grantee));
}

fn missing(argument: &str) -> ! {
    bad_argument(
        format!("{argument} must not be null"),
        "Leave the argument out to get its default.",
    )
}

fn required_tag(tag: Option<AnyElement>) -> &'static [u8] {
    let Some(tag) = tag else {
        bad_argument("tag must not be null", "Name a tag, such as 'orders'.");
    };
    // SAFETY: the argument is a valid text and lives as long as the call.
    checked(unsafe { args::text(tag.datum()) })
}

fn checked_step(step: i32) -> i32 {
    if step < 1 {
        bad_argument(
            format!("step must be at least 1, not {step}"),
            "A step is the number of ids fetched at once; 1000 is a good start.",
        );
    }
    step
}

fn checked_description(description: Option<AnyElement>) -> Option<&'static [u8]> {
    // SAFETY: the argument is a valid text and lives as long as the call.
    let description = unsafe { args::text(description?.datum()) };
    if args::characters(description) > 256 {
        bad_argument(
            "description is too long",
            "A description has at most 256 characters.",
        );
    }
    Some(description)
}

/// The name to store for a grantee: that of a role, or `public`.
fn checked_grantee(role: Option<AnyElement>) -> CString {
    let Some(role) = role else {
        bad_argument(
            "role must not be null",
            "Name a role, or use PUBLIC for everybody.",
        );
    };
    // SAFETY: the argument is a `name`, which is a C string.
    let name: CString = unsafe { CStr::from_ptr(role.datum().cast_mut_ptr()) }.into();
    if role::by_name(&name).is_some() {
        return name;
    }
    if name.to_bytes().eq_ignore_ascii_case(b"public") {
        return catalog::PUBLIC.into();
    }
    Error::NoSuchRole(catalog::display(name.to_bytes())).raise()
}

/// Raises an error unless the current role owns the tag, and locks its row so
/// that this stays so until the transaction ends.
fn require_owner(tag: &[u8]) {
    check_owner(tag);
    catalog::as_owner(|| catalog::lock_position(tag));
    // Who held the row before may have changed its owner, or dropped it.
    check_owner(tag);
}

fn check_owner(tag: &[u8]) {
    let user: pg_sys::Oid = role::current();
    let Some(permissions) = catalog::permissions(tag, user) else {
        Error::NoSuchTag(catalog::display(tag)).raise();
    };
    if !permissions.is_owner {
        Error::NotOwner {
            tag: catalog::display(tag),
            role: catalog::display(role::name_of(user).to_bytes()),
        }
        .raise();
    }
}
