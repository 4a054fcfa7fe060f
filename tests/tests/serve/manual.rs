//! docs/serve.md: its commands, run with curl.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use leaf_tests::page::{Block, Page};
use leaf_tests::{Serve, Server};

/// The address in the commands of the page.
const ADDRESS: &str = "127.0.0.1:8080";

/// Runs a line of the page against a running server; what is answered.
fn curl(serve: &Serve, line: &str) -> String {
    let line = line.replace(ADDRESS, &serve.address().to_string());
    let output = Command::new("bash")
        .args(["-c", &format!("{line} --silent --show-error --fail")])
        .output();
    let output = output.expect("bash");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{line}: {said}\n{}", serve.log());
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The calls of curl in a block, without what stands behind them for readers.
fn calls(block: &Block) -> impl Iterator<Item = &str> {
    let lines = block.code.lines().filter(|line| line.starts_with("curl "));
    lines.map(|line| line.split(" #").next().unwrap_or(line).trim_end())
}

#[test]
fn commands_of_the_page_work() {
    let (server, _) = Server::with_orders(1000);
    let page = Page::read("docs/serve.md");
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("tokens.toml");
    let tokens = page
        .blocks
        .iter()
        .find(|block| block.language == "toml")
        .expect("a file of tokens");
    fs::write(&file, &tokens.code).expect("a file");
    fs::set_permissions(&file, Permissions::from_mode(0o640)).expect("its mode");

    let start = page
        .blocks
        .iter()
        .flat_map(|block| block.code.lines())
        .find(|line| line.starts_with("leafctl serve"));
    let options: Vec<_> = start
        .expect("a start")
        .rsplit_once('"')
        .expect("options")
        .1
        .split_whitespace()
        .collect();
    let open = Serve::start(&server, &options);
    let closed = Serve::start(&server, &["--tokens", file.to_str().expect("text")]);
    let mut ran = 0;
    for call in page
        .blocks
        .iter()
        .filter(|block| block.language == "sh")
        .flat_map(calls)
    {
        let serve = if call.contains("Bearer") {
            &closed
        } else {
            &open
        };
        let answer = curl(serve, call);
        assert!(
            answer.bytes().any(|byte| byte.is_ascii_digit()) || answer == "forgotten\n",
            "{call}: {answer}"
        );
        ran += 1;
    }
    assert!(ran >= 9, "{ran} commands");
    // What the page says that the second one answers.
    assert!(
        page.blocks
            .iter()
            .any(|block| block.code.contains(r#"{"ids":["2","3","4"]}"#))
    );
    assert_eq!(closed.get("/v1/segment/orders").status, 401);
}

#[test]
fn every_option_and_code_of_the_page_exists_and_the_other_way_round() {
    let text =
        fs::read_to_string(leaf_tests::page::root().join("docs/serve.md")).expect("the page");
    let help = Serve::command("", &["--help"]).output().expect("leafctl");
    let help = String::from_utf8_lossy(&help.stdout).into_owned();
    let names = |text: &str| {
        let words = text.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
        let options =
            words.filter(|word| word.len() > 3 && word.starts_with("--") && !word.ends_with('-'));
        options
            .map(str::to_owned)
            .collect::<std::collections::BTreeSet<_>>()
    };
    let known = names(&help);
    for option in names(&text) {
        assert!(known.contains(&option), "{option} of the page");
    }
    // Those of serve alone, which the page is to explain.
    for option in [
        "--listen",
        "--tag",
        "--tokens",
        "--no-auth",
        "--tls-cert",
        "--tls-key",
        "--node",
        "--cache",
    ] {
        assert!(known.contains(option) && text.contains(option), "{option}");
    }
    let code = fs::read_to_string(leaf_tests::page::root().join("cli/src/serve/problem.rs"))
        .expect("the source");
    let codes = code
        .split('"')
        .filter(|word| word.len() > 3 && word.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'));
    for code in codes.filter(|code| *code != "internal") {
        assert!(
            text.contains(&format!("`{code}`")),
            "{code} is not on the page"
        );
    }
}
