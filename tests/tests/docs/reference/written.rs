//! What the server says of itself stands on the pages as `make reference` has written it.

use std::{env, fs};

use leaf_tests::page::root;

/// A page is what it should be; with `LEAF_WRITE_REFERENCE`, it is written so.
pub fn is(page: &str, written: &str) {
    let path = root().join(page);
    if env::var_os("LEAF_WRITE_REFERENCE").is_some() {
        fs::write(&path, written).expect("the page can be written");
    }
    let now = fs::read_to_string(&path).expect("a page");
    assert!(now == written, "{page} is stale: use make reference");
}

/// The page with the text of each section of the third level as `write` makes it of its title and
/// its text.
pub fn with_sections(page: &str, write: impl Fn(&str, &str) -> String) -> String {
    let page = fs::read_to_string(root().join(page)).expect("a page");
    let mut sections = page.split("\n### ");
    let mut written = sections.next().unwrap_or_default().to_owned();
    for section in sections {
        let (title, text) = section.split_once('\n').unwrap_or((section, ""));
        let end = text.find("\n## ").unwrap_or(text.len());
        let (text, rest) = text.split_at(end);
        let text = write(title, text.trim());
        written += &format!("\n### {title}\n\n{}\n{rest}", text.trim_end());
    }
    written
}

/// A text in lines of at most `width` characters, of which all but the first are indented.
pub fn wrapped(text: &str, width: usize, indent: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("a line");
        match line.trim().is_empty() {
            true => *line += word,
            false if line.len() + 1 + word.len() <= width => *line += &format!(" {word}"),
            false => lines.push(format!("{indent}{word}")),
        }
    }
    lines.join("\n")
}
