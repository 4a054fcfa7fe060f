//! Privileges on the functions of the extension, and who has an interest in a tag.

use pgrx::pg_sys::Oid;

use super::relation;
use super::statement::{bigint, bytes, column_of, query};
use crate::pg::datum::{bigint_arg, text_arg};

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

/// The name of a tag's owner, and whether blocks of its ids were ever reserved, by a service or
/// to feed others; `None` if there is no such tag.
pub fn owner_and_blocks(tag: &[u8]) -> Option<(Vec<u8>, bool)> {
    let found = relation::as_owner(|| {
        query(
            "SELECT owner::text, largest_reserve FROM leaf.alloc WHERE biz_tag = $1",
            &[text_arg(tag)],
            |row| (bytes(row, 1).unwrap_or_default(), bigint(row, 2) > 0),
        )
    });
    found.into_iter().next()
}
