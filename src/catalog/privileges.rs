//! Privileges on the functions of the extension.

use pgrx::pg_sys::Oid;

use super::relation;
use super::statement::{column_of, query};
use crate::pg::datum::bigint_arg;

/// Whether a role may create tags: it may call `leaf_tag_create`.
pub fn may_create_tags(role: Oid) -> bool {
    let found = relation::as_owner(|| {
        query(
            "SELECT has_function_privilege($1::oid, p.oid, 'EXECUTE') \
               FROM pg_proc AS p JOIN pg_extension AS e ON e.extnamespace = p.pronamespace \
              WHERE e.extname = 'leaf' AND p.proname = 'leaf_tag_create'",
            &[bigint_arg(i64::from(role.to_u32()))],
            |row| column_of::<bool>(row, 1) == Some(true),
        )
    });
    found == [true]
}
