//! What the install script cannot say in SQL.

use pgrx::Spi;

use crate::pg::call::{Call, sql_functions};

sql_functions!(leaf_install_schema);

/// Creates schema `leaf`, unless it is the schema that the extension is created in:
/// then it is there, and its owner's.
fn leaf_install_schema(call: Call<'_>) {
    if call.text(0) != Some(b"leaf") {
        Spi::run("CREATE SCHEMA leaf").unwrap_or_else(|error| pgrx::error!("{error}"));
    }
}
