//! Runs the blocks of all pages.

use leaf_tests::page::{Block, Page, root};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Server};
use std::fs;
use std::io::Write;
use std::process::Stdio;

/// The page whose blocks in other languages are compared with programs that run;
/// `scripts/test-clients` does that.
const OF_CLIENTS: &str = "docs/clients.md";

/// Runs SQL with `psql`, as a reader would, and returns what it prints; an error names the
/// line of the page.
fn psql(
    server: &Server,
    database: &str,
    page: &str,
    line: usize,
    sql: &str,
) -> Result<String, String> {
    let mut psql = server.program("psql");
    psql.args([
        "-X",
        "-q",
        "-v",
        "ON_ERROR_STOP=1",
        "-d",
        database,
        "-f",
        "-",
    ]);
    // psql counts the lines that it has read.
    let input = "\n".repeat(line - 1) + sql;
    let pipes = psql
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = pipes.spawn().expect("psql starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    // It stops reading at an error.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    let output = child.wait_with_output().expect("psql ends");
    let said = String::from_utf8_lossy(&output.stderr).replace("psql:<stdin>", page);
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(said),
    }
}

/// Runs the blocks of a page in a database of its own; returns what is wrong.
fn run(server: &Server, database: &str, page: &Page) -> Vec<String> {
    let mut admin = server.connect();
    admin.run(&format!("CREATE DATABASE {database}"));
    let mut wrong = Vec::new();
    for block in &page.blocks {
        let at = format!("{}:{}", page.name, block.line);
        if let Some(test) = &block.tested_by {
            wrong.extend(is_missing(test).map(|why| format!("{at}: {why}")));
            continue;
        }
        match block.language.as_str() {
            "sql" if lacks(&mut admin, block) => {
                println!(
                    "{at}: not run, because this server has no {:?}",
                    block.needs
                );
            }
            "sql" => {
                let before = psql(server, database, &page.name, 1, &block.before);
                let before = before.map_err(|error| format!("before {at}: {error}"));
                let ran = before
                    .and_then(|_| psql(server, database, &page.name, block.line, &block.code));
                wrong.extend(ran.err());
            }
            "" | "text" if !looks_like_sql(&block.code) => {}
            _ if page.name == OF_CLIENTS => {}
            language => wrong.push(format!(
                "{at}: a block of language \"{language}\" that no test runs"
            )),
        }
    }
    wrong
}

/// Runs the blocks of SQL of a page in a database of its own; panics if one fails.
pub fn prepare(server: &Server, database: &str, page: &str) {
    let wrong = run(server, database, &Page::read(page));
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Whether the server has not got the extension that a block needs. Debian's 15 has.
fn lacks(client: &mut Client, block: &Block) -> bool {
    let Some(extension) = &block.needs else {
        return false;
    };
    let query = format!("SELECT count(*) FROM pg_available_extensions WHERE name = '{extension}'");
    let is_there = client.number(&query) > 0;
    assert!(
        is_there || !is_debians_15(client),
        "{extension} is not installed"
    );
    !is_there
}

/// Whether the server is the one for which `scripts/setup` installs extensions.
fn is_debians_15(client: &mut Client) -> bool {
    let version = client.text("SELECT version()");
    version.starts_with("PostgreSQL 15") && version.contains("Debian")
}

/// Why there is no such test, if there is none.
fn is_missing(test: &str) -> Option<String> {
    let Some((file, name)) = test.rsplit_once("::") else {
        return Some(format!("\"{test}\" is not file::name of a test"));
    };
    let text = fs::read_to_string(root().join(file));
    let Ok(text) = text else {
        return Some(format!("there is no file {file}"));
    };
    let is_there =
        text.contains(&format!("fn {name}()")) || (!file.ends_with(".rs") && text.contains(name));
    (!is_there).then(|| format!("there is no test {name} in {file}"))
}

fn looks_like_sql(code: &str) -> bool {
    let first = code.split_whitespace().next().unwrap_or_default();
    let verbs = [
        "SELECT", "INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "COPY", "GRANT", "SET",
    ];
    verbs.contains(&first.to_uppercase().as_str())
}

#[test]
fn every_block_of_sql_in_the_manual_runs() {
    let pages = Page::all();
    let mut wrong = Vec::new();
    for page in &pages {
        // Some change what a server's databases share.
        let server = Server::options().bare().start();
        wrong.extend(run(&server, "page", page));
    }
    let blocks = pages.iter().flat_map(|page| &page.blocks);
    let count = blocks.filter(|block| block.language == "sql").count();
    assert!(count >= 15, "only {count} blocks of SQL were found");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn an_error_in_a_block_fails_with_file_and_line() {
    let server = Server::options().bare().start();
    let block = |language: &str, code: &str, tested_by: Option<&str>| Block {
        line: 77,
        language: language.into(),
        code: code.into(),
        before: String::new(),
        needs: None,
        tested_by: tested_by.map(Into::into),
    };
    let page = Page {
        name: "page.md".into(),
        blocks: vec![
            block("sql", "SELECT 1;\nSELECT leaf_no_such();\n", None),
            block("sh", "true\n", None),
            block("", "SELECT 1;\n", None),
            block("sh", "true\n", Some("tests/tests/docs/blocks.rs::no_such")),
            block("sql", "SELECT 1;\n", None),
        ],
    };
    let wrong = run(&server, "wrong", &page);
    assert_eq!(wrong.len(), 4, "{wrong:?}");
    assert!(wrong[0].contains("page.md:78: ERROR"), "{}", wrong[0]);
    assert!(
        wrong[1].starts_with("page.md:77: a block of language"),
        "{}",
        wrong[1]
    );
    assert!(
        wrong[3].contains("there is no test no_such"),
        "{}",
        wrong[3]
    );
}

#[test]
fn the_manual_links_to_pages_that_exist() {
    for page in Page::all() {
        let folder = root().join(&page.name);
        let folder = folder.parent().expect("a folder");
        let text = fs::read_to_string(root().join(&page.name)).expect("a page");
        let targets = text
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next());
        for target in targets.filter(|target| !target.contains("://")) {
            let (file, place) = target.split_once('#').unwrap_or((target, ""));
            let linked = match file {
                "" => root().join(&page.name),
                file => folder.join(file),
            };
            assert!(linked.exists(), "{}: no {target}", page.name);
            if !place.is_empty() {
                let linked = fs::read_to_string(linked).expect("a page");
                let has_place = linked.lines().filter_map(anchor).any(|it| it == place);
                assert!(has_place, "{}: no {target}", page.name);
            }
        }
    }
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

#[test]
fn make_targets_of_the_manual_exist() {
    let makefile = fs::read_to_string(root().join("Makefile")).expect("Makefile");
    let blocks = Page::all().into_iter().flat_map(|page| page.blocks);
    let code: String = blocks
        .filter(|it| it.language == "sh")
        .map(|it| it.code)
        .collect();
    let made = code.lines().filter_map(|line| line.strip_prefix("make "));
    for line in made {
        let target = line.split_whitespace().next().unwrap_or_default();
        assert!(
            makefile.contains(&format!("\n{target}:")),
            "no target {target}"
        );
    }
}
