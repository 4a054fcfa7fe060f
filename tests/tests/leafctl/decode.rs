//! `decode` and `encode`, which need no server.

use leaf_core::snowflake::Layout;
use leaf_tests::{Draw, Said, Server, leafctl};

fn decode(arguments: &[&str], input: &str) -> Said {
    Said::by_with(leafctl().arg("decode").args(arguments), input)
}

fn encode(arguments: &[&str]) -> Said {
    Said::by(leafctl().arg("encode").args(arguments))
}

/// The values of the first row of CSV.
fn row(csv: &str) -> Vec<String> {
    let row = csv.lines().nth(1).expect("a row");
    row.split(',').map(str::to_owned).collect()
}

#[test]
fn fields_are_those_of_the_server_in_every_layout() {
    let named = Layout::NAMED.iter().map(|(name, _)| *name);
    for layout in named.chain(["custom:39,12,12,10ms"]) {
        let server = Server::options()
            .set("leaf.snowflake_layout", layout)
            .start();
        let mut client = server.connect();
        let sql = "WITH drawn AS MATERIALIZED (SELECT leaf_snowflake_next() AS id)
                   SELECT id, f.created_at::text, f.worker_id, f.sequence, leaf_id_text(id)
                     FROM drawn, leaf_snowflake_decode(id) AS f";
        let drawn = client.query_one(sql, &[]).expect("an id");
        let id: i64 = drawn.get(0);
        let decoded = decode(&["--layout", layout, "-f", "csv", &id.to_string()], "").done();
        let decoded = row(&decoded);
        let at: &str = drawn.get(1);
        let same = format!(
            "SELECT (timestamptz '{at}' = '{}')::int::bigint",
            decoded[1]
        );
        assert_eq!(client.number(&same), 1, "{layout}: {at} {decoded:?}");
        assert_eq!(decoded[2], drawn.get::<_, i32>(2).to_string(), "{layout}");
        assert_eq!(decoded[3], drawn.get::<_, i32>(3).to_string(), "{layout}");
        assert_eq!(decoded[4], drawn.get::<_, &str>(4), "{layout}");

        let arguments = [
            "--layout",
            layout,
            "--time",
            &decoded[1],
            "--worker",
            &decoded[2],
            "--sequence",
            &decoded[3],
            "-f",
            "csv",
        ];
        assert_eq!(
            row(&encode(&arguments).done())[0],
            id.to_string(),
            "{layout}"
        );
    }
}

#[test]
fn wrong_lines_are_named_and_do_not_stop_the_others() {
    let said = decode(&["-f", "csv"], "1\n\nnonsense\n00000000000Z92\n");
    assert_eq!(said.code, Some(1));
    let ids: Vec<&str> = said
        .out
        .lines()
        .skip(1)
        .map(|line| line.split(',').next().unwrap())
        .collect();
    assert_eq!(ids, ["1", "1001"]);
    assert_eq!(said.err.lines().count(), 1, "{}", said.err);
    assert!(said.err.contains("line 3"), "{}", said.err);
}

#[test]
fn bad_arguments_are_refused() {
    let error = encode(&["--time", "2026-11-22T10:00:00Z", "--worker", "1024"]).failed(2);
    assert!(error.contains("1024"), "{error}");
    // Before the epoch, and before 1970.
    let error = encode(&["--time", "1960-01-01T00:00:00Z"]).failed(2);
    assert!(
        error.contains("times from 2010-11-04 01:42:54.657"),
        "{error}"
    );
    assert_eq!(decode(&["--layout", "wide", "1"], "").code, Some(2));
}

#[test]
fn reader_that_has_seen_enough_is_no_error() {
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "seq 200000 | $LEAF_CTL decode -f csv | head -n 2"]);
    let said = Said::by(&mut command);
    assert_eq!((said.out.lines().count(), said.err.as_str()), (2, ""));
}
