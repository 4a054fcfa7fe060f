//! Columns whose default calls a function of leaf.

use std::ffi::CString;

use pgrx::pg_sys;

use super::extension;
use super::statement::{bigint, column_of, query_latest};
use crate::pg::column::{Column, Index, Numbers};
use crate::pg::datum::{bigint_arg, text_arg};
use crate::pg::expression;

/// A column, and a tag that its default draws from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DefaultOfTag {
    /// `None` if the tag is not a constant.
    pub tag: Option<Vec<u8>>,
    /// The OID of the table.
    pub table: i64,
    /// The OID of the partitioned table it belongs to, or its own.
    pub root: i64,
    /// The owner of the table.
    pub owner: pg_sys::Oid,
    /// The column, quoted and with its table, for display.
    pub column: Vec<u8>,
    attribute: Vec<u8>,
}

/// A table in which the numbers of a column are: the table itself, or a partition or
/// child of it.
#[derive(Clone, Copy, Debug)]
pub struct Member {
    /// The owner of the table.
    pub owner: pg_sys::Oid,
    /// The column; `None` if it cannot be read: its type is not one of numbers, or the
    /// table is a foreign one or a temporary one of another session.
    pub column: Option<Column>,
}

/// The columns whose default, their own or their domain's, calls
/// `leaf_segment_next(text)`: one element for each call, by tag, table and column. A partition is
/// left out if its partitioned table is in the result, because reading that includes the
/// partition.
pub fn of_tags() -> Vec<DefaultOfTag> {
    let Some(function) = extension::function("leaf_segment_next").map(|it| it.oid) else {
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

/// Columns with a default that depends on the function, each with the expression.
fn candidates(function: pg_sys::Oid) -> Vec<(DefaultOfTag, CString)> {
    query_latest(
        "WITH found AS ( \
             SELECT f.attrelid, f.attname, d.adbin AS expression \
               FROM pg_depend AS p \
               JOIN pg_attrdef AS d ON p.classid = 'pg_attrdef'::regclass AND d.oid = p.objid \
               JOIN pg_attribute AS f ON f.attrelid = d.adrelid AND f.attnum = d.adnum \
              WHERE p.refclassid = 'pg_proc'::regclass AND p.refobjid = $1::oid \
              UNION ALL \
             SELECT f.attrelid, f.attname, t.typdefaultbin \
               FROM pg_depend AS p \
               JOIN pg_type AS t ON p.classid = 'pg_type'::regclass AND t.oid = p.objid \
               JOIN pg_attribute AS f ON f.atttypid = t.oid AND NOT f.attisdropped AND NOT f.atthasdef \
              WHERE p.refclassid = 'pg_proc'::regclass AND p.refobjid = $1::oid) \
         SELECT c.oid::bigint, \
                (CASE WHEN c.relispartition THEN pg_partition_root(c.oid) ELSE c.oid END)::bigint, \
                convert_to(f.attname::text, getdatabaseencoding()), \
                convert_to(format('%s.%I', c.oid::regclass, f.attname), getdatabaseencoding()), \
                convert_to(f.expression::text, getdatabaseencoding()), c.relowner::bigint \
           FROM found AS f \
           JOIN pg_class AS c ON c.oid = f.attrelid AND c.relkind IN ('r', 'p', 'f') \
          GROUP BY c.oid, f.attname, f.expression::text",
        &[bigint_arg(i64::from(function.to_u32()))],
        |row| {
            let column = DefaultOfTag {
                tag: None,
                table: bigint(row, 1),
                root: bigint(row, 2),
                attribute: column_of(row, 3).unwrap_or_default(),
                column: column_of(row, 4).unwrap_or_default(),
                owner: oid(bigint(row, 6)),
            };
            let expression = column_of::<Vec<u8>>(row, 5).unwrap_or_default();
            (column, c_string(expression))
        },
    )
}

impl DefaultOfTag {
    /// Whether the column has this name.
    pub fn is_of(&self, attribute: &[u8]) -> bool {
        self.attribute == attribute
    }

    /// The tables in which the column's numbers are.
    pub fn members(&self) -> Vec<Member> {
        members(self.table, &self.attribute)
    }
}

/// The tables in which the numbers of a column are: `table`, given by its OID, and those
/// below it.
pub fn members(table: i64, attribute: &[u8]) -> Vec<Member> {
    query_latest(
        "WITH RECURSIVE tree(oid) AS ( \
                 SELECT $1::oid \
                  UNION \
                 SELECT i.inhrelid FROM pg_inherits AS i JOIN tree AS t ON t.oid = i.inhparent) \
             SELECT c.oid::bigint, c.relowner::bigint, f.attnum::bigint, \
                    CASE WHEN c.relkind = 'r' \
                          AND (c.relpersistence <> 't' OR c.relnamespace = pg_my_temp_schema()) \
                         THEN CASE t.typoutput WHEN 'int2out'::regproc THEN 1 \
                                               WHEN 'int4out'::regproc THEN 2 \
                                               WHEN 'int8out'::regproc THEN 3 \
                                               WHEN 'numeric_out'::regproc THEN 4 END \
                    END::bigint, \
                    x.indexrelid::bigint, x.is_descending, f.atttypid::bigint \
               FROM tree JOIN pg_class AS c ON c.oid = tree.oid AND c.relkind <> 'p' \
               JOIN pg_attribute AS f ON f.attrelid = c.oid AND NOT f.attisdropped \
                                     AND f.attname = $2::name \
               JOIN pg_type AS t ON t.oid = f.atttypid \
               LEFT JOIN LATERAL ( \
                   SELECT i.indexrelid, i.indoption[0] & 1 = 1 AS is_descending \
                     FROM pg_index AS i JOIN pg_opclass AS o ON o.oid = i.indclass[0] \
                     JOIN pg_am AS a ON a.oid = o.opcmethod \
                    WHERE i.indrelid = c.oid AND i.indkey[0] = f.attnum AND i.indpred IS NULL \
                      AND i.indisvalid AND NOT i.indcheckxmin AND o.opcdefault AND a.amname = 'btree' \
                    ORDER BY i.indnkeyatts LIMIT 1) AS x ON true",
        &[bigint_arg(table), text_arg(attribute)],
        |row| Member {
            owner: oid(bigint(row, 2)),
            column: numbers(bigint(row, 4)).map(|numbers| Column {
                table: oid(bigint(row, 1)),
                attribute: bigint(row, 3) as i16,
                type_oid: oid(bigint(row, 7)),
                numbers,
                index: column_of::<i64>(row, 5).map(|index| Index {
                    oid: oid(index),
                    is_descending: column_of::<bool>(row, 6) == Some(true),
                }),
            }),
        },
    )
}

fn numbers(code: i64) -> Option<Numbers> {
    match code {
        1 => Some(Numbers::SmallInt),
        2 => Some(Numbers::Integer),
        3 => Some(Numbers::BigInt),
        4 => Some(Numbers::Numeric),
        _ => None,
    }
}

fn oid(number: i64) -> pg_sys::Oid {
    pg_sys::Oid::from(number as u32)
}

/// A text of PostgreSQL, which has no byte 0.
pub(super) fn c_string(text: Vec<u8>) -> CString {
    CString::new(text).unwrap_or_default()
}
