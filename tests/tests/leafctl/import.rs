//! `import`: tags go on where another service has stopped.

use leaf_tests::{Draw, MariaDb, Said, Server, leafctl, leafctl_on};
use std::fs;
use std::path::Path;

fn import(server: &Server, arguments: &[&str]) -> Said {
    Said::by(leafctl_on(server).arg("import").args(arguments))
}

/// What would be created from a dump of `leaf_alloc`, as CSV.
fn planned(dump: &[u8]) -> Said {
    let arguments = ["import", "leaf", "--dry-run", "-f", "csv", "-"];
    Said::by_with(leafctl().args(arguments), dump)
}

/// A dump of databases, in a file.
fn dump(old: &MariaDb, folder: &Path, databases: &[&str]) -> String {
    let file = folder.join(format!("{}.sql", databases.join("-")));
    fs::write(&file, old.dump(databases)).expect("a file");
    file.to_str().expect("a path").to_owned()
}

const LEAF_ALLOC: &str = "
    CREATE DATABASE leaf CHARACTER SET utf8mb4; USE leaf;
    CREATE TABLE other (text varchar(200)); INSERT INTO other VALUES ('\\nINSERT INTO `leaf_alloc` VALUES (1);');
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
    let folder = tempfile::tempdir().expect("a folder");
    let file = dump(&old, folder.path(), &["leaf"]);
    let server = Server::start();
    let mut client = server.connect();
    client.run("CREATE ROLE shop");
    let planned =
        Said::by(leafctl().args(["import", "leaf", "--dry-run", "-f", "csv", &file])).done();
    assert_eq!(client.number("SELECT count(*) FROM leaf.alloc"), 0);
    let done = import(&server, &["leaf", "--owner", "shop", "-f", "csv", &file]).done();
    assert_eq!(done, planned);
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
}

#[test]
fn import_is_all_or_nothing() {
    let old = MariaDb::start();
    old.run("mysql", LEAF_ALLOC);
    let folder = tempfile::tempdir().expect("a folder");
    let file = dump(&old, folder.path(), &["leaf"]);
    let (server, mut client) = Server::with_orders(10);
    let error = import(&server, &["leaf", &file]).failed(1);
    assert!(error.contains("tag \"orders\" exists already"), "{error}");
    assert_eq!(client.number("SELECT count(*) FROM leaf.alloc"), 1);
    let error = import(&server, &["leaf", "--owner", "nobody", &file]).failed(1);
    assert!(error.contains("role \"nobody\" does not exist"), "{error}");
    let error = import(&server, &["leaf", "--table", "elsewhere", &file]).failed(1);
    assert!(error.contains("--table"), "{error}");
    let error = import(&server, &["leaf", "/nonexistent.sql"]).failed(1);
    assert!(error.contains("/nonexistent.sql"), "{error}");
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
    for (database, max_id, remainder) in [("a", 3_000, 0), ("b", 5_000, 1)] {
        old.run(
            "mysql",
            &format!(
                "CREATE DATABASE {database}; USE {database}; {TINYID};
             INSERT INTO tiny_id_info (biz_type, max_id, step, delta, remainder)
             VALUES ('orders', {max_id}, 1000, 2, {remainder})"
            ),
        );
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (a, b) = (
        dump(&old, folder.path(), &["a"]),
        dump(&old, folder.path(), &["b"]),
    );
    let server = Server::start();
    let error = import(&server, &["tinyid", &a]).failed(1);
    assert!(
        error.contains("come from 2 databases, but there are rows of 1"),
        "{error}"
    );
    import(&server, &["tinyid", &a, &a]).failed(1);
    import(&server, &["tinyid", &a, &b]).done();
    assert_eq!(server.connect().next("orders").expect("an id"), 5_001);
    let server = Server::start();
    import(&server, &["tinyid", &b, &a]).done();
    assert_eq!(server.connect().next("orders").expect("an id"), 5_001);
}

#[test]
fn ticket_tables_begin_above_the_highest() {
    let old = MariaDb::start();
    for (database, first) in [("odd", 101), ("even", 250)] {
        old.run("mysql", &format!(
            "CREATE DATABASE {database}; USE {database};
             CREATE TABLE Tickets64 (id bigint(20) unsigned NOT NULL auto_increment, stub char(1) NOT NULL default '',
                 PRIMARY KEY (id), UNIQUE KEY stub (stub)) ENGINE=InnoDB AUTO_INCREMENT={first};
             REPLACE INTO Tickets64 (stub) VALUES ('a')"
        ));
    }
    let folder = tempfile::tempdir().expect("a folder");
    let files = [
        dump(&old, folder.path(), &["odd"]),
        dump(&old, folder.path(), &["even"]),
    ];
    let server = Server::start();
    import(
        &server,
        &["tickets", "--tag", "tickets", &files[0], &files[1]],
    )
    .done();
    assert_eq!(server.connect().next("tickets").expect("an id"), 251);
    // An empty table has given ids nevertheless.
    old.run("mysql", "USE even; DELETE FROM Tickets64");
    let empty = dump(&old, folder.path(), &["even"]);
    import(&server, &["tickets", "--tag", "more", &empty]).done();
    assert_eq!(server.connect().next("more").expect("an id"), 251);
}

#[test]
fn dump_can_come_from_a_pipe_and_damage_is_named() {
    let dump = "-- MySQL dump 10.13\nCREATE TABLE `leaf_alloc` (\n  `biz_tag` varchar(128) NOT NULL,\n  `max_id` bigint NOT NULL,\n  `step` int NOT NULL\n) ENGINE=InnoDB;\nINSERT INTO `leaf_alloc` VALUES ('orders',2001,1000),('items',7,5);\n-- Dump completed on 2026-11-22\n";
    let read = |text: &str| planned(text.as_bytes());
    let tags = read(dump).done();
    assert_eq!(
        tags,
        "tag,next_id,step,description\nitems,7,5,\norders,2001,1000,\n"
    );
    let cut = dump.split_once(",5);").expect("a row").0;
    let error = read(cut).failed(1);
    assert!(error.contains("line 7"), "{error}");
    let error = read(&dump.replace("2001", "'many'")).failed(1);
    assert!(error.contains("max_id"), "{error}");
    let tickets = "CREATE TABLE `Tickets64` (\n  `id` bigint NOT NULL,\n  `stub` char(1)\n);\nINSERT INTO `Tickets64` VALUES (41,'a'),(7,'b');\n";
    let arguments = [
        "import",
        "tickets",
        "--tag",
        "t",
        "--dry-run",
        "-f",
        "csv",
        "-",
    ];
    let tag = Said::by_with(leafctl().args(arguments), tickets).done();
    assert!(tag.contains("\nt,42,"), "{tag}");
    let error = read("-- nothing\n").failed(1);
    assert!(error.contains("no table leaf_alloc"), "{error}");
}

/// A dump of the tags `orders` and `items`, as MySQL 8 writes it.
const MYSQL_8: &str = r"-- MySQL dump 10.13  Distrib 8.0.36, for Linux (x86_64)
/*!50503 SET NAMES utf8mb4 */;
DROP TABLE IF EXISTS `leaf_alloc`;
/*!40101 SET @saved_cs_client     = @@character_set_client */;
/*!50503 SET character_set_client = utf8mb4 */;
CREATE TABLE `leaf_alloc` (
  `biz_tag` varchar(128) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci NOT NULL DEFAULT '',
  `max_id` bigint NOT NULL DEFAULT '1' COMMENT 'the first; free',
  `step` int unsigned NOT NULL,
  `description` varchar(256) DEFAULT NULL,
  `update_time` timestamp NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
  PRIMARY KEY (`biz_tag`),
  KEY `step` (`step`) USING BTREE
) ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci ROW_FORMAT=DYNAMIC;
LOCK TABLES `leaf_alloc` WRITE;
/*!40000 ALTER TABLE `leaf_alloc` DISABLE KEYS */;
INSERT INTO `leaf_alloc` VALUES ('orders',2001,1000,'x','2024-01-01 00:00:00'),('items',7,5,NULL,'2024-01-01 00:00:00');
/*!40000 ALTER TABLE `leaf_alloc` ENABLE KEYS */;
UNLOCK TABLES;
-- Dump completed on 2024-01-01  0:00:00
";
const ITS_TAGS: &str = "tag,next_id,step,description\nitems,7,5,\norders,2001,1000,x\n";

#[test]
fn dump_can_be_written_in_many_ways() {
    let columns = "`leaf_alloc` (`biz_tag`, `max_id`, `step`, `description`, `update_time`) VALUES";
    for dump in [
        MYSQL_8.to_owned(),
        MYSQL_8.replace('\n', "\r\n"),
        MYSQL_8
            .replace("VALUES (", "VALUES\n(")
            .replace("),(", "),\n("),
        MYSQL_8.replace("),(", ");\nINSERT INTO `leaf_alloc` VALUES ("),
        MYSQL_8.replace("`leaf_alloc` VALUES", columns),
        MYSQL_8.replace("`leaf_alloc`", "`leaf`.`leaf_alloc`"),
        MYSQL_8.replace('`', ""),
        MYSQL_8.replace("INSERT INTO", "INSERT  IGNORE INTO"),
        MYSQL_8.replace("INSERT INTO", "REPLACE INTO"),
        MYSQL_8.replace("'x'", "_binary 'x'"),
        MYSQL_8.replace("'x'", "0x78"),
        // Without comments, neither the first nor the last line is there.
        MYSQL_8.replace("-- ", "/* */ "),
    ] {
        assert_eq!(planned(dump.as_bytes()).done(), ITS_TAGS, "{dump}");
    }
}

#[test]
fn what_only_looks_like_the_table_is_not_read() {
    let end = "UNLOCK TABLES;\n";
    for other in [
        // Texts and columns of other tables.
        "INSERT INTO `log` VALUES (1,'from leaf_alloc moved');\n",
        "INSERT INTO `log` (`leaf_alloc`, `a`) VALUES ('x',1);\n",
        "INSERT INTO log VALUES ( leaf_alloc );\n",
        "CREATE TABLE `log` (`leaf_alloc` int);\n",
        // Other tables, and a database of this name.
        "INSERT INTO `leaf_alloc2` VALUES ('x',1,2,NULL,'');\n",
        "INSERT INTO `my``leaf_alloc` VALUES ('x',1,2,NULL,'');\n",
        "INSERT INTO `leaf_alloc`.`other` VALUES ('x',1,2,NULL,'');\n",
        // Triggers, routines and views.
        "DELIMITER ;;\n/*!50003 CREATE*/ /*!50003 TRIGGER t BEFORE INSERT ON x FOR EACH ROW BEGIN\nINSERT INTO `leaf_alloc` VALUES ('fake',1,2,NULL,NOW());\nEND */;;\nDELIMITER ;\n",
        "/*!50001 CREATE VIEW `leaf_alloc` AS SELECT \n 1 AS `biz_tag`,\n 1 AS `max_id`*/;\n",
    ] {
        let dump = MYSQL_8.replace(end, &format!("{end}{other}"));
        assert_eq!(planned(dump.as_bytes()).done(), ITS_TAGS, "{other}");
    }
}

#[test]
fn table_of_each_database_has_its_own_columns() {
    let other = MYSQL_8
        .replace("'orders',2001,1000", "'users',50,300")
        .replace("'items',7,5", "'carts',60,400")
        .replace(
            "  `max_id` bigint NOT NULL DEFAULT '1' COMMENT 'the first; free',\n",
            "",
        )
        .replace(
            "`step` int unsigned NOT NULL,\n",
            "`step` int,\n  `max_id` bigint,\n",
        );
    let tags = planned((MYSQL_8.to_owned() + &other).as_bytes()).done();
    assert_eq!(
        tags,
        "tag,next_id,step,description\ncarts,400,60,\nitems,7,5,\norders,2001,1000,x\nusers,300,50,x\n"
    );
}

#[test]
fn dump_that_is_not_whole_or_not_text_is_refused() {
    // At the end of a line, where every statement is whole.
    let cut = MYSQL_8.split_once("UNLOCK").expect("a line").0;
    let error = planned(cut.as_bytes()).failed(1);
    assert!(error.contains("Dump completed"), "{error}");
    // The first of two.
    planned((cut.to_owned() + MYSQL_8).as_bytes()).failed(1);
    let error = planned(b"\x1f\x8b\x08\x00\n").failed(1);
    assert!(error.contains("gunzip"), "{error}");
    let utf_16: Vec<u8> = "\u{feff}CREATE\n"
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    let error = planned(&utf_16).failed(1);
    assert!(error.contains("--result-file"), "{error}");
}
