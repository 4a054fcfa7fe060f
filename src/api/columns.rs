//! The C functions behind the functions for columns, which are in SQL.

use super::args;
use super::tag::alter;
use crate::catalog::alloc::{self, Changes};
use crate::catalog::{self, columns, registry};
use crate::error::Report;
use crate::pg::call::{Call, sql_functions};
use crate::pg::{clock, display, xact};
use crate::session::frontier;
use crate::session::permissions::{self, require_owner};
use crate::session::snowflake::source;
use crate::settings::upstream as settings;
use crate::shmem;

sql_functions!(
    leaf_highest,
    leaf_privilege,
    leaf_frontier,
    leaf_advance,
    leaf_retire,
    leaf_is_in_block
);

/// The largest number in a column that is not above the third argument.
fn leaf_highest(call: Call<'_>) -> Option<i64> {
    columns::highest(call.oid(0)?, call.name(1)?.to_bytes(), call.bigint(2)?)
}

/// The privilege of a role for a tag.
fn leaf_privilege(call: Call<'_>) -> Option<Vec<u8>> {
    let (tag, role) = (call.text(0)?, call.oid(1)?);
    let permissions = permissions::of(tag, role)?;
    let privilege = match (permissions.is_owner, permissions.may_draw) {
        (true, _) => "own",
        (false, true) => "draw",
        (false, false) => "none",
    };
    Some(privilege.into())
}

/// The first number of a tag that was not handed out.
fn leaf_frontier(call: Call<'_>) -> i64 {
    shmem::require();
    let tag = args::tag(call.text(0));
    require_owner(tag);
    let end = frontier::lock_own(tag).position.max_id;
    // Unused ids that were given back later could be among those that the caller has found in use.
    catalog::as_owner(|| alloc::raise_floor(tag, end));
    end
}

/// Moves a tag past ids that are in use here. What shards have got may lie above.
fn leaf_advance(call: Call<'_>) {
    shmem::require();
    let changes = Changes {
        max_id: call.bigint(1),
        ..Changes::default()
    };
    alter(args::tag(call.text(0)), &changes, false);
}

/// Drops a tag whose numbers go on elsewhere. Returns the first one; without a tag, the first
/// snowflake id that no node has issued.
fn leaf_retire(call: Call<'_>) -> i64 {
    shmem::require();
    let is_drained = call.boolean(1) == Some(true);
    let Some(tag) = call.text(0) else {
        let now = clock::now();
        let has_nodes = settings::upstream().is_some()
            || catalog::as_owner(|| registry::has_leases_of_nodes(now));
        if has_nodes && !is_drained {
            // When: `leaf_column_release` of a column with snowflake ids
            Report::not_ready(
                "other nodes may still issue snowflake ids",
                "Stop the services and shards that do, and call it with drained => true.",
            )
            .detail("Nodes hold leases of worker ids, or leaf.upstream names a centre.")
            .raise();
        }
        return source::scheme().floor(registry::latest_ceiling().max(now));
    };
    require_owner(tag);
    let row = frontier::lock_own(tag);
    if row.largest_reserve > 0 && !is_drained {
        // When: `leaf_column_release`
        Report::not_ready(
            format!(
                "blocks of tag \"{}\" were reserved, of which services may still hand out ids",
                display(tag)
            ),
            "Stop the services that draw from it, and call it with drained => true.",
        )
        .raise();
    }
    catalog::as_owner(|| alloc::delete(tag));
    row.position.max_id
}

/// Whether a procedure that commits is called where it cannot.
fn leaf_is_in_block(_call: Call<'_>) -> bool {
    xact::is_in_block()
}
