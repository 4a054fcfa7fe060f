//! Runs the blocks of all pages.

use leaf_tests::page::{Block, Page, root};
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Said, Server, leafctl};
use std::env;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// docs/clients.md and the pages of docs/clients/: their blocks in other languages are compared
/// with programs that run, by `scripts/test-clients`.
const OF_CLIENTS: &str = "docs/clients";

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

/// Runs commands of a shell in an empty folder, where leafctl and psql are found and connect to
/// the database.
fn shell(server: &Server, database: &str, commands: &str) -> Result<String, String> {
    let folder = tempfile::tempdir().expect("a folder");
    let programs = [leafctl(), server.program("psql")].map(|program| {
        let path = Path::new(program.get_program()).parent();
        path.expect("a folder").display().to_string()
    });
    let path = env::var("PATH").unwrap_or_default();
    let said = Said::by(
        Command::new("bash")
            .args(["-eu", "-o", "pipefail", "-c", commands])
            .current_dir(folder.path())
            .env("PATH", format!("{}:{path}", programs.join(":")))
            .env("PGHOST", server.host())
            .env("PGUSER", "postgres")
            .env("PGDATABASE", database),
    );
    match said.code {
        Some(0) => Ok(said.out),
        code => Err(format!("exit status {code:?}\n{}{}", said.out, said.err)),
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
            "sh" => {
                let before = psql(server, database, &page.name, 1, &block.before);
                let before = before.map_err(|error| format!("before {at}: {error}"));
                let ran = before.and_then(|_| shell(server, database, &block.code));
                wrong.extend(ran.err().map(|error| format!("{at}: {error}")));
            }
            "" | "text" if !looks_like_sql(&block.code) => {}
            _ if page.name.starts_with(OF_CLIENTS) => {}
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
    // A script needs no name.
    let (file, name) = match test.rsplit_once("::") {
        Some((file, name)) => (file, name),
        None if test.starts_with("scripts/") => (test, ""),
        None => return Some(format!("\"{test}\" is not file::name of a test")),
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
fn every_block_of_the_manual_runs() {
    let pages = Page::all();
    let next = AtomicUsize::new(0);
    let wrong = Mutex::new(Vec::new());
    // A server per page: some pages change what databases share.
    thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while let Some(page) = pages.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let found = match page.blocks.is_empty() {
                        true => Vec::new(),
                        false => run(&Server::options().bare().start(), "page", page),
                    };
                    wrong.lock().expect("the list").extend(found);
                }
            });
        }
    });
    let wrong = wrong.into_inner().expect("the list");
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
    let blocks: Vec<_> = pages.iter().flat_map(|page| &page.blocks).collect();
    let count = |language: &str| blocks.iter().filter(|it| it.language == language).count();
    assert!(
        count("sql") >= 100 && count("sh") >= 10,
        "few blocks were found"
    );
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
            block("sh", "psql -Xc 'SELECT 1' | grep row\nfalse\n", None),
            block("python", "pass\n", None),
            block("", "SELECT 1;\n", None),
            block("sh", "true\n", Some("tests/tests/docs/blocks.rs::no_such")),
            block("sql", "SELECT 1;\n", None),
        ],
    };
    let wrong = run(&server, "wrong", &page);
    let expected = [
        "page.md:78: ERROR",
        "page.md:77: exit status Some(1)\n(1 row)",
        "page.md:77: a block of language \"python\"",
        "page.md:77: a block of language \"\"",
        "page.md:77: there is no test no_such",
    ];
    assert_eq!(wrong.len(), expected.len(), "{wrong:?}");
    for (wrong, expected) in wrong.iter().zip(expected) {
        assert!(wrong.starts_with(expected), "{wrong}");
    }
}

#[test]
fn make_refuses_a_server_that_a_command_could_not_name() {
    let mut make = Command::new("make");
    let made = make.current_dir(root()).args(["help", "PG_CONFIG="]);
    let made = made.output().expect("make");
    assert!(!made.status.success());
    assert!(String::from_utf8_lossy(&made.stderr).contains("PG_CONFIG is empty"));
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
