//! Managing tags: create, alter, drop, grant, revoke.

use std::ffi::CStr;

use leaf_core::grant::{MAX_ID, OwnNumbers, Position, Stripe};
use pgrx::PgSqlErrorCode as Code;
use pgrx::pg_sys::Oid;

use super::args;
use crate::catalog::alloc::{self, Changes, NewTag};
use crate::catalog::extension;
use crate::catalog::permissions::PUBLIC;
use crate::error::Report;
use crate::pg::call::{Call, sql_functions};
use crate::pg::{self, display, encoding, report, role};
use crate::session::changes::{self, Change};
use crate::session::error::{self, Privilege};
use crate::session::in_use::require_unused;
use crate::session::permissions::{
    check_owner_if_exists, require_owner, require_primary, require_readable,
};
use crate::session::upstream;
use crate::{catalog, shmem};

sql_functions!(
    leaf_tag_create,
    leaf_tag_alter,
    leaf_tag_drop,
    leaf_tag_vouch,
    leaf_tag_attach,
    leaf_tag_grant,
    leaf_tag_revoke
);

fn leaf_tag_create(call: Call<'_>) {
    shmem::require();
    require_primary();
    let tag = args::tag(call.text(0));
    let step = args::step(args::given(call.integer(1), "step"));
    let start = args::given(call.bigint(2), "start");
    let max_value = args::given(call.bigint(3), "max_value");
    if max_value < start {
        // When: `leaf_tag_create`
        args::raise_bad(
            format!("max_value {max_value} is less than start {start}"),
            "A tag grants the ids from start to max_value.",
        );
    }
    if start > MAX_ID {
        // When: `leaf_tag_create`
        args::raise_bad(
            format!("start {start} is greater than any id that can be granted"),
            "The largest id is 9223372036854775806.",
        );
    }
    let given = args::stripe(call.integer(7), call.integer(8), call.bigint(9));
    let stripe = given.unwrap_or(Stripe::WHOLE);
    check_stripe(&stripe, step, start, max_value);
    let new = NewTag {
        step,
        max_step: args::max_step(call.integer(6)).filter(|&most| most > 0),
        start,
        max_value,
        description: args::description(call.text(4)),
        owner: &args::owner(call.name(10)),
        stripe,
        cache: args::cache(args::given(call.integer(11), "cache")),
    };
    let if_not_exists = args::given(call.boolean(5), "if_not_exists");
    let of_centre = call.text(12).map(|name| args::tag(Some(name)));
    if of_centre.is_some() && !extension::may_call(role::current(), "leaf_tag_attach") {
        error::denied(tag, role::current(), Privilege::Attach).raise();
    }
    require_readable(tag);
    if catalog::as_owner(|| alloc::insert(tag, &new)) {
        if let Some(of_centre) = of_centre {
            upstream::attach(tag, of_centre, &encoding::to_utf8(of_centre));
        }
        return;
    }
    if if_not_exists && let Some(stripe) = given {
        require_same(tag, &stripe);
    }
    if if_not_exists && let Some(of_centre) = of_centre {
        require_fed_by(tag, &encoding::to_utf8(of_centre));
    }
    let tag = display(tag);
    match if_not_exists {
        // When: `leaf_tag_create` with `if_not_exists`
        true => report::notice(&format!("tag \"{tag}\" already exists, skipping")),
        // When: `leaf_tag_create`, `leaf_column_adopt`
        false => Report::new(
            Code::ERRCODE_DUPLICATE_OBJECT,
            format!("tag \"{tag}\" already exists"),
            "Choose another name, use if_not_exists => true in leaf_tag_create, or drop the tag with leaf_tag_drop.",
        )
        .raise(),
    }
}

/// Raises an error if a tag cannot have this stripe.
fn check_stripe(stripe: &Stripe, step: i32, start: i64, max_value: i64) {
    check_step(stripe, step);
    let tag = Position {
        max_id: start,
        max_value,
        numbers: OwnNumbers::of(*stripe),
    };
    if tag.left() == 0 {
        // When: `leaf_tag_create`
        args::raise_bad(
            format!(
                "stripe {} has no number from start {start} to max_value {max_value}",
                stripe.number()
            ),
            "Raise max_value, or choose a smaller stripe_width or fewer stripes.",
        );
    }
}

/// Raises an error if a segment of `step` ids is longer than a block of the stripe.
fn check_step(stripe: &Stripe, step: i32) {
    if let Some(width) = stripe.width()
        && step.unsigned_abs() as u64 > width
    {
        // When: `leaf_tag_create`, `leaf_tag_alter`
        Report::new(
            Code::ERRCODE_INVALID_PARAMETER_VALUE,
            format!("step {step} is greater than stripe_width {width}"),
            "A segment never crosses the end of a block of stripe_width: choose a smaller step.",
        )
        .raise();
    }
}

/// Raises an error if a tag has another stripe.
fn require_same(tag: &[u8], stripe: &Stripe) {
    let row = catalog::as_owner(|| alloc::position(tag));
    if let Some(row) = row
        && row.numbers.stripe() != stripe
    {
        // When: `leaf_tag_create` with `if_not_exists`, for another stripe
        Report::not_ready(
            format!(
                "tag \"{}\" already exists with another stripe",
                display(tag)
            ),
            "Specify the stripe that this node has.",
        )
        .detail(described(row.numbers.stripe()))
        .raise();
    }
}

/// Raises an error unless a tag is fed by this tag of the centre, whose name is in UTF-8.
fn require_fed_by(tag: &[u8], of_centre: &str) {
    let found = catalog::as_owner(|| alloc::tags_of_centre(&[tag])).pop();
    if found.flatten().as_deref() != Some(of_centre) {
        // When: `leaf_tag_create` with `if_not_exists` and `upstream_tag`
        Report::not_ready(
            format!(
                "tag \"{}\" already exists, and tag \"{of_centre}\" of the centre does not feed it",
                display(tag)
            ),
            "Attach it with leaf_tag_attach; or, if it is fed by another tag, drop it first.",
        )
        .raise();
    }
}

fn leaf_tag_alter(call: Call<'_>) {
    shmem::require();
    let tag = args::tag(call.text(0));
    let changes = Changes {
        step: call.integer(1).map(args::step),
        // A lower one is rejected by the table's own trigger.
        max_id: call.bigint(2),
        max_value: call.bigint(3),
        description: args::description(call.text(4)),
        max_step: args::max_step(call.integer(5)),
        cache: call.integer(6).map(args::cache),
    };
    alter(tag, &changes, true);
}

/// Changes a tag; with a new position, its owner says that everything lies below, if `vouches`.
pub fn alter(tag: &[u8], changes: &Changes<'_>, vouches: bool) {
    require_owner(tag);
    if let Some(row) = catalog::as_owner(|| alloc::position(tag)) {
        check_changes(tag, &row, changes);
    }
    catalog::as_owner(|| alloc::update(tag, changes, vouches));
    if changes.max_id.is_some() {
        // Also if the row was there already: ids in memory are below.
        changes::record(tag, Change::Position);
    }
}

/// Says that a tag, or each one, lacks nothing that it has fed.
fn leaf_tag_vouch(call: Call<'_>) {
    shmem::require();
    require_primary();
    let tag = call.text(0).map(|tag| args::tag(Some(tag)));
    let user = role::current();
    if !role::has_privileges_of(user, role::owner_of_database()) {
        // When: `leaf_tag_vouch`
        Report::new(
            Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
            "permission denied to vouch for tags",
            "Ask a superuser or the owner of the database. The owner of a tag can move it past all that was fed, with leaf_tag_alter(advance_to => ...).",
        )
        .raise();
    }
    let count = catalog::as_owner(|| alloc::vouch(tag));
    let Some(tag) = tag else {
        return log_vouched(user, &format!("all {count} tags"));
    };
    if count == 0 && catalog::as_owner(|| alloc::position(tag)).is_none() {
        error::no_such_tag(tag).raise();
    }
    if count == 0 {
        error::is_fed(tag).raise();
    }
    log_vouched(user, &format!("tag \"{}\"", display(tag)));
}

fn log_vouched(user: Oid, what: &str) {
    let user = display(role::name_of(user).to_bytes());
    pg::log(&format!(
        "role \"{user}\" vouches for {what}: no number that was fed is missing"
    ));
}

/// Raises an error if a tag cannot have the changes. The table's own trigger rejects a `max_value`
/// below what is granted.
fn check_changes(tag: &[u8], row: &Position, changes: &Changes<'_>) {
    if let Some(step) = changes.step {
        check_step(row.numbers.stripe(), step);
    }
    let Some(to) = changes.max_id.filter(|&to| to > row.max_id) else {
        return;
    };
    let max_value = changes.max_value.unwrap_or(row.max_value);
    let moved = Position {
        max_id: to,
        max_value,
        numbers: row.numbers,
    };
    let step = changes
        .step
        .or_else(|| catalog::as_owner(|| alloc::step(tag)));
    let step = u64::try_from(step.unwrap_or(1)).unwrap_or(1);
    if moved.left() < step && row.left() >= step {
        // When: `leaf_tag_alter` of a tag that has more left
        args::raise_bad(
            format!(
                "advance_to {to} leaves {} ids, less than step {step}",
                moved.left()
            ),
            "Check the number: a tag never moves backwards. Raise max_value first, or lower step, if it is right.",
        );
    }
}

/// Lets a tag get its ids from a tag of the centre.
fn leaf_tag_attach(call: Call<'_>) {
    shmem::require();
    require_primary();
    let tag = args::tag(call.text(0));
    let of_centre = call.text(1).map_or(tag, |name| args::tag(Some(name)));
    require_owner(tag);
    upstream::attach(tag, of_centre, &encoding::to_utf8(of_centre));
}

fn leaf_tag_drop(call: Call<'_>) {
    shmem::require();
    let tag = args::tag(call.text(0));
    let force = args::given(call.boolean(1), "force");
    let if_exists = args::given(call.boolean(2), "if_exists");
    if if_exists && !check_owner_if_exists(tag) {
        require_primary();
        // When: `leaf_tag_drop` with `if_exists`
        report::notice(&format!(
            "tag \"{}\" does not exist, skipping",
            display(tag)
        ));
        return;
    }
    require_owner(tag);
    if !force {
        require_unused(tag);
    }
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
    let (tag, role) = (args::tag(call.text(0)), call.name(1));
    require_owner(tag);
    let remove = |grantee: &CStr| catalog::as_owner(|| alloc::remove_grantee(tag, grantee));
    // By the name that is stored, whether or not a role still has it, or has it by now.
    if !role.is_some_and(remove) {
        match role.is_some_and(args::is_public) {
            true => remove(PUBLIC),
            false => remove(&args::grantee(role)),
        };
    }
}

/// A stripe, for the reader of an error.
fn described(stripe: &Stripe) -> String {
    match stripe.width() {
        Some(width) => format!(
            "It has stripe {} of {}, with a stripe_width of {width}.",
            stripe.number(),
            stripe.count()
        ),
        None => "It has all numbers: stripe 0 of 1.".to_owned(),
    }
}
