//! docs/reference/views.md has every table and view, with every column and its type. What the
//! extension says in comments on columns, the page says in the same words.

use std::collections::BTreeMap;

use super::flat;
use leaf_tests::Server;
use leaf_tests::page::Part;

const PAGE: &str = "docs/reference/views.md";

type Column = (String, String, Option<String>);

/// Name, type and comment of the columns of tables and views.
fn relations() -> BTreeMap<String, Vec<Column>> {
    let server = Server::start();
    let rows = server.connect().query(
        "SELECT c.oid::regclass::text, a.attname::text, format_type(a.atttypid, a.atttypmod),
                col_description(c.oid, a.attnum)
           FROM pg_class AS c JOIN pg_attribute AS a ON a.attrelid = c.oid
           JOIN pg_depend AS d ON d.classid = 'pg_class'::regclass AND d.objid = c.oid
          WHERE d.deptype = 'e' AND d.refobjid = (SELECT oid FROM pg_extension WHERE extname = 'leaf')
            AND c.relkind IN ('r', 'v') AND a.attnum > 0 AND NOT a.attisdropped ORDER BY 1, a.attnum",
        &[],
    );
    let mut found: BTreeMap<String, Vec<Column>> = BTreeMap::new();
    for row in rows.expect("columns") {
        let columns = found.entry(row.get(0)).or_default();
        columns.push((row.get(1), row.get(2), row.get(3)));
    }
    found
}

#[test]
fn page_has_every_column_of_every_table_and_view_and_no_other() {
    let relations = relations();
    let parts = Part::of(PAGE, 2);
    let parts: BTreeMap<_, _> = parts
        .iter()
        .filter(|part| part.title.starts_with("leaf."))
        .map(|part| (part.title.clone(), part))
        .collect();
    assert_eq!(
        parts.keys().collect::<Vec<_>>(),
        relations.keys().collect::<Vec<_>>()
    );
    for (name, part) in parts {
        let rows = part.rows();
        let described: Vec<_> = rows
            .iter()
            .map(|row| (row[0].trim_matches('`'), row[1].as_str()))
            .collect();
        let columns = &relations[&name];
        let expected: Vec<_> = columns
            .iter()
            .map(|(name, kind, _)| (name.as_str(), kind.as_str()))
            .collect();
        assert_eq!(described, expected, "{name}");
        for (row, (column, _, comment)) in rows.iter().zip(columns) {
            let said = row[2].replace('`', "");
            assert!(!said.is_empty(), "{name}.{column} is not described");
            if let Some(comment) = comment {
                assert!(
                    said.starts_with(&flat(comment)),
                    "{name}.{column}: not \"{comment}\""
                );
            }
        }
    }
}
