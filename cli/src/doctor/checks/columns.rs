//! Columns that draw: whether they have room for the ids, and whether the ids are new to them.

use tokio_postgres::Client;
use tokio_postgres::types::Type;

use crate::doctor::finding::Findings;
use crate::failure::Failure;
use crate::human;
use crate::query::{self, attempt};

/// How much of its type a column may have used, in percent.
const USED: f64 = 80.0;

/// A column whose default, or whose domain's default, calls leaf.
struct Drawing {
    /// With schema and table, quoted.
    name: String,
    table: String,
    attribute: String,
    /// The largest value of its type; `None` if it is not one of whole numbers.
    room: Option<i64>,
    type_name: String,
    is_snowflake: bool,
    /// If the default names it as a constant.
    tag: Option<String>,
    /// Whether its largest value can be found without reading the table.
    is_indexed: bool,
    may_be_read: bool,
}

pub async fn check(client: &Client, findings: &mut Findings) -> Result<(), Failure> {
    for column in drawing(client).await? {
        check_type(&column, findings);
        if let Some(tag) = &column.tag {
            check_tag(client, &column, tag, findings).await?;
        }
    }
    Ok(())
}

async fn drawing(client: &Client) -> Result<Vec<Drawing>, Failure> {
    let sql = r#"
        SELECT d."table"::text, quote_ident(d."column"), coalesce(nullif(t.typbasetype, 0), t.oid)::regtype::text,
               d.function = 'leaf_snowflake_next', d.tag,
               EXISTS (SELECT FROM pg_index AS i JOIN pg_class AS x ON x.oid = i.indexrelid
                                JOIN pg_am AS m ON m.oid = x.relam
                        WHERE i.indrelid = c.oid AND i.indkey[0] = a.attnum AND i.indisvalid
                          AND i.indpred IS NULL AND m.amname = 'btree'),
               has_column_privilege(c.oid, a.attnum, 'SELECT')
          FROM leaf.defaults() AS d
          JOIN pg_class AS c ON c.oid = d."table" AND c.relkind IN ('r', 'p') AND NOT c.relispartition
                            AND c.relpersistence <> 't'
          JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attname = d."column"
          JOIN pg_type AS t ON t.oid = a.atttypid
         ORDER BY 1, 2"#;
    let rows = query::all(client, sql, &[]).await?;
    let read = |row: &tokio_postgres::Row| {
        let (table, attribute): (String, String) = (row.get(0), row.get(1));
        let type_name: String = row.get(2);
        Drawing {
            name: format!("{table}.{attribute}"),
            table,
            attribute,
            room: match type_name.as_str() {
                "smallint" => Some(i16::MAX.into()),
                "integer" => Some(i32::MAX.into()),
                "bigint" => Some(i64::MAX),
                _ => None,
            },
            type_name,
            is_snowflake: row.get(3),
            tag: row.get(4),
            is_indexed: row.get(5),
            may_be_read: row.get(6),
        }
    };
    Ok(rows.iter().map(read).collect())
}

fn check_type(column: &Drawing, findings: &mut Findings) {
    let is_too_small = column.room.is_some_and(|room| room <= i64::from(i32::MAX));
    if column.is_snowflake && is_too_small {
        findings.error(
            &format!("column {}", column.name),
            format!(
                "it draws snowflake ids, for which type {} has no room",
                column.type_name
            ),
            "let it draw from a tag instead",
        );
    }
}

async fn check_tag(
    client: &Client,
    column: &Drawing,
    tag: &str,
    findings: &mut Findings,
) -> Result<(), Failure> {
    let subject = format!("column {}", column.name);
    // The largest value is read before the position, so that ids that are drawn meanwhile
    // are not taken for others.
    let has_highest = column.room.is_some() && column.is_indexed;
    let mut highest = None;
    if has_highest && column.may_be_read {
        let read = async {
            highest = read_highest(client, column).await?;
            Ok(())
        };
        if let Some(failure) = attempt(client, read).await? {
            findings.notice(
                &subject,
                format!("it is not compared with tag \"{tag}\": {}", failure.text()),
                "compare them by hand, or remove the cause and run doctor again",
            );
        }
    }
    if has_highest && !column.may_be_read {
        findings.notice(
            &subject,
            format!("it is not compared with tag \"{tag}\", because this role may not read it"),
            format!("GRANT SELECT ON {} TO the role", column.table),
        );
    }
    let sql = "SELECT a.max_id, a.max_value, a.largest_reserve > 0, s.position \
                 FROM leaf.alloc AS a LEFT JOIN leaf.stat_segment AS s USING (biz_tag) \
                WHERE a.biz_tag = $1";
    let rows = query::all(client, sql, &[(&tag, Type::TEXT)]).await?;
    let Some(row) = rows.first() else {
        findings.error(
            &subject,
            format!("its default draws from tag \"{tag}\", which does not exist"),
            format!(
                "leafctl tags create {}, with --start above the values of the column; or, if the name is misspelt, another default",
                human::shell_word(tag)
            ),
        );
        return Ok(());
    };
    let (max_id, max_value): (i64, i64) = (row.get(0), row.get(1));
    let (has_reserved, position): (bool, Option<i64>) = (row.get(2), row.get(3));
    // Ids of blocks that services hold are above the position, and in the column already.
    let next = match has_reserved {
        true => max_id,
        false => position.unwrap_or(max_id),
    };
    if let Some(highest) = highest.filter(|highest| *highest >= next) {
        let text = format!(
            "it has {}, but tag \"{tag}\" stands at {}: its next ids may be in use",
            human::grouped(highest),
            human::grouped(next)
        );
        let cure = format!("leafctl tags align {}", human::shell_word(tag));
        findings.error(&subject, text, cure);
    }
    let Some(room) = column.room.filter(|room| *room < max_value) else {
        return Ok(());
    };
    let used = 100.0 * max_id as f64 / room as f64;
    let text = format!(
        "type {} has room for fewer ids than tag \"{tag}\" may grant; {used:.1} % are used",
        column.type_name
    );
    let cure = format!(
        "leafctl tags alter {} --max-value={room}; more ids need a column of type bigint",
        human::shell_word(tag)
    );
    match used >= USED {
        true => findings.error(&subject, text, cure),
        false => findings.warning(&subject, text, cure),
    }
    Ok(())
}

async fn read_highest(client: &Client, column: &Drawing) -> Result<Option<i64>, Failure> {
    let sql = "SELECT leaf.highest($1::text::regclass, (parse_ident($2))[1]::name)";
    let params: [query::Param; 2] = [(&column.table, Type::TEXT), (&column.attribute, Type::TEXT)];
    Ok(query::one(client, sql, &params).await?.get(0))
}
