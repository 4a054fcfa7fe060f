//! Ids as texts: in every encoding and collation, and where an index needs them.

use leaf_tests::{Draw, Server, refused};

const VECTORS: &str = include_str!("../../../core/vectors/id_text.csv");

#[test]
fn texts_of_the_vectors_say_what_the_vectors_say() {
    let server = Server::start();
    let mut client = server.connect();
    let query = "SELECT leaf_id_text($1), leaf_id_parse($2), leaf_id_parse(lower($2))";
    let statement = client.prepare(query).expect("a statement");
    let lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
    for line in lines.skip(1) {
        let (id, text) = line.split_once(';').expect("two fields");
        let id: i64 = id.parse().expect("a number");
        let row = client.query_one(&statement, &[&id, &text]);
        let row = row.unwrap_or_else(|error| panic!("{line}: {error:?}"));
        assert_eq!(row.get::<_, &str>(0), text, "{line}");
        assert_eq!([row.get::<_, i64>(1), row.get(2)], [id, id], "{line}");
    }
}

#[test]
fn what_is_no_text_of_an_id_is_refused_in_any_encoding() {
    let server = Server::start();
    let mut admin = server.connect();
    for (encoding, odd) in [
        ("UTF8", "repeat('ж💧', 500)"),
        ("LATIN1", r"repeat(E'\xe4', 500)"),
        ("EUC_JP", r"repeat(E'\xa4\xa2', 500) || 'x'"),
        ("SQL_ASCII", "repeat('ж', 500)"),
    ] {
        let database = encoding.to_lowercase();
        admin.run(&format!(
            "CREATE DATABASE {database} TEMPLATE template0 ENCODING '{encoding}' LC_COLLATE 'C' LC_CTYPE 'C'"
        ));
        let mut client = server.connect_as("postgres", &database);
        client.run("CREATE EXTENSION leaf");
        for text in [
            odd,
            "''",
            "'1001'",
            "'00000000000Z93'",
            "'00000000000-Z92-'  || chr(1)",
            "'80000000000006'",
            "repeat('-', 1000000)",
            &format!("left({odd}, 20)"),
        ] {
            let parsed = client.batch_execute(&format!("SELECT leaf_id_parse({text})"));
            let error = refused(parsed, "22P02");
            assert!(error.message().len() < 300, "{error:?}");
        }
        assert_eq!(
            client.number("SELECT leaf_id_parse('oooo-oooo-ooo-z92')"),
            1001
        );
    }
    let mut client = server.connect();
    for negative in ["-1", "-9223372036854775808"] {
        let text = client.batch_execute(&format!("SELECT leaf_id_text({negative})"));
        refused(text, "22003");
    }
    let nulls = "SELECT (leaf_id_text(NULL) IS NULL AND leaf_id_parse(NULL) IS NULL)::int::bigint";
    assert_eq!(client.number(nulls), 1);
}

#[test]
fn texts_sort_as_the_ids_do_in_every_collation() {
    let server = Server::start();
    let mut client = server.connect();
    client.run(
        "CREATE TABLE ids AS
            SELECT ((random() * 2 ^ 62)::bigint >> (n % 62)) AS id FROM generate_series(1, 3000) AS n;
         INSERT INTO ids SELECT n FROM generate_series(0, 200) AS n",
    );
    let collations = client
        .query(
            "SELECT quote_ident(collname) FROM pg_collation
              WHERE collname IN ('C', 'en-US-x-icu', 'de-x-icu', 'und-x-icu', 'en_US', 'en_US.utf8', 'C.UTF-8', 'C.utf8')",
            &[],
        )
        .expect("collations");
    assert!(!collations.is_empty());
    for row in collations {
        let collation: &str = row.get(0);
        let wrong = client.number(&format!(
            "SELECT count(*) FROM (SELECT id, lag(id) OVER (ORDER BY leaf_id_text(id) COLLATE {collation}) AS before
                                     FROM ids) AS t
              WHERE before > id"
        ));
        assert_eq!(wrong, 0, "{collation}");
    }
}

#[test]
fn texts_can_be_indexed_and_computed_in_parallel() {
    let server = Server::start();
    let mut client = server.connect();
    client.run(
        "CREATE TABLE t (id bigint, code text GENERATED ALWAYS AS (leaf_id_text(id)) STORED,
                         CHECK (leaf_id_parse(code) = id));
         INSERT INTO t SELECT generate_series(1, 10000);
         CREATE INDEX ON t (leaf_id_text(id)); ANALYZE t",
    );
    let plan = client.plan("SELECT id FROM t WHERE leaf_id_text(id) = '00000000000Z92'");
    assert!(plan.contains("Index"), "{plan}");
    let safe = client.number(
        "SELECT count(*) FROM pg_proc WHERE proname IN ('leaf_id_text', 'leaf_id_parse')
            AND provolatile = 'i' AND proparallel = 's' AND proisstrict",
    );
    assert_eq!(safe, 2);
}
