//! The settings of `ALTER DATABASE` for this database.

use super::statement::{query, text};
use crate::pg::database;
use crate::pg::datum::bigint_arg;

/// The settings of the database for all roles, each as `name=value`. A process that lives for
/// long has those of its beginning.
pub fn settings() -> Vec<String> {
    query(
        "SELECT unnest(setconfig) FROM pg_db_role_setting WHERE setdatabase::bigint = $1 AND setrole = 0",
        &[bigint_arg(i64::from(database::current()))],
        |row| text(row, 1),
    )
}
