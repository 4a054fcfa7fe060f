//! The imports of docs/migration.md: its commands, literally, from a real MariaDB.

use leaf_tests::page::Page;
use leaf_tests::postgres::Client;
use leaf_tests::{Draw, MariaDb, Server, draw_many};

/// The script of the page that names this test.
fn script(test: &str) -> String {
    Page::read("docs/migration.md")
        .code_tested_by(test)
        .concat()
}

/// A server with the role that is meant to own the tags.
fn server() -> (Server, Client) {
    let server = Server::start();
    let mut client = server.connect();
    client.run("CREATE ROLE shop");
    (server, client)
}

fn hex(text: &str) -> String {
    let bytes = text.bytes().map(|byte| format!("{byte:02x}"));
    format!("CONVERT(X'{}' USING utf8mb4)", bytes.collect::<String>())
}

/// The table of Meituan Leaf.
const LEAF_ALLOC: &str = "
    CREATE DATABASE leaf CHARACTER SET utf8mb4; USE leaf;
    CREATE TABLE leaf_alloc (
        biz_tag varchar(128) NOT NULL DEFAULT '',
        max_id bigint(20) NOT NULL DEFAULT '1',
        step int(11) NOT NULL,
        description varchar(256) DEFAULT NULL,
        update_time timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
        PRIMARY KEY (biz_tag)
    ) ENGINE=InnoDB";

/// A segment as a server of Meituan Leaf fetches it: the ids that it then has in memory.
fn fetch_of_leaf(old: &MariaDb, tag: &str) -> Result<std::ops::Range<i64>, String> {
    let tag = hex(tag);
    let row = old.try_run(
        "leaf",
        &format!(
            "BEGIN; UPDATE leaf_alloc SET max_id = max_id + step WHERE biz_tag = {tag};
             SELECT max_id, step FROM leaf_alloc WHERE biz_tag = {tag}; COMMIT"
        ),
    )?;
    let (max_id, step) = row.split_once('\t').expect("two columns");
    let (max_id, step): (i64, i64) = (max_id.parse().unwrap(), step.parse().unwrap());
    Ok(max_id - step..max_id)
}

const ODD: [(&str, Option<&str>); 9] = [
    ("orders", Some("what we sell")),
    ("nothing", None),
    ("empty", Some("")),
    ("NULL", Some("NULL")),
    (
        "it's \"quoted\"",
        Some("'single' \"double\" `back`, comma; semicolon"),
    ),
    (r"back\slash\N\t", Some(r"\N")),
    ("Größe 💧 ж", Some("Übergrößenträger 💧")),
    ("tab\tand\nline", Some("first\r\nsecond\n\\.\nthird\t")),
    (" spaces ", Some(" -- /* % $$ */ :'owner' :owner ")),
];

#[test]
fn meituan_leaf_is_imported_as_documented() {
    let old = MariaDb::start();
    old.run("mysql", LEAF_ALLOC);
    for (number, (tag, description)) in ODD.iter().enumerate() {
        let description = description.map_or("NULL".into(), hex);
        old.run(
            "leaf",
            &format!(
                "INSERT INTO leaf_alloc (biz_tag, step, description) VALUES ({}, {}, {description})",
                hex(tag),
                100 + number
            ),
        );
    }
    // A server of the old service has two segments in memory, and has used half of one.
    let held = [
        fetch_of_leaf(&old, "orders").expect("a segment"),
        fetch_of_leaf(&old, "orders").expect("a segment"),
    ];
    assert_eq!(held, [1..101, 101..201]);

    let (server, mut client) = server();
    let script = script("meituan_leaf_is_imported_as_documented");
    let said = old.script(&server, &script).expect("the commands work");
    assert!(said.contains("orders"), "{said}");

    // No server of the old service can fetch another segment.
    fetch_of_leaf(&old, "orders").expect_err("the table was renamed");
    // The first id is the next one after those that it may still hand out.
    assert_eq!(client.next("orders").expect("an id"), 201);
    for (number, (tag, description)) in ODD.iter().enumerate() {
        let row = client
            .query_one(
                "SELECT description::text, step, owner::text, max_value FROM leaf.alloc WHERE biz_tag = $1",
                &[tag],
            )
            .unwrap_or_else(|error| panic!("{tag}: {error:?}"));
        assert_eq!(row.get::<_, Option<&str>>(0), *description, "{tag}");
        assert_eq!(row.get::<_, i32>(1), 100 + number as i32, "{tag}");
        assert_eq!(row.get::<_, &str>(2), "shop", "{tag}");
        assert_eq!(row.get::<_, i64>(3), i64::MAX, "{tag}");
    }
    assert_eq!(
        client.number("SELECT count(*) FROM leaf.alloc"),
        ODD.len() as i64
    );
    client.run(
        "SET ROLE shop; SELECT leaf_segment_next('orders'), leaf_tag_alter('orders', step => 7)",
    );
}

#[test]
fn an_import_is_all_or_nothing_and_needs_its_owner() {
    let old = MariaDb::start();
    old.run("mysql", LEAF_ALLOC);
    old.run(
        "leaf",
        "INSERT INTO leaf_alloc (biz_tag, step) VALUES ('items', 10), ('orders', 10)",
    );
    let server = Server::start();
    let mut client = server.connect();
    let script = script("meituan_leaf_is_imported_as_documented");
    let error = old
        .script(&server, &script)
        .expect_err("there is no such role");
    assert!(error.contains("role \"shop\" does not exist"), "{error}");
    // The table is renamed by now: what is left to do can be repeated.
    let rest = script.split_once('\n').expect("several lines").1;
    client.run("CREATE ROLE shop; SELECT leaf_tag_create('orders')");
    let error = old.script(&server, rest).expect_err("a tag exists");
    assert!(error.contains("alloc_pkey"), "{error}");
    assert_eq!(client.number("SELECT count(*) FROM leaf.alloc"), 1);
    client.run("SELECT leaf_tag_drop('orders')");
    old.script(&server, rest).expect("now it works");
    assert_eq!(
        client.number("SELECT count(*) FROM leaf.alloc WHERE owner = 'shop'"),
        2
    );
}

#[test]
fn rows_of_leaf_alloc_load_as_they_are() {
    let server = Server::start();
    let mut client = server.connect();
    let file = server.data().join("leaf_alloc.csv");
    server.write(
        "leaf_alloc.csv",
        b"orders,2001,2000,\"what \"\"we\"\" sell\",2019-07-02 10:30:00\nitems,1,1000,,2019-07-02 10:30:00\n",
    );
    let block = script("rows_of_leaf_alloc_load_as_they_are");
    client.run(&block.replace("/path/leaf_alloc.csv", &file.display().to_string()));
    assert_eq!(client.next("orders").expect("an id"), 2001);
    assert_eq!(client.next("items").expect("an id"), 1);
}

/// The table of TinyID, in one of its databases.
fn tinyid(old: &MariaDb, database: &str) {
    old.run(
        "mysql",
        &format!(
            "CREATE DATABASE {database} CHARACTER SET utf8mb4; USE {database};
             CREATE TABLE tiny_id_info (
                 id bigint(20) unsigned NOT NULL AUTO_INCREMENT,
                 biz_type varchar(63) NOT NULL DEFAULT '',
                 begin_id bigint(20) NOT NULL DEFAULT '0',
                 max_id bigint(20) NOT NULL DEFAULT '0',
                 step int(11) DEFAULT '0',
                 delta int(11) NOT NULL DEFAULT '1',
                 remainder int(11) NOT NULL DEFAULT '0',
                 create_time timestamp NOT NULL DEFAULT '2010-01-01 00:00:00',
                 update_time timestamp NOT NULL DEFAULT '2010-01-01 00:00:00',
                 version bigint(20) NOT NULL DEFAULT '0',
                 PRIMARY KEY (id), UNIQUE KEY uniq_biz_type (biz_type)
             ) ENGINE=InnoDB"
        ),
    );
}

/// The ids of a segment as a server of TinyID fetches and hands them out.
fn fetch_of_tinyid(old: &MariaDb, database: &str) -> Vec<i64> {
    let row = old.run(
        database,
        "UPDATE tiny_id_info SET max_id = max_id + step, version = version + 1;
         SELECT max_id, step, delta, remainder FROM tiny_id_info WHERE biz_type = 'orders'",
    );
    let columns: Vec<i64> = row.split('\t').map(|text| text.parse().unwrap()).collect();
    let [max_id, step, delta, remainder] = columns[..] else {
        panic!("not four columns: {row}");
    };
    let ids = max_id - step + 1..=max_id;
    ids.filter(|id| id % delta == remainder).collect()
}

#[test]
fn tinyid_is_imported_as_documented() {
    let old = MariaDb::start();
    let row = "INSERT INTO tiny_id_info (biz_type, begin_id, max_id, step, delta, remainder)
                    VALUES ('orders', 1, 1, 100, 2,";
    for (database, remainder) in [("tinyid_a", 0), ("tinyid_b", 1)] {
        tinyid(&old, database);
        old.run(database, &format!("{row} {remainder})"));
    }
    let mut held = fetch_of_tinyid(&old, "tinyid_a");
    held.extend(fetch_of_tinyid(&old, "tinyid_b"));
    held.extend(fetch_of_tinyid(&old, "tinyid_b"));
    assert_eq!(
        held.iter().max(),
        Some(&201),
        "the last id of a segment is max_id"
    );

    let (server, mut client) = server();
    let script = script("tinyid_is_imported_as_documented");
    old.script(&server, &script).expect("the commands work");
    assert_eq!(client.next("orders").expect("an id"), 202);
    assert_eq!(client.text("SELECT owner::text FROM leaf.alloc"), "shop");
    assert_eq!(client.number("SELECT step::bigint FROM leaf.alloc"), 100);
    for database in ["tinyid_a", "tinyid_b"] {
        old.try_run(database, "UPDATE tiny_id_info SET max_id = max_id + step")
            .expect_err("the table was renamed");
    }
    let ids = draw_many(&mut client, "orders", 1000);
    assert!(ids.iter().all(|id| !held.contains(id)));
}

#[test]
fn tinyid_with_a_database_left_out_is_refused_with_words() {
    let old = MariaDb::start();
    for (database, remainder) in [("tinyid_a", 0), ("tinyid_b", 1)] {
        tinyid(&old, database);
        old.run(
            database,
            &format!(
                "INSERT INTO tiny_id_info (biz_type, max_id, step, delta, remainder)
                      VALUES ('orders', 1, 100, 2, {remainder}), ('single_{database}', 1, NULL, 1, 0)"
            ),
        );
    }
    let (server, mut client) = server();
    let script = script("tinyid_is_imported_as_documented");
    let one = script.replace("\"tinyid_a tinyid_b\"", "\"tinyid_a\"");
    assert_ne!(one, script);
    let error = old
        .script(&server, &one)
        .expect_err("one database is missing");
    let words = "tag \"orders\" is granted by 2 databases, but rows of 1 were exported";
    assert!(
        error.contains(words) && error.contains("Export all of them"),
        "{error}"
    );
    assert_eq!(client.number("SELECT count(*) FROM leaf.alloc"), 0);
    // Tags of one database each need no other.
    old.run(
        "tinyid_a",
        "RENAME TABLE tiny_id_info_moved TO tiny_id_info",
    );
    old.script(&server, &script).expect("both are there");
    assert_eq!(client.number("SELECT count(*) FROM leaf.alloc"), 3);
}

#[test]
fn tickets_are_imported_as_documented() {
    let old = MariaDb::start();
    let ticket = |database: &str, offset: i64| -> i64 {
        let id = old.run(
            database,
            &format!(
                "SET auto_increment_increment = 2, auto_increment_offset = {offset};
                 REPLACE INTO Tickets64 (stub) VALUES ('a'); SELECT LAST_INSERT_ID()"
            ),
        );
        id.parse().expect("a number")
    };
    let mut held = Vec::new();
    for (database, engine, offset) in [("tickets_odd", "MyISAM", 1), ("tickets_even", "InnoDB", 2)]
    {
        old.run(
            "mysql",
            &format!(
                "CREATE DATABASE {database}; USE {database};
                 CREATE TABLE Tickets64 (
                     id bigint(20) unsigned NOT NULL auto_increment,
                     stub char(1) NOT NULL default '',
                     PRIMARY KEY (id), UNIQUE KEY stub (stub)
                 ) ENGINE={engine}"
            ),
        );
        held.extend((0..5).map(|_| ticket(database, offset)));
    }
    // A ticket of a transaction that was rolled back was handed out, too.
    let lost = old.run(
        "tickets_even",
        "SET auto_increment_increment = 2, auto_increment_offset = 2; BEGIN;
         REPLACE INTO Tickets64 (stub) VALUES ('a'); SELECT LAST_INSERT_ID(); ROLLBACK",
    );
    held.push(lost.parse().expect("a number"));
    assert_eq!(held.iter().max(), Some(&12));

    let (server, mut client) = server();
    let script = script("tickets_are_imported_as_documented");
    old.script(&server, &script).expect("the commands work");
    let first = client.next("tickets").expect("an id");
    assert!(first > 12, "{first} was handed out before");
    assert!(first <= 14, "{first} leaves a gap for nothing");
    assert_eq!(client.text("SELECT owner::text FROM leaf.alloc"), "shop");
    let replace = "REPLACE INTO Tickets64 (stub) VALUES ('a')";
    old.try_run("tickets_odd", replace)
        .expect_err("the table was renamed");
}
