//! Texts of servers and files: they give no orders to the terminal, and are exact for programs.

use leaf_tests::{Draw, Said, Server, leafctl, leafctl_on};
use serde_json::Value;
use std::fs::OpenOptions;
use std::process::{Command, Stdio};

/// Sets the title, colours, moves the cursor, and turns the direction of the text.
const EVIL: &str = "a\x1b]0;title\x07\x1b[31m\r\n\t\u{9b}2J\u{202e}'; rm -rf $HOME";

/// What people read has no such characters, except for the ends of lines.
#[track_caller]
fn assert_printable(said: &Said) {
    for text in [&said.out, &said.err] {
        let is_order = |c: char| (c.is_control() && c != '\n') || c == '\u{202e}';
        assert!(!text.contains(is_order), "{text:?}");
    }
}

/// A server with such a tag, whose grantee does not exist, whose column has a larger id, and
/// whose last load failed with an error of this kind.
fn server() -> Server {
    let server = Server::start();
    let mut client = server.connect();
    client
        .execute("SELECT leaf_tag_create($1)", &[&EVIL])
        .expect("a tag");
    client.run("CREATE TABLE t (id bigint PRIMARY KEY)");
    let sql = "DO $do$ BEGIN
        EXECUTE format('ALTER TABLE t ALTER id SET DEFAULT leaf_segment_next(%L)', (SELECT biz_tag FROM leaf.alloc));
        EXECUTE format('CREATE ROLE %I', (SELECT left(biz_tag, 40) FROM leaf.alloc));
        PERFORM leaf_tag_grant(biz_tag, left(biz_tag, 40)::name) FROM leaf.alloc;
        EXECUTE format('DROP ROLE %I', (SELECT left(biz_tag, 40) FROM leaf.alloc));
        END $do$";
    client.run(sql);
    client.run("INSERT INTO t VALUES (1000)");
    let trigger = "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $f$
        BEGIN RAISE EXCEPTION E'no \\x1b[31m'; END $f$;
        CREATE TRIGGER fail BEFORE UPDATE ON leaf.alloc FOR EACH ROW EXECUTE FUNCTION fail();
        ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER fail";
    client.run(trigger);
    client.run("SET leaf.wait_timeout = '100ms'");
    client.next(EVIL).expect_err("the load fails");
    server
}

#[test]
fn tag_role_or_error_gives_no_orders_to_the_terminal() {
    let server = server();
    for arguments in [&["status"][..], &["tags", "list"], &["doctor"]] {
        for color in ["never", "auto"] {
            let mut command = leafctl_on(&server);
            let said = Said::by(command.args(arguments).args(["--color", color]));
            assert_printable(&said);
            assert!(said.out.contains(r"\x1B[31m"), "{said:?}");
        }
    }
    for arguments in [
        &["tags", "drop", "b\x1b[31m"][..],
        &["tags", "align"],
        &["tags", "grant", EVIL, "b\x1b[31m"],
        &["tags", "create", "b\x1b[31m"],
    ] {
        let said = Said::by(leafctl_on(&server).args(arguments));
        assert_printable(&said);
        assert!(
            (said.out.clone() + &said.err).contains(r"\x1B[31m"),
            "{said:?}"
        );
    }
}

#[test]
fn programs_get_texts_exactly() {
    let server = server();
    let by = |arguments: &[&str]| Said::by(leafctl_on(&server).args(arguments)).done();
    let json: Value = serde_json::from_str(&by(&["status", "-f", "json"])).expect("JSON");
    assert_eq!(json["tags"][0]["tag"], EVIL);
    let json: Value = serde_json::from_str(&by(&["tags", "list", "-f", "json"])).expect("JSON");
    assert_eq!(json[0]["tag"], EVIL);
    let quoted = format!("\"{EVIL}\"");
    assert!(by(&["status", "-f", "csv"]).contains(&quoted));
    assert!(by(&["tags", "list", "-f", "csv"]).contains(&quoted));
}

#[test]
fn cures_can_be_copied_into_a_shell_and_into_psql() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('it''s $HOME'); CREATE ROLE \"a b\"; SELECT leaf_tag_grant('it''s $HOME', 'a b')");
    client.run("CREATE TABLE t (id bigint PRIMARY KEY DEFAULT leaf_segment_next('it''s $HOME')); INSERT INTO t VALUES (1000); DROP ROLE \"a b\"");
    let found = Said::by(leafctl_on(&server).args(["doctor", "-f", "json"])).out;
    let found: Value = serde_json::from_str(&found).expect("JSON");
    let findings = found.as_array().expect("findings").iter();
    let cures: Vec<&str> = findings
        .filter_map(|finding| finding["cure"].as_str())
        .collect();
    for cure in &cures {
        if let Some(command) = cure.strip_prefix("leafctl ") {
            let mut shell = Command::new("sh");
            shell.args(["-c", &format!("\"$LEAF_CTL\" {command}")]);
            for (name, value) in leafctl_on(&server).get_envs() {
                match value {
                    Some(value) => shell.env(name, value),
                    None => shell.env_remove(name),
                };
            }
            Said::by(&mut shell).done();
        } else if cure.starts_with("UPDATE") {
            client.run(cure);
        }
    }
    assert_eq!(cures.len(), 2, "{cures:?}");
    let said = Said::by(leafctl_on(&server).arg("doctor")).done();
    assert_eq!(said, "No problem was found.\n");
    assert_eq!(
        client.number("SELECT leaf_segment_next('it''s $HOME')"),
        1001
    );
}

#[test]
fn output_that_cannot_be_written_is_an_error_and_one_that_nobody_reads_is_not() {
    let (server, _client) = Server::with_orders(10);
    for arguments in [
        &["status"][..],
        &["status", "-f", "json"],
        &["status", "-f", "csv"],
        &["tags", "list"],
        &["doctor", "-f", "csv"],
        &["decode", "1"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
        &["help", "tags"],
        &["--version"],
    ] {
        let full = || {
            OpenOptions::new()
                .write(true)
                .open("/dev/full")
                .expect("it")
        };
        let mut command = leafctl_on(&server);
        let output = command
            .args(arguments)
            .stdout(full())
            .output()
            .expect("it runs");
        let error = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {error}");
        assert!(
            error.starts_with("leafctl: could not write to standard output: "),
            "{error}"
        );
        let closed = || {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            drop(reader);
            Stdio::from(writer)
        };
        let mut command = leafctl_on(&server);
        let output = command
            .args(arguments)
            .stdout(closed())
            .output()
            .expect("it runs");
        let error = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(
            (output.status.code(), error.as_str()),
            (Some(0), ""),
            "{arguments:?}"
        );
    }
    for unwritable in ["/dev/full", "closed"] {
        let mut command = leafctl();
        command.args(["decode", "x"]).stdout(Stdio::null());
        match unwritable {
            "closed" => {
                let (reader, writer) = std::io::pipe().expect("a pipe");
                drop(reader);
                command.stderr(writer)
            }
            file => command.stderr(OpenOptions::new().write(true).open(file).expect("it")),
        };
        let status = command.status().expect("it runs");
        assert_eq!(status.code(), Some(1), "{unwritable}");
    }
}

#[test]
fn text_that_is_not_utf_8_is_an_error_that_names_the_way_out() {
    let (server, mut client) = Server::with_orders(10);
    client.run("CREATE DATABASE bytes ENCODING 'SQL_ASCII' TEMPLATE template0 LOCALE 'C'");
    let mut bytes = server.connect_as("postgres", "bytes");
    bytes.run(
        "CREATE EXTENSION leaf; SELECT leaf_tag_create(convert_from('\\x636166e9', 'SQL_ASCII'))",
    );
    for arguments in [&["status"][..], &["tags", "list"], &["doctor"]] {
        let error = Said::by(leafctl_on(&server).args(arguments).args(["-d", "bytes"])).failed(1);
        assert!(
            error.contains("hint: a name or text in this database is not UTF-8"),
            "{error}"
        );
    }
}
