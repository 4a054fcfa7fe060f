//! `bench`: figures, comparisons, and the check for duplicates.

use leaf_tests::{Draw, Said, Server, leafctl_on};
use serde_json::Value;

fn bench(server: &Server, arguments: &[&str]) -> Said {
    Said::by(
        leafctl_on(server)
            .args(["bench", "-T", "0.5"])
            .args(arguments),
    )
}

fn summary(server: &Server, arguments: &[&str]) -> Value {
    let json = bench(server, &[arguments, &["-f", "json"]].concat()).done();
    serde_json::from_str(&json).expect("JSON")
}

#[test]
fn every_kind_of_work_draws_ids_that_differ() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("CREATE SEQUENCE numbers");
    for arguments in [
        vec![],
        vec!["-c", "3", "--batch", "50"],
        vec!["--buffered", "-c", "2"],
        vec!["--buffered", "--batch", "100"],
        vec!["--snowflake"],
        vec!["--snowflake", "--batch", "10"],
        vec!["--snowflake", "--buffered"],
        vec!["--nextval", "numbers"],
    ] {
        let summary = summary(&server, &arguments);
        let number = |key: &str| summary[key].as_u64().expect("a number");
        assert!(number("ids") > 0, "{arguments:?} {summary}");
        assert_eq!(number("duplicates"), 0, "{arguments:?}");
        assert_eq!(number("unordered"), 0, "{arguments:?}");
        assert_eq!(
            number("compared"),
            number("ids").min(50_000_000),
            "{arguments:?}"
        );
    }
    assert_eq!(
        client.number("SELECT count(*) FROM leaf.alloc"),
        0,
        "its tag is dropped"
    );
    let leased =
        "SELECT count(*) FROM leaf.worker WHERE leased_until > now() AND node LIKE 'leafctl%'";
    assert_eq!(client.number(leased), 0, "its worker id is released");
    let log = server.log();
    assert!(!log.contains("client: "), "clients say goodbye: {log}");
}

#[test]
fn id_that_comes_twice_is_found() {
    let server = Server::start();
    server
        .connect()
        .run("CREATE SEQUENCE round MAXVALUE 10 CYCLE");
    let said = bench(&server, &["--nextval", "round"]);
    assert_eq!(said.code, Some(4), "{said:?}");
    assert!(said.err.contains("twice"), "{said:?}");
}

#[test]
fn summaries_can_be_saved_and_compared() {
    let (server, _client) = Server::with_orders(1_000);
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("before.json");
    let file = file.to_str().expect("a path");
    bench(&server, &["--tag", "orders", "--save", file]).done();
    let compared = bench(&server, &["--tag", "orders", "--compare", file]).done();
    assert!(
        compared.contains("compared with:") && compared.contains(" times)"),
        "{compared}"
    );
    std::fs::write(file, "{}").expect("a file");
    let error = bench(&server, &["--compare", file]).failed(2);
    assert!(error.contains("--save"), "{error}");
}

#[test]
fn progress_lines_are_those_of_pgbench() {
    let (server, _client) = Server::with_orders(1_000);
    let said = bench(&server, &["--tag", "orders", "-P", "0.1"]);
    let line = said.err.lines().next().expect("a line");
    let words: Vec<&str> = line.split(' ').collect();
    assert_eq!(
        (words[0], words[2], words[4], words[5], words[7]),
        ("progress:", "s,", "tps,", "lat", "ms"),
        "{line}"
    );
    assert!(
        line.contains(" stddev ") && line.ends_with(", 0 failed"),
        "{line}"
    );
    assert_eq!(said.code, Some(0));
}

#[test]
fn tag_that_cannot_be_drawn_from_is_an_error() {
    let server = Server::start();
    let error = bench(&server, &["--tag", "nothing"]).failed(1);
    assert!(error.contains("does not exist"), "{error}");
    server.connect().run("CREATE ROLE shop LOGIN");
    let error = bench(&server, &["-U", "shop"]).failed(1);
    assert!(error.contains("--tag"), "{error}");
}

#[test]
fn runs_at_the_same_time_have_tags_of_their_own() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('leafctl_bench', start => 777)");
    std::thread::scope(|scope| {
        for seconds in ["0.2", "1", "2"] {
            let mut command = leafctl_on(&server);
            command.args(["bench", "-T", seconds]);
            scope.spawn(move || Said::by(&mut command).done());
        }
    });
    // None of them is left, and that of somebody else is as it was.
    assert_eq!(client.number("SELECT count(*) FROM leaf.alloc"), 1);
    assert_eq!(client.next("leafctl_bench").expect("an id"), 777);
}
