//! What the install script cannot express in SQL.

use pgrx::Spi;

use crate::pg::call::{Call, sql_functions};

sql_functions!(leaf_install_schema);

/// Creates schema `leaf`, unless the extension is created in it: it then exists, and
/// keeps its owner.
fn leaf_install_schema(call: Call<'_>) {
    if call.text(0) != Some(b"leaf") {
        Spi::run("CREATE SCHEMA leaf").unwrap_or_else(|error| pgrx::error!("{error}"));
    }
}
