//! `import`: tags go on where another service has stopped.

use leaf_tests::page::Page;
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, MariaDb, Said, Server, leafctl, leafctl_on};

/// The commands of the page that a test covers.
fn commands(test: &str) -> String {
    Page::read("docs/leafctl.md").code_tested_by(test).concat()
}

/// A server with the role that is meant to own the tags.
fn server() -> (Server, Client) {
    let server = Server::start();
    let mut client = server.connect();
    client.run("CREATE ROLE shop");
    (server, client)
}

/// What would be created from the output of a query, as CSV.
fn planned(arguments: &[&str], output: &[u8]) -> Said {
    let always = ["--dry-run", "-f", "csv", "-"];
    Said::by_with(leafctl().arg("import").args(arguments).args(always), output)
}

const LEAF_ALLOC: &str = "
    CREATE DATABASE leaf CHARACTER SET utf8mb4; USE leaf;
    CREATE TABLE leaf_alloc (
        biz_tag varchar(128) NOT NULL DEFAULT '',
        max_id bigint(20) NOT NULL DEFAULT '1',
        step int(11) NOT NULL,
        description varchar(256) DEFAULT NULL,
        update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
        PRIMARY KEY (biz_tag)
    ) ENGINE=InnoDB COMMENT='the tags; ''all'' of them';
    INSERT INTO leaf_alloc (biz_tag, max_id, step, description) VALUES
        ('orders', 2001, 1000, 'what we sell'), ('nothing', 1, 7, NULL), ('empty', 5, 8, ''),
        ('it''s \\\"odd\\\" \\\\N; -- 💧', 9, 9, 'first\\r\\nsecond\\ttab (x), (y);')";

#[test]
fn meituan_leaf_goes_on_where_it_stopped() {
    let old = MariaDb::start();
    old.run("mysql", LEAF_ALLOC);
    let (server, mut client) = server();
    let commands = commands("meituan_leaf_goes_on_where_it_stopped");
    let first_try = commands.replace("--owner shop", "--dry-run -f csv");
    let planned = old.script(&server, &first_try).expect("the commands work");
    assert_eq!(client.number("SELECT count(*) FROM leaf.alloc"), 0);
    assert_eq!(planned.lines().next(), Some("tag,next_id,step,description"));
    // The table has been renamed.
    let rest = commands.split_once('\n').expect("several lines").1;
    old.script(&server, rest).expect("the commands work");
    assert_eq!(client.next("orders").expect("an id"), 2001);
    for (tag, step, description) in [
        ("orders", 1_000, Some("what we sell")),
        ("nothing", 7, None),
        ("empty", 8, Some("")),
        (
            "it's \"odd\" \\N; -- 💧",
            9,
            Some("first\r\nsecond\ttab (x), (y);"),
        ),
    ] {
        let sql = "SELECT step, description::text, owner::text FROM leaf.alloc WHERE biz_tag = $1";
        let row = client
            .query_one(sql, &[&tag])
            .unwrap_or_else(|error| panic!("{tag}: {error}"));
        assert_eq!((row.get(0), row.get(1)), (step, description), "{tag}");
        assert_eq!(row.get::<_, &str>(2), "shop");
    }
    assert_eq!(client.number("SELECT count(*) FROM leaf.alloc"), 4);
    // A second import changes nothing.
    let error = old.script(&server, rest).expect_err("the tags exist");
    assert!(error.contains("exists already"), "{error}");
    assert_eq!(client.next("orders").expect("an id"), 2002);
}

const TAGS: &str =
    "biz_tag\tmax_id\tstep\tdescription\ttotal\norders\t2001\t1000\tx\t2\nitems\t7\t5\tNULL\t2\n";
const ITS_TAGS: &str = "tag,next_id,step,description\nitems,7,5,\norders,2001,1000,x\n";

#[test]
fn import_is_all_or_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("leaf.tsv");
    std::fs::write(&file, TAGS).expect("a file");
    let file = file.to_str().expect("a path");
    let (server, mut client) = Server::with_orders(10);
    let import =
        |arguments: &[&str]| Said::by(leafctl_on(&server).arg("import").args(arguments)).failed(1);
    let error = import(&["leaf", file]);
    assert!(error.contains("tag \"orders\" exists already"), "{error}");
    assert_eq!(client.number("SELECT count(*) FROM leaf.alloc"), 1);
    let error = import(&["leaf", "--owner", "nobody", file]);
    assert!(error.contains("role \"nobody\" does not exist"), "{error}");
    let error = import(&["leaf", "/nonexistent.tsv"]);
    assert!(error.contains("/nonexistent.tsv"), "{error}");
    let error = import(&["leaf", file, file]);
    assert!(error.contains("occurs more than once"), "{error}");
}

const TINYID: &str = "
    CREATE TABLE tiny_id_info (
        id bigint(20) unsigned NOT NULL AUTO_INCREMENT, biz_type varchar(63) NOT NULL DEFAULT '',
        begin_id bigint(20) NOT NULL DEFAULT '0', max_id bigint(20) NOT NULL DEFAULT '0',
        step int(11) DEFAULT '0', delta int(11) NOT NULL DEFAULT '1',
        remainder int(11) NOT NULL DEFAULT '0', create_time timestamp NOT NULL DEFAULT '2010-01-01 00:00:00',
        update_time timestamp NOT NULL DEFAULT '2010-01-01 00:00:00', version bigint(20) NOT NULL DEFAULT '0',
        PRIMARY KEY (id), UNIQUE KEY uniq_biz_type (biz_type)
    ) ENGINE=InnoDB AUTO_INCREMENT=1 DEFAULT CHARSET=utf8 COMMENT 'id信息表'";

#[test]
fn tinyid_needs_all_its_databases_and_begins_above_them() {
    let old = MariaDb::start();
    for (database, max_id, remainder) in [("tinyid_a", 3_000, 0), ("tinyid_b", 5_000, 1)] {
        old.run(
            "mysql",
            &format!(
                "CREATE DATABASE {database}; USE {database}; {TINYID};
             INSERT INTO tiny_id_info (biz_type, max_id, step, delta, remainder)
             VALUES ('orders', {max_id}, 1000, 2, {remainder})"
            ),
        );
    }
    let (server, mut client) = server();
    let commands = commands("tinyid_needs_all_its_databases_and_begins_above_them");
    let (a, b) = ("tinyid_a.tsv", "tinyid_b.tsv");
    let of_one = commands.replace(&format!("tinyid {a} {b}"), &format!("tinyid {a}"));
    let error = old.script(&server, &of_one).expect_err("one is missing");
    assert!(
        error.contains("come from 2 databases, but there are rows of 1"),
        "{error}"
    );
    let import = |files: &str| old.script(&server, &format!("leafctl import tinyid {files}"));
    import(&format!("{a} {a}")).expect_err("one is missing");
    // In any order, in files or in a pipe.
    let plan = |files: &str| import(&format!("--dry-run -f csv {files}")).expect("a plan");
    assert_eq!(plan(&format!("{a} {b}")), plan(&format!("{b} {a}")));
    let piped = format!("cat {b} {a} | leafctl import tinyid --owner shop -");
    old.script(&server, &piped).expect("the commands work");
    assert_eq!(client.next("orders").expect("an id"), 5_001);
}

#[test]
fn ticket_tables_begin_above_the_highest() {
    let old = MariaDb::start();
    for (database, first) in [("tickets_odd", 101), ("tickets_even", 250)] {
        old.run("mysql", &format!(
            "CREATE DATABASE {database}; USE {database};
             CREATE TABLE Tickets64 (id bigint(20) unsigned NOT NULL auto_increment, stub char(1) NOT NULL default '',
                 PRIMARY KEY (id), UNIQUE KEY stub (stub)) ENGINE=InnoDB AUTO_INCREMENT={first};
             REPLACE INTO Tickets64 (stub) VALUES ('a')"
        ));
    }
    // An empty table has given ids nevertheless.
    old.run("tickets_even", "DELETE FROM Tickets64");
    let (server, mut client) = server();
    let commands = commands("ticket_tables_begin_above_the_highest");
    old.script(&server, &commands).expect("the commands work");
    assert_eq!(client.next("tickets").expect("an id"), 251);
    assert_eq!(client.text("SELECT owner::text FROM leaf.alloc"), "shop");
}

#[test]
fn output_that_is_not_whole_or_not_text_is_refused() {
    let read = |output: &[u8]| planned(&["leaf"], output);
    assert_eq!(read(TAGS.as_bytes()).done(), ITS_TAGS);
    for end in [0, 10, TAGS.find("items").expect("a row"), TAGS.len() - 1] {
        read(&TAGS.as_bytes()[..end]).failed(1);
    }
    let cut = TAGS.split_once("\t5\tNULL").expect("a row").0;
    let error = read(format!("{cut}\n").as_bytes()).failed(1);
    assert!(error.contains("line 3"), "{error}");
    let error = read(TAGS.replace("2001", "many").as_bytes()).failed(1);
    assert!(error.contains("max_id"), "{error}");
    let error = read(TAGS.replace("step", "steps").as_bytes()).failed(1);
    assert!(
        error.contains("no column \"step\"") && error.contains("--help"),
        "{error}"
    );
    let error = read(b"\xff\xfe\n").failed(1);
    assert!(error.contains("utf8mb4"), "{error}");
    let tickets = planned(&["tickets", "--tag", "t"], b"next_id\ttotal\n42\t1\n").done();
    assert!(tickets.contains("\nt,42,"), "{tickets}");
}
