//! The figures of docs/comparison.md are those that `make bench` has written.

use std::collections::BTreeSet;

use leaf_tests::page::Part;

/// What was compared with what, and the outcome.
const CELLS: usize = 5;

fn rows(page: &str) -> BTreeSet<Vec<String>> {
    let parts = Part::of(page, 2);
    let rows = parts.iter().flat_map(Part::rows);
    let rows = rows.filter(|row| row.len() >= CELLS);
    rows.map(|row| row[..CELLS].to_vec()).collect()
}

#[test]
fn figures_are_those_of_the_benchmark() {
    let measured = rows("bench/RESULTS.md");
    let shown: Vec<_> = Part::of("docs/comparison.md", 2)
        .iter()
        .filter(|part| part.title == "Measured")
        .flat_map(Part::rows)
        .collect();
    assert!(shown.len() >= 5, "{shown:?}");
    for row in shown {
        assert!(
            measured.contains(&row),
            "{row:?} is not in bench/RESULTS.md"
        );
    }
}
