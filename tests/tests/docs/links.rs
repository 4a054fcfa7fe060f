//! Links of the pages lead somewhere, as GitHub shows them. A page of the manual links to a
//! file outside of docs/ by its address in the repository, because it is no part of the book.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Component, Path, PathBuf};

use leaf_tests::page::{Page, root};

const REPOSITORY: &str = "https://github.com/leaf-pg/leaf/";

/// All pages of the repository.
fn pages() -> Vec<String> {
    let mut pages = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(root().join(&folder)).expect("a folder") {
            let entry = entry.expect("an entry");
            let name = entry.file_name().display().to_string();
            let path = match folder.as_str() {
                "" => name.clone(),
                folder => format!("{folder}/{name}"),
            };
            if !entry.path().is_dir() {
                pages.extend(name.ends_with(".md").then_some(path));
            } else if !name.starts_with('.') && name != "target" && name != "node_modules" {
                folders.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// The targets of links and pictures, outside of code. Those to items of a crate, such as
/// `Config::new`, are followed by rustdoc.
fn targets(text: &str) -> Vec<String> {
    let mut is_code = false;
    let prose: Vec<&str> = text
        .lines()
        .filter(|line| {
            let is_fence = line.trim_start().starts_with("```");
            is_code ^= is_fence;
            !is_code && !is_fence
        })
        .collect();
    let prose = prose.join("\n");
    let found = prose.split("](").skip(1);
    found
        .filter_map(|rest| Some(rest.split_once(')')?.0.to_owned()))
        .filter(|target| !target.contains("::"))
        .collect()
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => drop(plain.pop()),
            Component::CurDir => {}
            part => plain.push(part),
        }
    }
    plain
}

/// What a link to a heading ends with, as GitHub makes it.
fn anchor(line: &str) -> Option<String> {
    let title = line.strip_prefix('#')?.trim_start_matches('#').trim();
    let kept = title
        .chars()
        .filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    let anchor: String = kept.collect();
    Some(anchor.to_lowercase().replace(' ', "-"))
}

/// Why a link leads nowhere, if it does.
fn is_broken(page: &str, target: &str) -> Option<String> {
    let (file, place) = target.split_once('#').unwrap_or((target, ""));
    let is_outside = file.contains("://");
    let path = match file.strip_prefix(REPOSITORY) {
        Some(rest) => match rest.split_once("/main/") {
            Some(("blob" | "tree", path)) => PathBuf::from(path),
            _ => return None,
        },
        None if is_outside => return None,
        None if file.is_empty() => PathBuf::from(page),
        None => plain(&Path::new(page).parent().expect("a folder").join(file)),
    };
    if !root().join(&path).exists() {
        return Some(format!("there is no {path:?}"));
    }
    if place.is_empty() {
        return None;
    }
    let text = fs::read_to_string(root().join(&path)).expect("a page");
    let has_place = text.lines().filter_map(anchor).any(|it| it == place);
    (!has_place).then(|| format!("{path:?} has no heading #{place}"))
}

#[test]
fn links_of_every_page_lead_somewhere() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for page in pages() {
        let text = fs::read_to_string(root().join(&page)).expect("a page");
        for target in targets(&text) {
            count += 1;
            let why = is_broken(&page, &target);
            wrong.extend(why.map(|why| format!("{page}: {target}: {why}")));
        }
    }
    assert!(count > 300, "only {count} links were found");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn broken_links_are_found() {
    for target in [
        "no-such-page.md",
        "concepts.md#no-such-heading",
        "#no-such-heading",
        "../no-such-page.md",
        "https://github.com/leaf-pg/leaf/blob/main/no-such-file",
        "https://github.com/leaf-pg/leaf/blob/main/README.md#no-such-heading",
    ] {
        assert!(is_broken("docs/index.md", target).is_some(), "{target}");
    }
    for target in [
        "concepts.md",
        "https://example.com/anything",
        "https://github.com/leaf-pg/leaf/tree/main/tests",
    ] {
        assert_eq!(is_broken("docs/index.md", target), None, "{target}");
    }
}

#[test]
fn every_page_is_a_chapter_of_the_book() {
    let summary = fs::read_to_string(root().join("docs/SUMMARY.md")).expect("the summary");
    let chapters: BTreeSet<String> = targets(&summary)
        .iter()
        .filter(|target| !target.starts_with("../"))
        .map(|target| format!("docs/{target}"))
        .collect();
    let pages = Page::all().into_iter().map(|page| page.name);
    let pages: BTreeSet<String> = pages
        .filter(|name| name.starts_with("docs/") && name != "docs/SUMMARY.md")
        .collect();
    assert_eq!(chapters, pages);
}
