//! What a reader has to take in at once has a limit: paragraphs, items of lists, cells of tables and
//! sentences. Code is not counted, nor are the pages of the reference that are written from the
//! sources.

use std::fs;

use leaf_tests::page::{Page, root};

const WORDS_OF_A_PARAGRAPH: usize = 80;
const WORDS_OF_A_CELL: usize = 25;
const WORDS_OF_A_SENTENCE: usize = 32;
/// Of the median sentence of a page.
const WORDS_OF_MOST: usize = 18;

/// Of all pages that are written by hand, their code included.
const WORDS_OF_THE_MANUAL: usize = 45_000;
/// Besides one for each language.
const PAGES_OF_THE_BOOK: usize = 32;

const GENERATED: [&str; 3] = [
    "docs/reference/errors.md",
    "docs/reference/functions.md",
    "docs/reference/settings.md",
];

/// A part of a page that is read at once.
enum Part {
    Paragraph(String),
    Cell(String),
}

/// The paragraphs, items and cells of a page, without code, comments and headings.
fn parts(text: &str) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut paragraph = String::new();
    let mut fence = false;
    let end = |paragraph: &mut String, parts: &mut Vec<Part>| {
        if !paragraph.is_empty() {
            parts.push(Part::Paragraph(std::mem::take(paragraph)));
        }
    };
    for line in without_comments(text).lines() {
        let line = line.trim();
        if line.starts_with("```") {
            fence = !fence;
            end(&mut paragraph, &mut parts);
        } else if fence {
        } else if line.is_empty() || line.starts_with('#') {
            end(&mut paragraph, &mut parts);
        } else if line.starts_with('|') {
            end(&mut paragraph, &mut parts);
            let cells = line.trim_matches('|').split(" | ").map(str::trim);
            parts.extend(cells.map(|cell| Part::Cell(cell.to_owned())));
        } else {
            let number = line.split_once(". ").map(|(number, _)| number);
            let is_item =
                line.starts_with("- ") || number.is_some_and(|it| it.parse::<u32>().is_ok());
            if is_item {
                end(&mut paragraph, &mut parts);
            }
            let line = line.strip_prefix("- ").unwrap_or(line);
            paragraph.push_str(line);
            paragraph.push(' ');
        }
    }
    end(&mut paragraph, &mut parts);
    parts
}

fn without_comments(text: &str) -> String {
    let mut left = text;
    let mut kept = String::new();
    while let Some((before, after)) = left.split_once("<!--") {
        kept.push_str(before);
        left = after.split_once("-->").map_or("", |(_, after)| after);
    }
    kept + left
}

/// The text as it is read: code is one word, and a link its text.
fn plain(text: &str) -> String {
    let words: String = (text.split('`').enumerate())
        .map(|(at, part)| if at % 2 == 1 { "Code" } else { part })
        .collect();
    let mut left = words.as_str();
    let mut plain = String::new();
    while let Some((before, after)) = left.split_once("](") {
        plain.push_str(before);
        left = after.split_once(')').map_or("", |(_, after)| after);
    }
    (plain + left).replace(['*', '['], "")
}

fn words(text: &str) -> usize {
    text.split_whitespace().count()
}

/// The sentences of a paragraph.
fn sentences(text: &str) -> Vec<String> {
    let mut all: Vec<Vec<&str>> = vec![Vec::new()];
    let mut has_ended = false;
    for word in text.split_whitespace() {
        if has_ended {
            all.push(Vec::new());
        }
        all.last_mut().expect("one").push(word);
        let end = word.trim_end_matches([')', '"', '”']);
        has_ended = end.ends_with(['.', '?', '!', '…']);
    }
    all.iter().map(|words| words.join(" ")).collect()
}

/// What of a page is too long.
fn too_long(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut lengths = Vec::new();
    for part in parts(text) {
        match part {
            Part::Cell(cell) => {
                let cell = plain(&cell);
                if words(&cell) > WORDS_OF_A_CELL {
                    found.push(format!("cell of {} words: {cell}", words(&cell)));
                }
            }
            Part::Paragraph(paragraph) => {
                let paragraph = plain(&paragraph);
                if words(&paragraph) > WORDS_OF_A_PARAGRAPH {
                    found.push(format!(
                        "paragraph of {} words: {paragraph}",
                        words(&paragraph)
                    ));
                }
                for sentence in sentences(&paragraph) {
                    lengths.push(words(&sentence));
                    if words(&sentence) > WORDS_OF_A_SENTENCE {
                        found.push(format!(
                            "sentence of {} words: {sentence}",
                            words(&sentence)
                        ));
                    }
                }
            }
        }
    }
    lengths.sort_unstable();
    let median = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
    if median > WORDS_OF_MOST {
        found.push(format!("median sentence of {median} words"));
    }
    found
}

#[test]
fn nothing_is_too_long_to_be_read_at_once() {
    let others = ["sdk/README.md", "packaging/README.md"].map(String::from);
    let names = Page::all().into_iter().map(|page| page.name).chain(others);
    let mut found = Vec::new();
    for name in names.filter(|name| !GENERATED.contains(&name.as_str())) {
        let text = fs::read_to_string(root().join(&name)).expect(&name);
        found.extend(
            too_long(&text)
                .into_iter()
                .map(|it| format!("{name}: {it}")),
        );
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn what_is_too_long_is_found() {
    let text = |words: usize| "word ".repeat(words);
    let long = [
        format!("- {}. {}.", text(45), text(45)),
        format!("| {} |", text(26)),
        format!("A {}.", text(32)),
        "A sentence of nineteen words, which is too long for most. ".to_owned() + &text(19),
    ];
    for text in &long {
        assert!(!too_long(text).is_empty(), "{text}");
    }
    let short = [
        format!("{}. Word {}.\n\n{}", text(30), text(30), text(5)),
        format!("```\n{}\n```", text(100)),
        format!("`{}`", text(100)),
        format!("| {} | {} |", text(25), text(25)),
        format!("# {}", text(50)),
    ];
    for text in &short {
        let found = too_long(text);
        assert!(found.iter().all(|it| it.contains("median")), "{found:?}");
    }
}

#[test]
fn manual_can_be_read_to_its_end() {
    let pages = Page::all().into_iter().map(|page| page.name);
    let written = pages.filter(|name| name == "README.md" || name.starts_with("docs/"));
    let written =
        written.filter(|name| !name.starts_with("docs/reference/") && name != "docs/SUMMARY.md");
    let read = |name: String| fs::read_to_string(root().join(&name)).expect(&name);
    let count: usize = written
        .chain(["sdk/README.md".to_owned()])
        .map(|name| words(&read(name)))
        .sum();
    assert!(count <= WORDS_OF_THE_MANUAL, "{count} words");

    let summary = read("docs/SUMMARY.md".to_owned());
    let pages = summary.lines().filter(|line| line.ends_with(".md)"));
    let is_of_a_language =
        |line: &&str| line.contains("(clients/") || line.contains("(../sdk/README.md)");
    let pages: Vec<_> = pages.filter(|line| !is_of_a_language(line)).collect();
    assert!(
        (20..=PAGES_OF_THE_BOOK).contains(&pages.len()),
        "{} pages",
        pages.len()
    );
}
