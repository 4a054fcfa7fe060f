//! This database as a node of Citus, which spreads one database over several servers, and has
//! defaults of columns evaluated on every one of them.

use pgrx::pg_sys;

use crate::pg::heap;

/// The group of this node: 0 for the coordinator, and another one for each worker. `None` if
/// the database is not one of Citus.
pub fn group() -> Option<i32> {
    let table = heap::relation_oid(c"pg_catalog", c"pg_dist_local_group")?;
    let citus = heap::extension(c"citus")?;
    if heap::extension_of(pg_sys::RelationRelationId, table) != Some(citus.oid) {
        return None;
    }
    heap::any_row(table, None, |row| row.integer(1)).flatten()
}

/// Whether this is a node of Citus other than its coordinator.
pub fn is_worker() -> bool {
    group().is_some_and(|group| group != 0)
}

/// Whether another node may grant the numbers of a tag, too: one of whose numbers this node has
/// all, or a stripe that was made for the group `made_for`.
pub fn may_be_granted_elsewhere(is_striped: bool, made_for: Option<i32>) -> bool {
    let Some(group) = group() else {
        return false;
    };
    match is_striped {
        true => made_for.is_some_and(|made_for| made_for != group),
        false => group != 0,
    }
}
