//! The functions of the extension. They are looked up whenever they are needed, which is rarely:
//! a session may drop the extension and create it again, in another schema.

use pgrx::pg_sys::Oid;

use super::relation;
use super::statement::{column_of, query};
use crate::pg::datum::{bigint_arg, string_arg};

/// Whether a role may call the function with a name, of which there is one.
pub fn may_call(role: Oid, name: &str) -> bool {
    let found = relation::as_owner(|| {
        query(
            "SELECT has_function_privilege($2::oid, f.oid, 'EXECUTE') FROM pg_extension AS e \
               JOIN pg_depend AS d ON d.refobjid = e.oid AND d.refclassid = 'pg_extension'::regclass \
                AND d.deptype = 'e' AND d.classid = 'pg_proc'::regclass \
               JOIN pg_proc AS f ON f.oid = d.objid \
              WHERE e.extname = 'leaf' AND f.proname = $1::name",
            &[string_arg(name), bigint_arg(i64::from(role.to_u32()))],
            |row| column_of::<bool>(row, 1) == Some(true),
        )
    });
    found == [true]
}
