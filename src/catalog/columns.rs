//! Columns of users' tables: which of them draw from leaf, and what is in them.

use pgrx::PgSqlErrorCode as Code;
use pgrx::pg_sys::Oid;

use super::relation::as_owner;
use super::statement::{bigint, bytes, column_of, flag, query_latest, text};
use crate::error::Report;
use crate::pg::datum::{bigint_arg, text_arg};
use crate::pg::role;

/// The columns whose default draws from a tag, each with the owner of its table. They are
/// quoted and qualified as necessary.
pub fn drawing_from(tag: &[u8]) -> Vec<(Vec<u8>, Oid)> {
    as_owner(|| {
        query_latest(
            "SELECT d.used_in, d.owner::bigint FROM leaf.defaults() AS d WHERE d.tag = $1",
            &[text_arg(tag)],
            |row| (bytes(row, 1).unwrap_or_default(), oid(bigint(row, 2))),
        )
    })
}

/// The largest number in a column of a table and the tables below it that is not above `up_to`.
/// It is read as the table's owner, so that nothing of theirs runs as the caller, and as
/// of now, whatever snapshot the transaction uses. Waits for locks as long as `lock_timeout` allows.
///
/// # Errors
/// If there is no such column of numbers, if the current role may not read it, or if rows of the
/// table are elsewhere or hidden.
pub fn highest(table: Oid, attribute: &[u8], up_to: i64) -> Option<i64> {
    let args = [bigint_arg(number(table)), text_arg(attribute)];
    let found = query_latest(
        "SELECT format('%I.%I', n.nspname, c.relname), format('%I.%I.%I', n.nspname, c.relname, f.attname), \
                quote_ident(f.attname), c.relowner::bigint, \
                t.typoutput IN ('int2out'::regproc, 'int4out'::regproc, 'int8out'::regproc, 'numeric_out'::regproc), \
                pg_has_role(c.relowner, 'USAGE') OR has_column_privilege(c.oid, f.attnum, 'SELECT') AND NOT row_security_active(c.oid), \
                EXISTS (SELECT FROM leaf.tree(c.oid) AS below JOIN pg_class AS m ON m.oid = below AND m.relkind = 'f'), \
                to_regclass('pg_catalog.pg_dist_partition') IS NOT NULL \
           FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace \
           JOIN pg_attribute AS f ON f.attrelid = c.oid AND f.attname = $2::name AND NOT f.attisdropped \
           JOIN pg_type AS t ON t.oid = f.atttypid \
          WHERE c.oid = $1::oid",
        &args,
        |row| {
            let names = [1, 2, 3].map(|column| text(row, column));
            let flags = [5, 6, 7, 8].map(|column| flag(row, column));
            (names, oid(bigint(row, 4)), flags)
        },
    );
    let Some(([table, full_name, column], owner, flags)) = found.into_iter().next() else {
        // When: the column was dropped meanwhile
        Report::new(
            Code::ERRCODE_UNDEFINED_COLUMN,
            "the column does not exist",
            "Check the spelling, and whether it was dropped meanwhile.",
        )
        .raise()
    };
    let [is_of_numbers, may_read, has_foreign, may_be_distributed] = flags;
    if !may_read {
        // When: `leaf_column_adopt`, `leaf_tag_align`, `leafctl doctor`
        Report::new(
            Code::ERRCODE_INSUFFICIENT_PRIVILEGE,
            format!("not all of column {full_name} may be read"),
            "Use the role of the table's owner, or one that may select all rows.",
        )
        .raise();
    }
    if !is_of_numbers {
        // When: `leaf_tag_align`, in `ignored`
        Report::new(
            Code::ERRCODE_DATATYPE_MISMATCH,
            format!("column {full_name} is not one of numbers"),
            "Only columns of type bigint, integer, smallint and numeric have a largest number.",
        )
        .raise();
    }
    let is_distributed = may_be_distributed
        && query_latest(
            "SELECT EXISTS (SELECT FROM leaf.tree($1::oid) AS t JOIN pg_catalog.pg_dist_partition AS d ON d.logicalrelid = t)",
            &args[..1],
            |row| flag(row, 1),
        ) == [true];
    if has_foreign || is_distributed {
        // When: `leaf_column_adopt`, `leaf_column_release`, `leaf_tag_align`: a partition is a
        // foreign table, or the table is distributed by Citus
        Report::new(
            Code::ERRCODE_FEATURE_NOT_SUPPORTED,
            format!("not all rows of table {table} are in this database"),
            "Ask the servers that have them for the largest value, and use leaf_tag_create or leaf_tag_alter with a number above it.",
        )
        .raise();
    }
    let statement =
        format!("SELECT max({column})::bigint FROM {table} WHERE {column} <= $1::bigint");
    let highest = role::acting_as(owner, || {
        query_latest(&statement, &[bigint_arg(up_to)], |row| {
            column_of::<i64>(row, 1)
        })
    });
    highest.into_iter().next().flatten()
}

fn oid(number: i64) -> Oid {
    Oid::from(number as u32)
}

fn number(oid: Oid) -> i64 {
    i64::from(oid.to_u32())
}
