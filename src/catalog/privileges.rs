//! Privileges on the functions of the extension.

use pgrx::pg_sys::Oid;

use super::relation;
use super::statement::{column_of, query};
use crate::pg::datum::{bigint_arg, string_arg};

/// Whether a role may call a function of leaf, of which there is one of this name.
pub fn may_call(role: Oid, function: &str) -> bool {
    let found = relation::as_owner(|| {
        query(
            "SELECT has_function_privilege($1::oid, p.oid, 'EXECUTE') \
               FROM pg_proc AS p JOIN pg_extension AS e ON e.extnamespace = p.pronamespace \
              WHERE e.extname = 'leaf' AND p.proname = $2",
            &[bigint_arg(i64::from(role.to_u32())), string_arg(function)],
            |row| column_of::<bool>(row, 1) == Some(true),
        )
    });
    found == [true]
}
