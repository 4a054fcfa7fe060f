//! README.md is short, and its badges are true.

use leaf_tests::page::root;
use std::fs;

fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).expect(file)
}

#[test]
fn first_id_is_on_the_first_screen() {
    let readme = text("README.md");
    let first = |what: &str| {
        readme
            .lines()
            .position(|line| line.contains(what))
            .expect(what)
    };
    // For whom it is, and for whom not, before anything is run.
    assert!(first("**Use a sequence**") < first("make demo"));
    assert!(first("make demo") < 30, "{}", first("make demo"));
    assert!(
        first("SELECT leaf_tag_create") < 40,
        "{}",
        first("SELECT leaf_tag_create")
    );
}

#[test]
fn badges_are_true() {
    let readme = text("README.md");
    let badges = readme
        .lines()
        .filter_map(|line| line.strip_prefix("[![")?.split_once(']'));
    let names: Vec<_> = badges.map(|(name, _)| name).collect();

    let cargo = text("Cargo.toml");
    let value = |name: &str| {
        let line = cargo
            .lines()
            .find_map(|line| line.strip_prefix(name))
            .expect(name);
        line.trim_matches([' ', '=', '"']).to_owned()
    };
    // Those that are built with the Rust that Cargo.toml names.
    let versions = cargo.lines().filter(|line| line.contains("\"dep:pgrx\""));
    let versions: Vec<_> = versions
        .filter_map(|line| line[2..].split(' ').next())
        .collect();
    let (first, last) = (versions[0], versions[versions.len() - 1]);
    let license = value("license");
    assert_eq!(
        names,
        [
            format!("PostgreSQL {first} to {last}"),
            format!("Rust {}", value("rust-version")),
            format!("Licence: {license}"),
        ]
    );
    assert!(text("LICENSE").starts_with("PostgreSQL License"));
    // What the pictures show is what their texts say.
    for (name, shown) in [
        (
            &names[0],
            readme.contains(&format!("PostgreSQL-{first}_to_{last}-")),
        ),
        (
            &names[1],
            readme.contains(&format!("Rust-{}-", value("rust-version"))),
        ),
        (&names[2], readme.contains(&format!("licence-{license}-"))),
    ] {
        assert!(shown, "the picture of {name}");
    }
}
