//! The functions of the extension. They are looked up whenever they are needed, which is rarely:
//! a session may drop the extension and create it again, in another schema.

use pgrx::pg_sys::Oid;

use super::relation;
use super::statement::{column_of, query};
use crate::pg::datum::{bigint_arg, string_arg};

/// Selects the functions `f` of the extension, in their schemas `n`, with the name `$1`.
macro_rules! functions {
    ($columns:literal) => {
        concat!(
            "SELECT ",
            $columns,
            " FROM pg_catalog.pg_extension AS e \
              JOIN pg_catalog.pg_depend AS d ON d.refobjid = e.oid AND d.deptype = 'e' \
               AND d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass \
               AND d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass \
              JOIN pg_catalog.pg_proc AS f ON f.oid = d.objid \
              JOIN pg_catalog.pg_namespace AS n ON n.oid = f.pronamespace \
             WHERE e.extname = 'leaf' AND f.proname = $1::pg_catalog.name"
        )
    };
}

/// Whether a role may call the function with a name, of which there is one.
pub fn may_call(role: Oid, name: &str) -> bool {
    let found = relation::as_owner(|| {
        query(
            functions!("pg_catalog.has_function_privilege($2::oid, f.oid, 'EXECUTE')"),
            &[string_arg(name), bigint_arg(i64::from(role.to_u32()))],
            |row| column_of::<bool>(row, 1) == Some(true),
        )
    });
    found == [true]
}
