//! The triggers of leaf's tables: they give plain SQL the same effect as the functions.

mod alloc;
mod worker;

use pgrx::PgSqlErrorCode as Code;

use crate::error::Report;

/// A trigger function was not called by its trigger.
fn not_a_trigger(function: &'static str, table: &'static str) -> Report {
    // When: a trigger function of leaf in another trigger
    Report::new(
        Code::ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED,
        format!("{function} can only be called by the triggers of {table}"),
        "Use only the triggers that the extension has created.",
    )
}
