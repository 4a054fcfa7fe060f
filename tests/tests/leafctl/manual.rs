//! Completions and manual pages.

use leaf_tests::page::Page;
use leaf_tests::{Draw, Said, Server, leafctl};
use std::path::Path;
use std::process::Command;

#[test]
fn completions_are_scripts_that_the_shell_accepts() {
    let script = Said::by(leafctl().args(["completions", "bash"])).done();
    let checked = Said::by_with(Command::new("bash").args(["-n"]), &script);
    assert_eq!((checked.code, checked.err.as_str()), (Some(0), ""));
    let complete = format!(
        "{script}\nCOMP_WORDS=(leafctl do) COMP_CWORD=1; _leafctl leafctl do leafctl; echo \"${{COMPREPLY[@]}}\""
    );
    let completed = Said::by(Command::new("bash").args(["-c", &complete])).done();
    assert_eq!(completed.trim(), "doctor");
    for shell in ["zsh", "fish", "elvish", "powershell"] {
        assert!(
            Said::by(leafctl().args(["completions", shell]))
                .done()
                .contains("doctor"),
            "{shell}"
        );
    }
}

#[test]
fn every_command_has_a_manual_page_and_a_help() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().to_str().expect("a path");
    Said::by(leafctl().args(["man", "--directory", path])).done();
    let help = Said::by(leafctl().arg("--help")).done();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands: Vec<&str> = commands
        .take_while(|line| !line.is_empty())
        .filter_map(|line| line.split_whitespace().next())
        .filter(|command| *command != "help")
        .collect();
    assert!(commands.contains(&"doctor"), "{help}");
    for command in commands {
        let page = folder.path().join(format!("leafctl-{command}.1"));
        let page =
            std::fs::read_to_string(&page).unwrap_or_else(|error| panic!("{command}: {error}"));
        assert!(page.contains(".SH SYNOPSIS"), "{page}");
        Said::by(leafctl().args([command, "-?"])).done();
        Said::by(leafctl().args(["help", command])).done();
    }
    let page = Said::by(leafctl().arg("man")).done();
    assert!(page.contains(".TH leafctl 1"), "{page}");
}

#[test]
fn exit_codes_are_in_the_help() {
    let help = Said::by(leafctl().arg("--help")).done();
    let help: Vec<&str> = help.split_whitespace().collect();
    let codes = "Exit codes: 0 done, 1 failed, 2 wrong command line, 3 no server reached, 4 problems found by doctor, 130 interrupted.";
    assert!(help.join(" ").contains(codes));
    assert_eq!(Said::by(leafctl().arg("nonsense")).code, Some(2));
    assert_eq!(Said::by(&mut leafctl()).code, Some(2));
}

#[test]
fn commands_of_the_page_work() {
    let (server, mut client) = Server::with_orders(100);
    client.run(
        "SELECT leaf_tag_drop('orders'); CREATE ROLE shop;
         CREATE TABLE customers (id serial PRIMARY KEY); INSERT INTO customers DEFAULT VALUES",
    );
    let page = Page::read("docs/leafctl.md");
    let script = page.code_tested_by("commands_of_the_page_work").concat();
    let folder = tempfile::tempdir().expect("a folder");
    let program = std::env::var("LEAF_CTL").expect("LEAF_CTL");
    let programs = Path::new(&program).parent().expect("a folder").display();
    let bindir = server.program("psql").get_program().to_owned();
    let bindir = Path::new(&bindir)
        .parent()
        .expect("a folder")
        .display()
        .to_string();
    let path = std::env::var("PATH").unwrap_or_default();
    let said = Said::by(
        Command::new("bash")
            .args(["-eu", "-o", "pipefail", "-c", &script])
            .current_dir(folder.path())
            .env("PATH", format!("{programs}:{bindir}:{path}"))
            .env("PGHOST", server.host())
            .env("PGUSER", "postgres")
            .env("PGDATABASE", "postgres"),
    );
    for part in [
        "what we sell",
        "worker_id",
        "No problem was found",
        "2026-11-20",
    ] {
        assert!(said.out.contains(part), "{part}: {}", said.out);
    }
    said.done();
}
