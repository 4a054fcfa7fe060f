//! Checks that the current role is the owner of the extension. leaf's functions are in a schema that may belong to
//! somebody else: by default in `public`, which is the database owner's. Without this rule, that role
//! could drop the extension together with that schema, or give the schema another name, and put its own
//! tables and functions in place of leaf's while a superuser or the loader is about to use them.

use pgrx::PgSqlErrorCode as Code;
use pgrx::pg_sys::Oid;

use crate::error::Report;
use crate::pg::{heap, role};

/// Called when the current transaction drops an extension.
pub fn at_drop_of_extension(extension: Oid) {
    if let Some(leaf) = heap::extension(c"leaf")
        && leaf.oid == extension
    {
        require_owner(leaf.owner);
    }
}

/// Called when the current transaction has altered a schema.
pub fn at_alteration_of_schema(schema: Oid) {
    if let Some(leaf) = heap::extension(c"leaf")
        && leaf.schema == schema
        && heap::is_being_renamed(schema)
    {
        require_owner(leaf.owner);
    }
}

fn require_owner(owner: Oid) {
    if !role::has_privileges_of(role::current(), owner) {
        // When: `DROP SCHEMA … CASCADE` and `ALTER SCHEMA … RENAME` with the schema of leaf's
        // functions
        Report::new(
            Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
            "must be owner of extension leaf",
            "Ask the owner of the extension, or a superuser, to do this.",
        )
        .detail("Its schema cannot be dropped or renamed by others: they could put functions of their own in place of leaf's.")
        .raise();
    }
}
