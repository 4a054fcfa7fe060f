//! Managing tags: create, alter, drop, grant, revoke.

use leaf_core::grant::MAX_ID;

use super::args;
use crate::catalog::{self, alloc};
use crate::error::Problem;
use crate::pg::call::{Call, sql_functions};
use crate::pg::{display, role};
use crate::segment::changes::{self, Change};
use crate::segment::error::Error;
use crate::segment::owner::require_owner;
use crate::shmem;

sql_functions!(
    leaf_tag_create,
    leaf_tag_alter,
    leaf_tag_drop,
    leaf_tag_grant,
    leaf_tag_revoke
);

fn leaf_tag_create(call: Call<'_>) {
    shmem::require();
    let tag = args::tag(call.text(0));
    let step = args::step(args::given(call.integer(1), "step"));
    let start = args::given(call.bigint(2), "start");
    let max_value = args::given(call.bigint(3), "max_value");
    if max_value < start {
        args::bad(
            format!("max_value {max_value} is less than start {start}"),
            "A tag grants the ids from start to max_value.",
        );
    }
    if start > MAX_ID {
        args::bad(
            format!("start {start} is greater than any id that can be granted"),
            "The largest id is 9223372036854775806.",
        );
    }
    let description = args::description(call.text(4));
    let owner = role::name_of(role::current());
    let created =
        catalog::as_owner(|| alloc::insert(tag, step, start, max_value, description, &owner));
    if !created {
        Error::TagExists { tag: display(tag) }.raise();
    }
}

fn leaf_tag_alter(call: Call<'_>) {
    shmem::require();
    let tag = args::tag(call.text(0));
    let step = call.integer(1).map(args::step);
    let (advance_to, max_value) = (call.bigint(2), call.bigint(3));
    let description = args::description(call.text(4));
    require_owner(tag);
    // A lower advance_to is rejected by the table's own trigger.
    catalog::as_owner(|| alloc::update(tag, step, advance_to, max_value, description));
    if advance_to.is_some() {
        // Also if the row was there already: ids in memory are below.
        changes::record(tag, Change::Position);
    }
}

fn leaf_tag_drop(call: Call<'_>) {
    shmem::require();
    let tag = args::tag(call.text(0));
    require_owner(tag);
    catalog::as_owner(|| alloc::delete(tag));
}

fn leaf_tag_grant(call: Call<'_>) {
    shmem::require();
    let (tag, grantee) = (args::tag(call.text(0)), args::grantee(call.name(1)));
    require_owner(tag);
    catalog::as_owner(|| alloc::add_grantee(tag, &grantee));
}

fn leaf_tag_revoke(call: Call<'_>) {
    shmem::require();
    let (tag, grantee) = (args::tag(call.text(0)), args::grantee(call.name(1)));
    require_owner(tag);
    catalog::as_owner(|| alloc::remove_grantee(tag, &grantee));
}
