//! The steps of the install script that SQL cannot express.

use pgrx::{PgSqlErrorCode as Code, Spi, pg_sys};

use crate::error::Report;
use crate::pg::call::{Call, sql_functions};
use crate::pg::{display, guc, report, role};
use crate::shmem;

sql_functions!(leaf_install_schema);

/// Warns if the server does not load leaf. Creates schema `leaf`, unless the extension is created
/// in it: it then exists, and keeps its owner.
fn leaf_install_schema(call: Call<'_>) {
    if shmem::get().is_none() {
        let libraries = guc::text(c"shared_preload_libraries");
        let libraries = match libraries.trim() {
            "" => "leaf".to_owned(),
            others => format!("{others}, leaf"),
        };
        // When: `CREATE EXTENSION leaf` without `shared_preload_libraries`
        report::warn(
            "leaf is not loaded by the server, so no ids can be drawn",
            &format!(
                "Put this line into postgresql.conf, in place of what ALTER SYSTEM may have set, and restart the server: shared_preload_libraries = '{libraries}'"
            ),
        );
    }
    match call.text(0) {
        // When: `CREATE EXTENSION`
        Some(b"pg_catalog") => Report::new(
            Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            "leaf cannot be created in schema pg_catalog",
            "Choose another schema, such as public.",
        )
        .raise(),
        Some(b"leaf") => check_owner(),
        _ => Spi::run("CREATE SCHEMA leaf").unwrap_or_else(|error| pgrx::error!("{error}")),
    }
}

/// The owner of a schema can rename it and put tables of the same names in its place.
fn check_owner() {
    let owner = Spi::get_one::<pg_sys::Oid>(
        "SELECT n.nspowner FROM pg_catalog.pg_namespace AS n \
          WHERE n.nspname OPERATOR(pg_catalog.=) 'leaf'::pg_catalog.name",
    );
    let owner = owner.ok().flatten().unwrap_or(pg_sys::InvalidOid);
    if owner != role::current() && !role::is_superuser(owner) {
        let owner = display(role::name_of(owner).to_bytes());
        // When: `CREATE EXTENSION leaf SCHEMA leaf`, if an ordinary role has created the schema
        Report::new(
            Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("schema \"leaf\" is owned by role \"{owner}\""),
            "Make a superuser its owner with ALTER SCHEMA, or create the extension in another schema.",
        )
        .detail("Its owner could replace the tables of leaf by others.")
        .raise();
    }
}
