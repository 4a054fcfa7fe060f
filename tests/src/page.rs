//! The code blocks of a page, and the comments before them, which its readers do not see:
//!
//! - `<!-- before: … -->`: SQL that runs before the next block, such as what an earlier page
//!   has done;
//! - `<!-- needs: pg_partman -->`: the next block needs this extension, which not every server
//!   has;
//! - `<!-- tested by: tests/tests/docs/x.rs::name; reason -->`: the next block is not run here.
//!   The test that is named does so, or covers what the block is about.

use std::fs;
use std::path::{Path, PathBuf};

/// A code block.
#[derive(Debug)]
pub struct Block {
    /// The line of its first line of code, counted from 1.
    pub line: usize,
    /// What stands behind the fence, such as `sql`.
    pub language: String,
    pub code: String,
    /// SQL that has to run before.
    pub before: String,
    /// An extension that it needs.
    pub needs: Option<String>,
    /// The test that covers it: `file::name`.
    pub tested_by: Option<String>,
}

/// A page of the manual.
pub struct Page {
    /// Its path from the root of the repository.
    pub name: String,
    pub blocks: Vec<Block>,
}

/// What stands below a heading, up to the next one of its level or above.
#[derive(Debug)]
pub struct Part {
    pub title: String,
    pub text: String,
}

impl Part {
    /// The parts of a page whose headings have this level, such as 2 for `##`.
    pub fn of(page: &str, level: usize) -> Vec<Part> {
        let text = fs::read_to_string(root().join(page)).expect(page);
        let parts = Part::of_text(&text, level);
        assert!(!parts.is_empty(), "{page} has no headings of level {level}");
        parts
    }

    fn of_text(text: &str, level: usize) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        let (mut is_open, mut is_code) = (false, false);
        for line in text.lines() {
            is_code ^= line.trim_start().starts_with("```");
            let depth = line.len() - line.trim_start_matches('#').len();
            let is_heading = !is_code && depth > 0 && line[depth..].starts_with(' ');
            if is_heading && depth <= level {
                is_open = depth == level;
                let title = line[depth..].trim().replace('`', "");
                if is_open {
                    let text = String::new();
                    parts.push(Part { title, text });
                }
            } else if let Some(part) = parts.last_mut().filter(|_| is_open) {
                part.text.push_str(line);
                part.text.push('\n');
            }
        }
        parts
    }

    /// The cells of its tables, without the headings.
    pub fn rows(&self) -> Vec<Vec<String>> {
        let lines = self.text.lines().filter(|line| line.starts_with('|'));
        let mut rows: Vec<Vec<String>> = Vec::new();
        for line in lines {
            let cells = line.trim_matches('|').split(" | ");
            let cells: Vec<_> = cells.map(|cell| cell.trim().to_owned()).collect();
            match line.starts_with("|---") {
                // The line before has the headings.
                true => drop(rows.pop()),
                false => rows.push(cells),
            }
        }
        rows
    }

    /// The names with which the items of its lists begin: `- \`name\`: …`.
    pub fn listed(&self) -> Vec<String> {
        let items = self
            .text
            .lines()
            .filter_map(|line| line.strip_prefix("- `"));
        let names = items.filter_map(|item| Some(item.split_once('`')?.0.to_owned()));
        names.collect()
    }
}

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("a parent").to_owned()
}

impl Page {
    /// README.md, that of examples/, and all pages of docs/ and its folders.
    pub fn all() -> Vec<Page> {
        let mut names = ["README.md", "examples/README.md"]
            .map(String::from)
            .to_vec();
        let mut folders = vec!["docs".to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(root().join(&folder)).expect("a folder") {
                let entry = entry.expect("an entry");
                let name = format!("{folder}/{}", entry.file_name().display());
                if entry.path().is_dir() {
                    folders.push(name);
                } else if name.ends_with(".md") {
                    names.push(name);
                }
            }
        }
        names.sort();
        names.iter().map(|name| Page::read(name)).collect()
    }

    /// A page by its path from the root of the repository.
    pub fn read(name: &str) -> Page {
        let text = fs::read_to_string(root().join(name)).expect(name);
        Page {
            name: name.to_owned(),
            blocks: blocks(name, &text),
        }
    }

    /// The code of the block that the named test covers.
    pub fn code_tested_by(&self, test: &str) -> Vec<&str> {
        let named = |block: &&Block| {
            let name = block.tested_by.as_deref().unwrap_or_default();
            name.ends_with(&format!("::{test}"))
        };
        let found = self.blocks.iter().filter(named);
        let codes: Vec<_> = found.map(|block| block.code.as_str()).collect();
        assert!(!codes.is_empty(), "{}: no block names {test}", self.name);
        codes
    }
}

fn blocks(page: &str, text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let (mut before, mut needs, mut tested_by) = (String::new(), None, None);
    let mut lines = text.lines().zip(1..);
    while let Some((line, number)) = lines.next() {
        if let Some(begun) = line.strip_prefix("<!-- ") {
            let mut comment = begun.to_owned();
            while !comment.contains("-->") {
                let (more, _) = lines.next().expect("the comment ends");
                comment.push('\n');
                comment.push_str(more);
            }
            let comment = comment.split("-->").next().unwrap_or_default().trim();
            match comment.split_once(':') {
                Some(("before", sql)) => before = sql.trim().to_owned(),
                Some(("needs", extension)) => needs = Some(extension.trim().to_owned()),
                Some(("tested by", test)) => {
                    let test = test.split(';').next().unwrap_or_default();
                    tested_by = Some(test.trim().to_owned());
                }
                _ => {}
            }
            continue;
        }
        let Some(language) = line.trim_start().strip_prefix("```") else {
            let is_between = line.trim().is_empty();
            assert!(
                is_between || (before.is_empty() && needs.is_none() && tested_by.is_none()),
                "{page}:{number}: a block must follow the comment"
            );
            continue;
        };
        let indent = line.len() - line.trim_start().len();
        let mut code = String::new();
        loop {
            let (line, _) = lines.next().expect("the block ends");
            if line.trim() == "```" {
                break;
            }
            code.push_str(line.get(indent..).unwrap_or_default());
            code.push('\n');
        }
        blocks.push(Block {
            line: number + 1,
            language: language.trim().to_owned(),
            code,
            before: std::mem::take(&mut before),
            needs: needs.take(),
            tested_by: tested_by.take(),
        });
    }
    blocks
}

#[test]
fn blocks_are_found_with_their_lines_and_comments() {
    let text = "\
Text.

<!-- before: SELECT 1;
SELECT 2; -->
```sql
SELECT 3;
```
- a list:
  ```sql
  SELECT
    4;
  ```

<!-- tested by: tests/tests/docs/x.rs::y; it needs a network -->
```sh
true
```
";
    let found = blocks("page", text);
    let [first, second, third] = &found[..] else {
        panic!("{found:?}");
    };
    assert_eq!((first.line, first.code.as_str()), (6, "SELECT 3;\n"));
    assert_eq!(first.before, "SELECT 1;\nSELECT 2;");
    assert_eq!((second.line, second.code.as_str()), (10, "SELECT\n  4;\n"));
    assert!(second.before.is_empty() && second.tested_by.is_none());
    assert_eq!(third.language, "sh");
    assert_eq!(third.tested_by.as_deref(), Some("tests/tests/docs/x.rs::y"));
}

#[test]
fn parts_end_with_the_next_heading_of_their_level_or_above() {
    let text = "\
# Title
## `first`
- `a`: one
- `b`: two
```sh
## a comment
```
### below
| name | type |
|---|---|
| `x` | text |
# Another
outside
## second
";
    let parts = Part::of_text(text, 2);
    let [first, second] = &parts[..] else {
        panic!("{parts:?}");
    };
    assert_eq!(
        (first.title.as_str(), second.title.as_str()),
        ("first", "second")
    );
    assert_eq!(first.listed(), ["a", "b"]);
    assert_eq!(first.rows(), [["`x`", "text"]]);
    assert!(first.text.contains("## a comment") && first.text.contains("### below"));
    assert!(!first.text.contains("outside"));
}
