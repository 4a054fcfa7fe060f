//! Masks: ids that give nothing away, and nothing of the key in what others see.

use leaf_tests::{Draw, Server, refused};

const VECTORS: &str = include_str!("../../../core/vectors/mask.csv");

/// A key, as SQL.
const KEY: &str = r"decode(repeat('c0ffee42', 8), 'hex')";

#[test]
fn masked_ids_of_the_vectors_are_what_the_vectors_say() {
    let server = Server::start();
    let mut client = server.connect();
    let statement = client
        .prepare(
            "SELECT leaf_mask($1, decode($2, 'hex'), $3), leaf_unmask($4, decode($2, 'hex'), $3)",
        )
        .expect("a statement");
    let lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for line in lines.skip(1) {
        let fields: Vec<&str> = line.split(';').collect();
        let [key, bits, id, masked] = fields[..] else {
            panic!("not four fields: {line}");
        };
        let number = |text: &str| text.parse::<i64>().expect("a number");
        let (bits, id, masked) = (number(bits) as i32, number(id), number(masked));
        let row = client
            .query_one(&statement, &[&id, &key, &bits, &masked])
            .unwrap_or_else(|error| panic!("{line}: {error:?}"));
        assert_eq!((row.get(0), row.get(1)), (masked, id), "{line}");
        count += 1;
    }
    assert!(count > 50, "only {count} vectors");
    // 64 bits by default, and NULL for NULL.
    let default = format!("SELECT (leaf_mask(-1, {KEY}) = leaf_mask(-1, {KEY}, 64))::int::bigint");
    assert_eq!(client.number(&default), 1);
    let nulls = format!(
        "SELECT num_nulls(leaf_mask(NULL, {KEY}), leaf_unmask(1, NULL), leaf_mask(1, {KEY}, NULL))::bigint"
    );
    assert_eq!(client.number(&nulls), 3);
}

#[test]
fn numbers_keys_and_widths_that_do_not_fit_are_refused_and_no_error_quotes_the_key() {
    let server = Server::start();
    let mut client = server.connect();
    let short = r"decode(repeat('c0ffee42', 7), 'hex')";
    let long = r"decode(repeat('c0ffee42', 9), 'hex')";
    for function in ["leaf_mask", "leaf_unmask"] {
        for (number, key, bits, code) in [
            ("-1", KEY, "63", "22003"),
            ("-9223372036854775808", KEY, "53", "22003"),
            ("9007199254740992", KEY, "53", "22003"),
            ("1", KEY, "65", "22023"),
            ("1", KEY, "0", "22023"),
            ("1", KEY, "52", "22023"),
            ("1", short, "64", "22023"),
            ("1", long, "64", "22023"),
            ("1", r"'\x'", "64", "22023"),
        ] {
            let call = format!("SELECT {function}({number}, {key}, {bits})");
            let error = refused(client.batch_execute(&call), code);
            assert!(!format!("{error:?}").contains("c0ffee"), "{error:?}");
        }
    }
}

/// Immutable, so that an index finds the row of a masked id, and parallel workers mask.
#[test]
fn a_row_is_found_by_its_masked_id_with_an_index_and_parallel_workers_mask() {
    let server = Server::start();
    let mut client = server.connect();
    client.run(
        "CREATE TABLE orders (id bigint PRIMARY KEY, item text);
         INSERT INTO orders SELECT n, 'x' FROM generate_series(1, 10000) AS n; ANALYZE orders",
    );
    let query = format!("SELECT id FROM orders WHERE id = leaf_unmask(leaf_mask(7, {KEY}), {KEY})");
    let plan = client.plan(&query);
    assert!(
        plan.contains("Index") && !plan.contains("Seq Scan"),
        "{plan}"
    );
    assert_eq!(client.number(&query), 7);
    client.run("SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0");
    let masked = format!("SELECT count(*) FROM orders WHERE leaf_mask(id, {KEY}) <> id");
    assert!(client.plan(&masked).contains("Parallel"));
    assert_eq!(client.number(&masked), 10_000);
}
