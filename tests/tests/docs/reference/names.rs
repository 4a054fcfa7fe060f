//! Functions, settings, tables and views that any page names exist.

use std::collections::BTreeSet;
use std::fs;

use leaf_tests::Server;
use leaf_tests::page::{Page, root};

/// Files, and a function of a program, that look like names of leaf; and what only the plain edition
/// has.
const OTHERS: [&str; 5] = [
    "leaf.ranges",
    "leaf.sql",
    "leaf_id",
    "leaf.plain",
    "leaf_new_history",
];

/// The names in a text that begin with `prefix`, and what follows each.
fn names<'a>(text: &'a str, prefix: &'a str) -> impl Iterator<Item = (String, char)> + 'a {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '.';
    text.match_indices(prefix).filter_map(move |(at, _)| {
        let before = text[..at].chars().next_back().unwrap_or(' ');
        let rest = &text[at..];
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let name = rest[..end].trim_end_matches('.').to_owned();
        let after = rest[end..].chars().next().unwrap_or(' ');
        (!is_part(before) && !"/-".contains(before)).then_some((name, after))
    })
}

#[test]
fn every_function_setting_and_view_that_a_page_names_exists() {
    let server = Server::start();
    let rows = server.connect().query(
        "SELECT proname::text FROM pg_proc WHERE proname LIKE 'leaf%'
         UNION SELECT 'leaf.' || proname FROM pg_proc WHERE pronamespace = 'leaf'::regnamespace
         UNION SELECT name FROM pg_settings WHERE name LIKE 'leaf.%'
         UNION SELECT oid::regclass::text FROM pg_class WHERE relnamespace = 'leaf'::regnamespace
         UNION SELECT a.attrelid::regclass || '.' || a.attname FROM pg_attribute AS a
                 JOIN pg_class AS c ON c.oid = a.attrelid WHERE c.relnamespace = 'leaf'::regnamespace",
        &[],
    );
    let rows = rows.expect("names");
    let known: BTreeSet<String> = rows.iter().map(|row| row.get(0)).collect();
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in Page::all() {
        let text = fs::read_to_string(root().join(&page.name)).expect("a page");
        let calls = names(&text, "leaf_").filter(|(_, after)| *after == '(');
        for (name, _) in calls.chain(names(&text, "leaf.")) {
            count += 1;
            let is_of_python = name.starts_with("leaf_") && name.contains('.');
            // "leaf." ends a sentence.
            if !is_of_python
                && name != "leaf"
                && !known.contains(&name)
                && !OTHERS.contains(&name.as_str())
            {
                wrong.push(format!("{}: {name}", page.name));
            }
        }
    }
    assert!(count > 500, "only {count} names were found");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}
