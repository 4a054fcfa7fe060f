//! Columns whose default calls a function of leaf.

use std::ffi::CString;

use pgrx::pg_sys;

use super::statement::{bigint, column_of, query};
use crate::pg::datum::bigint_arg;
use crate::pg::expression;
use crate::pg::query::bigint_of;

/// A column, and a tag that its default draws from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultOfTag {
    /// `None` if the tag is not a constant.
    pub tag: Option<Vec<u8>>,
    /// The OID of the table.
    pub table: i64,
    /// The OID of the partitioned table it belongs to, or its own.
    pub root: i64,
    /// The column, quoted and with its table, for display.
    pub column: Vec<u8>,
    attribute: Vec<u8>,
    /// The query for the largest number in the column, if it holds numbers.
    largest: Option<CString>,
}

/// The columns whose default, their own or their domain's, calls
/// `leaf_segment_next(text)` in the schema of the function `sibling`: one element for each
/// call, by tag, table and column. A partition is left out if its partitioned table is in
/// the result, because reading that includes the partition.
pub fn of_tags(sibling: pg_sys::Oid) -> Vec<DefaultOfTag> {
    let Some(function) = function_oid(sibling) else {
        return Vec::new();
    };
    let mut found: Vec<DefaultOfTag> = candidates(function)
        .into_iter()
        .flat_map(|(column, expression)| {
            let tags = expression::constant_arguments(&expression, function);
            tags.into_iter().map(move |tag| DefaultOfTag {
                tag,
                ..column.clone()
            })
        })
        .collect();
    let all = found.clone();
    found.retain(|one| {
        let is_read_with = |other: &DefaultOfTag| {
            (other.table, &other.attribute, &other.tag) == (one.root, &one.attribute, &one.tag)
        };
        one.root == one.table || !all.iter().any(is_read_with)
    });
    found.sort_by_cached_key(|it| (it.tag.is_none(), it.tag.clone(), it.column.clone()));
    found
}

fn function_oid(sibling: pg_sys::Oid) -> Option<pg_sys::Oid> {
    let oids = query(
        "SELECT f.oid::bigint FROM pg_proc AS f JOIN pg_proc AS s ON s.pronamespace = f.pronamespace \
          WHERE s.oid = $1::oid AND f.proname = 'leaf_segment_next' AND f.proargtypes = '25'::oidvector",
        &[bigint_arg(i64::from(sibling.to_u32()))],
        |row| bigint(row, 1),
    );
    oids.first().map(|&oid| pg_sys::Oid::from(oid as u32))
}

/// Columns with a default that depends on the function, each with the expression.
fn candidates(function: pg_sys::Oid) -> Vec<(DefaultOfTag, CString)> {
    query(
        "WITH found AS ( \
             SELECT f.attrelid, f.attname, f.atttypid, d.adbin AS expression \
               FROM pg_depend AS p \
               JOIN pg_attrdef AS d ON p.classid = 'pg_attrdef'::regclass AND d.oid = p.objid \
               JOIN pg_attribute AS f ON f.attrelid = d.adrelid AND f.attnum = d.adnum \
              WHERE p.refclassid = 'pg_proc'::regclass AND p.refobjid = $1::oid \
              UNION ALL \
             SELECT f.attrelid, f.attname, f.atttypid, t.typdefaultbin \
               FROM pg_depend AS p \
               JOIN pg_type AS t ON p.classid = 'pg_type'::regclass AND t.oid = p.objid \
               JOIN pg_attribute AS f ON f.atttypid = t.oid AND NOT f.attisdropped AND NOT f.atthasdef \
              WHERE p.refclassid = 'pg_proc'::regclass AND p.refobjid = $1::oid) \
         SELECT c.oid::bigint, \
                (CASE WHEN c.relispartition THEN pg_partition_root(c.oid) ELSE c.oid END)::bigint, \
                convert_to(f.attname::text, getdatabaseencoding()), \
                convert_to(format('%s.%I', c.oid::regclass, f.attname), getdatabaseencoding()), \
                convert_to(f.expression::text, getdatabaseencoding()), \
                CASE WHEN t.typoutput IN ('int2out'::regproc, 'int4out'::regproc, \
                                          'int8out'::regproc, 'numeric_out'::regproc) \
                     THEN convert_to(format('SELECT CASE WHEN m <= 9223372036854775806 THEN m::bigint END \
                                               FROM (SELECT max(%I) FROM %s) AS t(m)', \
                                            f.attname, c.oid::regclass), getdatabaseencoding()) \
                END \
           FROM found AS f \
           JOIN pg_class AS c ON c.oid = f.attrelid AND c.relkind IN ('r', 'p', 'f') \
           JOIN pg_type AS t ON t.oid = f.atttypid \
          GROUP BY c.oid, f.attname, f.expression::text, t.typoutput",
        &[bigint_arg(i64::from(function.to_u32()))],
        |row| {
            let column = DefaultOfTag {
                tag: None,
                table: bigint(row, 1),
                root: bigint(row, 2),
                attribute: column_of(row, 3).unwrap_or_default(),
                column: column_of(row, 4).unwrap_or_default(),
                largest: column_of::<Vec<u8>>(row, 6).map(c_string),
            };
            let expression = column_of::<Vec<u8>>(row, 5).unwrap_or_default();
            (column, c_string(expression))
        },
    )
}

impl DefaultOfTag {
    /// The largest number in the column, read with the privileges of the current role;
    /// `None` if it cannot be an id, such as NaN.
    pub fn largest(&self) -> Option<i64> {
        bigint_of(self.largest.as_ref()?)
    }
}

/// A text of PostgreSQL, which has no byte 0.
fn c_string(text: Vec<u8>) -> CString {
    CString::new(text).unwrap_or_default()
}
