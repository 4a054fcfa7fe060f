//! Every term that the pages of concepts introduce, in bold, is in the table of words of docs/concepts.md, once and in
//! the order of the alphabet.

use std::collections::BTreeSet;
use std::fs;

use leaf_tests::page::{Page, root};

const PAGE: &str = "docs/concepts.md";

/// The terms of the glossary, in its order.
fn glossary() -> Vec<String> {
    let text = fs::read_to_string(root().join(PAGE)).expect(PAGE);
    let rows = text.lines().filter_map(|line| line.strip_prefix("| *"));
    let terms = rows.filter_map(|row| Some(row.split_once('*')?.0.to_owned()));
    terms.collect()
}

/// The words in bold of a page, as the glossary would have them. Sentences are no terms.
fn introduced(page: &str) -> Vec<String> {
    let text = fs::read_to_string(root().join(page)).expect(page);
    let bold = text.split("**").skip(1).step_by(2);
    let terms = bold.filter(|text| text.split_whitespace().count() <= 2);
    terms
        .map(|term| term.trim_end_matches('s').to_lowercase())
        .collect()
}

#[test]
fn every_term_of_the_concepts_is_in_the_glossary() {
    let known: BTreeSet<String> = glossary().into_iter().collect();
    let mut count = 0;
    for page in Page::all() {
        if !page.name.starts_with("docs/concepts") {
            continue;
        }
        for term in introduced(&page.name) {
            count += 1;
            let is_known = known.contains(&term) || known.contains(&format!("{term} tag"));
            assert!(is_known, "{}: \"{term}\" is not in the glossary", page.name);
        }
    }
    assert!(count >= 15, "only {count} terms were found");
}

#[test]
fn glossary_is_in_the_order_of_the_alphabet() {
    let terms = glossary();
    assert!(terms.len() > 40, "{terms:?}");
    assert!(terms.is_sorted_by(|one, next| one < next), "{terms:?}");
}
