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

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().expect("a parent").to_owned()
}

impl Page {
    /// README.md, all pages of docs/, and the runbook.
    pub fn all() -> Vec<Page> {
        let docs = fs::read_dir(root().join("docs")).expect("docs");
        let names = docs.map(|entry| entry.expect("an entry").file_name());
        let mut names: Vec<String> = names
            .map(|name| format!("docs/{}", name.display()))
            .filter(|name| name.ends_with(".md"))
            .collect();
        names.extend(["README.md", "examples/README.md", "monitoring/README.md"].map(String::from));
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
