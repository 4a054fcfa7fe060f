//! tests/README.md names the tests that defend each guarantee of docs/guarantees.md: they exist, and
//! every guarantee has some.

use std::fs;

use leaf_tests::page::{Part, root};

const PAGE: &str = "docs/guarantees.md";

/// Where the tests of each are named.
const NAMES: &str = "tests/README.md";

/// Where the tests are that a name without `core/` leads to.
const TESTS: &str = "tests/tests";

/// The tests that a section names.
fn tests(part: &Part) -> Vec<String> {
    let words = part.text.split('`').skip(1).step_by(2);
    let named = words.filter(|word| word.contains(".rs"));
    named.map(str::to_owned).collect()
}

/// Whether a test, or a file of tests, exists.
fn exists(test: &str) -> bool {
    let (file, name) = test.split_once("::").unwrap_or((test, ""));
    let path = match file.starts_with("core/") {
        true => root().join(file),
        false => root().join(TESTS).join(file),
    };
    let text = fs::read_to_string(path).unwrap_or_default();
    match name {
        "" => text.contains("#[test]"),
        name => text.contains(&format!("#[test]\nfn {name}()")),
    }
}

#[test]
fn every_guarantee_has_limits_and_tests_that_exist() {
    let parts = Part::of(PAGE, 2);
    let named = Part::of(NAMES, 3);
    let guarantees: Vec<_> = parts
        .iter()
        .filter(|part| !part.title.starts_with("What nothing"))
        .collect();
    assert_eq!(guarantees.len(), 8);
    for part in guarantees {
        assert!(part.text.contains("**Limits.**"), "{}", part.title);
        let named = named.iter().find(|it| it.title == part.title);
        let tests = named.map(tests).unwrap_or_default();
        assert!(tests.len() >= 2, "{} has no tests", part.title);
        for test in tests {
            assert!(exists(&test), "{}: there is no {test}", part.title);
        }
    }
}

#[test]
fn test_that_does_not_exist_is_found() {
    assert!(!exists("segment/bounded_waits/waits.rs::no_such_test"));
    assert!(!exists("segment/no_such_file.rs::no_such_test"));
    assert!(!exists("core/tests/no_such_file.rs"));
    assert!(exists(
        "docs/guarantees.rs::test_that_does_not_exist_is_found"
    ));
}
