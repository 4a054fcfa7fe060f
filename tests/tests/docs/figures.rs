//! The figures of docs/comparison.md are those that `make bench` has written, which tell how much
//! ratios varied.

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
    let mut measured = rows("bench/RESULTS.md");
    measured.extend(rows("bench/CORES.md"));
    let shown: Vec<_> = Part::of("docs/comparison.md", 2)
        .iter()
        .filter(|part| part.title == "Measured")
        .flat_map(Part::rows)
        .collect();
    let (compared, counted): (Vec<_>, Vec<_>) =
        shown.into_iter().partition(|row| row.len() == CELLS);
    assert!(compared.len() >= 5 && counted.len() >= 5, "{counted:?}");
    for row in compared {
        let is_it = |it: &&Vec<String>| {
            it[..4] == row[..4] && (it[4] == row[4] || it[4].starts_with(&format!("{} (", row[4])))
        };
        let found = measured.iter().find(is_it);
        assert!(found.is_some(), "{row:?} is in no file of results");
    }
    // Other tables: ids per second in one session, and in eight; the slowest calls, with their
    // median and the longest.
    let facts: Vec<_> = Part::of("bench/RESULTS.md", 2)
        .iter()
        .flat_map(Part::rows)
        .collect();
    let (slowest, counted): (Vec<_>, Vec<_>) =
        counted.into_iter().partition(|row| row[1].ends_with(" ms"));
    assert!(slowest.len() >= 5, "{slowest:?}");
    for row in slowest {
        let name = format!("worst case: {}", row[0]);
        let is_it = |it: &Vec<String>| it[0] == name && it[2] == row[1] && it[5] == row[2];
        assert!(
            facts.iter().any(is_it),
            "{row:?} is not in bench/RESULTS.md"
        );
    }
    for row in counted {
        let name = row[0].replace('`', "");
        for (sessions, figure) in [("1 session", &row[1]), ("8 sessions", &row[2])] {
            let fact = vec![
                format!("ids per second, {sessions}: {name}"),
                figure.clone(),
            ];
            assert!(facts.contains(&fact), "{fact:?} is not in bench/RESULTS.md");
        }
    }
}
