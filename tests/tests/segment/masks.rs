//! Masks: ids that give nothing away, and who can turn them back.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Server, failed, refused, wait_until};

/// With which the derivation is that of the vectors, which have no salt.
const NO_SALT: &str = "00000000-0000-0000-0000-000000000000";

const VECTORS: &str = include_str!("../../../core/vectors/mask.csv");

fn mask(client: &mut Client, call: &str) -> i64 {
    client.number(&format!("SELECT {call}"))
}

fn call(client: &mut Client, call: &str) -> Result<(), leaf_tests::postgres::Error> {
    client.batch_execute(&format!("SELECT {call}"))
}

#[test]
fn masked_ids_and_keys_of_the_vectors_are_what_the_vectors_say() {
    let (_server, mut client) = Server::with_orders(1000);
    let statement = client
        .prepare(
            "SELECT leaf_mask('orders', $1, $2, $3), leaf_unmask('orders', $4, $2, $3),
                    encode(key, 'hex'), version
               FROM leaf_mask_key('orders', $2, $3)",
        )
        .expect("a statement");
    let lines = VECTORS.lines().filter(|line| !line.starts_with('#'));
    let mut count = 0;
    for line in lines.skip(1) {
        let fields: Vec<&str> = line.split(';').collect();
        let [secret, version, bits, key, id, masked] = fields[..] else {
            panic!("not six fields: {line}");
        };
        let number = |text: &str| text.parse::<i64>().expect("a number");
        let (version, bits) = (number(version) as i32, number(bits) as i32);
        client.run(&format!(
            "UPDATE leaf.mask_secret SET secret = decode(repeat('00', 32) || '{secret}', 'hex');
             UPDATE leaf.alloc SET mask_salt = '{NO_SALT}', mask_version = 2147483647"
        ));
        let row = client
            .query_one(&statement, &[&number(id), &bits, &version, &number(masked)])
            .unwrap_or_else(|error| panic!("{line}: {error:?}"));
        assert_eq!(row.get::<_, i64>(0), number(masked), "{line}");
        assert_eq!(row.get::<_, i64>(1), number(id), "{line}");
        assert_eq!(row.get::<_, &str>(2), key, "{line}");
        assert_eq!(row.get::<_, i32>(3), version, "{line}");
        count += 1;
    }
    assert!(count > 50, "only {count} vectors");
}

#[test]
fn masks_differ_between_tags_widths_and_versions_and_come_back() {
    let (_server, mut client) = Server::with_orders(1000);
    client.run("SELECT leaf_tag_create('other')");
    let all = "SELECT leaf_mask('orders', id) FROM generate_series(1, 1000) AS id";
    let masked = client.numbers(all);
    assert!(masked.iter().all(|&masked| masked >= 0));
    let mut distinct = masked.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 1000);
    assert_ne!(distinct, masked, "they ascend");
    let back = client.number(
        "SELECT count(*) FROM generate_series(1, 1000) AS id
          WHERE leaf_unmask('orders', leaf_mask('orders', id)) = id
            AND leaf_unmask('orders', leaf_mask('orders', id, 53), 53) = id
            AND leaf_mask('orders', id, 53) < 2::bigint ^ 53
            AND leaf_mask('orders', id, 53) <> leaf_mask('orders', id)
            AND leaf_mask('orders', id) <> leaf_mask('other', id)",
    );
    assert_eq!(back, 1000);
    // NULL is masked as NULL, but not for a tag that does not exist.
    let null = "SELECT (leaf_mask('orders', NULL) IS NULL
                        AND leaf_unmask('orders', NULL) IS NULL)::int::bigint";
    assert_eq!(client.number(null), 1);
    refused(call(&mut client, "leaf_mask('nosuch', NULL)"), "42704");
}

#[test]
fn a_rotation_begins_a_version_and_earlier_ones_remain() {
    let (server, mut client) = Server::with_orders(1000);
    let mut other = server.connect();
    let first = mask(&mut other, "leaf_mask('orders', 7)");
    assert_eq!(
        client.number("SELECT leaf_mask_rotate('orders')::bigint"),
        2
    );
    // The other session learns of it with its next statement.
    let second = mask(&mut other, "leaf_mask('orders', 7)");
    assert_ne!(first, second);
    assert_eq!(
        mask(&mut other, "leaf_mask('orders', 7, version => 1)"),
        first
    );
    let unmask = format!("leaf_unmask('orders', {first}, version => 1)");
    assert_eq!(mask(&mut other, &unmask), 7);
    assert_eq!(
        mask(&mut other, &format!("leaf_unmask('orders', {second})")),
        7
    );
    // A rollback takes the version back, in the session that has rotated, too.
    client.run("BEGIN; SELECT leaf_mask_rotate('orders')");
    let third = mask(&mut client, "leaf_mask('orders', 7)");
    assert_ne!(third, second);
    assert_eq!(mask(&mut other, "leaf_mask('orders', 7)"), second);
    client.run("ROLLBACK");
    assert_eq!(mask(&mut client, "leaf_mask('orders', 7)"), second);
    client.run("BEGIN; SAVEPOINT s; SELECT leaf_mask_rotate('orders'); SELECT leaf_mask('orders', 7); ROLLBACK TO s");
    assert_eq!(mask(&mut client, "leaf_mask('orders', 7)"), second);
    client.run("COMMIT");
}

/// A statement that a rotation comes into the middle of, and that has to look the key up
/// again because the table's definition has changed meanwhile.
#[test]
fn all_rows_of_a_statement_have_masks_of_one_version() {
    let (server, mut client) = Server::with_orders(1000);
    let mut other = server.connect();
    other.run("SELECT leaf_tag_create('other'); SELECT pg_advisory_lock(1)");
    let pid = client.number("SELECT pg_backend_pid()::bigint");
    // Looking the other tag up, after the wait, notices the changed definition.
    let statement = "SELECT count(DISTINCT masked), min(masked), min(leaf_mask('orders', 7, version => 1))
                       FROM (SELECT CASE n WHEN 1 THEN leaf_mask('orders', 7)
                                           WHEN 2 THEN (pg_advisory_lock(1) IS NULL)::int::bigint
                                           ELSE leaf_mask('other', 7) * 0 + leaf_mask('orders', 7) END AS masked
                               FROM generate_series(1, 3) AS n) AS t WHERE masked > 1";
    let row = std::thread::scope(|scope| {
        let masking = scope.spawn(|| client.query_one(statement, &[]).expect("a row"));
        wait_until("the statement waits in its second row", || {
            let waits = "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND NOT granted
                            AND pid = ";
            other.number(&format!("{waits}{pid}")) == 1
        });
        other.run("SELECT leaf_mask_rotate('orders')");
        other.run("ALTER TABLE leaf.alloc SET (fillfactor = 50)");
        other.run("SELECT pg_advisory_unlock(1)");
        masking.join().expect("no panic")
    });
    assert_eq!(row.get::<_, i64>(0), 1, "masks of two versions");
    assert_eq!(row.get::<_, i64>(1), row.get::<_, i64>(2));
}

#[test]
fn only_owner_and_grantees_mask_and_only_the_owner_rotates() {
    let (server, mut admin) = Server::with_orders(1000);
    admin.run(
        "CREATE ROLE keeper LOGIN; CREATE ROLE reader LOGIN; CREATE ROLE stranger LOGIN;
         GRANT EXECUTE ON FUNCTION leaf_tag_create TO keeper",
    );
    let mut keeper = server.connect_as("keeper", "postgres");
    keeper.run("SELECT leaf_tag_create('kept'); SELECT leaf_tag_grant('kept', 'reader')");
    let mut reader = server.connect_as("reader", "postgres");
    let mut stranger = server.connect_as("stranger", "postgres");
    let calls = [
        "leaf_mask('kept', 1)",
        "leaf_unmask('kept', 1)",
        "leaf_mask_key('kept')",
    ];
    for of_kept in calls {
        call(&mut keeper, of_kept).expect("the owner may");
        call(&mut reader, of_kept).expect("a grantee may");
        refused(call(&mut stranger, of_kept), "42501");
        refused(
            call(&mut stranger, &of_kept.replace("kept", "nosuch")),
            "42704",
        );
    }
    refused(call(&mut reader, "leaf_mask_rotate('kept')"), "42501");
    refused(call(&mut stranger, "leaf_mask_rotate('kept')"), "42501");
    call(&mut keeper, "leaf_mask_rotate('kept')").expect("the owner may");
    // The secret itself is for those who may read the table.
    let secret = "SELECT secret FROM leaf.mask_secret";
    failed(reader.batch_execute(secret), "42501");
    failed(keeper.batch_execute(secret), "42501");
    // A session that has a key loses it with the permission.
    keeper.run("SELECT leaf_tag_revoke('kept', 'reader')");
    refused(call(&mut reader, "leaf_mask('kept', 1)"), "42501");
    keeper.run("SELECT leaf_mask('kept', 1); SET ROLE keeper");
    admin.run("SELECT leaf_mask('kept', 1); SET ROLE stranger");
    refused(call(&mut admin, "leaf_mask('kept', 1)"), "42501");
    // Another role within a statement, too.
    admin.run("RESET ROLE");
    let within = "DO $$ BEGIN PERFORM leaf_mask('kept', 1); SET LOCAL ROLE stranger;
                               PERFORM leaf_mask('kept', 1); END $$";
    refused(admin.batch_execute(within), "42501");
}

#[test]
fn numbers_that_do_not_fit_and_versions_that_do_not_exist_are_refused() {
    let (_server, mut client) = Server::with_orders(1000);
    for function in ["leaf_mask", "leaf_unmask"] {
        for (arguments, code) in [
            ("'orders', -1", "22003"),
            ("'orders', -9223372036854775808", "22003"),
            ("'orders', 9007199254740992, 53", "22003"),
            ("'orders', 9223372036854775807, 53", "22003"),
            ("'orders', 1, 64", "22023"),
            ("'orders', 1, 0", "22023"),
            ("'orders', 1, NULL", "22023"),
            ("'orders', 1, 63, 0", "22023"),
            ("'orders', 1, 63, -1", "22023"),
            ("'orders', 1, 63, 2", "22023"),
            ("NULL, 1", "22023"),
            ("'', 1", "22023"),
            ("repeat('x', 129), 1", "22023"),
        ] {
            refused(call(&mut client, &format!("{function}({arguments})")), code);
        }
    }
    refused(call(&mut client, "leaf_mask_key('orders', 52)"), "22023");
    refused(call(&mut client, "leaf_mask_key('orders', 63, 2)"), "22023");
    refused(call(&mut client, "leaf_mask_rotate('nosuch')"), "42704");
    client.run("UPDATE leaf.alloc SET mask_version = 2147483647");
    refused(call(&mut client, "leaf_mask_rotate('orders')"), "22003");
    // By hand, too, a secret has a length and a version is positive.
    client.fails("UPDATE leaf.mask_secret SET secret = '\\x00'", "23514");
    client.fails(
        "UPDATE leaf.mask_secret SET secret = decode(repeat('11', 64), 'hex')",
        "23514",
    );
    client.fails("UPDATE leaf.alloc SET mask_version = 0", "23514");
}

#[test]
fn masks_need_no_write_and_work_in_the_transaction_that_made_the_tag() {
    let (_server, mut client) = Server::with_orders(1000);
    client.run("BEGIN; SELECT leaf_tag_create('new')");
    let masked = mask(&mut client, "leaf_mask('new', 1)");
    client.run("COMMIT");
    assert_eq!(mask(&mut client, "leaf_mask('new', 1)"), masked);
    client.run("BEGIN READ ONLY");
    assert_eq!(mask(&mut client, "leaf_mask('new', 1)"), masked);
    client.run("COMMIT");
    client.writes_no_wal("SELECT leaf_mask('new', id) FROM generate_series(1, 100) AS id");
}

/// A query over many rows reads the tag's row and derives the key once.
#[test]
fn a_statement_looks_the_key_up_once() {
    let (_server, mut client) = Server::with_orders(1000);
    client.run("SELECT leaf_mask('orders', 1)");
    let mut scans = || {
        client.run("SELECT pg_stat_force_next_flush()");
        client.run("SELECT pg_stat_clear_snapshot()");
        let scans = "SELECT idx_scan FROM pg_stat_all_indexes WHERE indexrelname = 'alloc_pkey'";
        let before = client.number(scans);
        client.run(
            "SELECT sum(leaf_mask('orders', n)::numeric), sum(leaf_unmask('orders', n, 53)::numeric)
               FROM generate_series(1, 20000) AS n",
        );
        client.run("SELECT pg_stat_force_next_flush()");
        client.number(scans) - before
    };
    let scans = scans();
    assert!((1..=4).contains(&scans), "{scans} reads of the row");
}

/// Stable, so that an index finds the row of a masked id; and not in parallel workers, which
/// could read another version than their leader.
#[test]
fn a_row_is_found_by_its_masked_id_with_an_index() {
    let (_server, mut client) = Server::with_orders(1000);
    client.run(
        "CREATE TABLE orders (id bigint PRIMARY KEY, item text);
         INSERT INTO orders SELECT n, 'x' FROM generate_series(1, 10000) AS n; ANALYZE orders",
    );
    let query = "SELECT id FROM orders WHERE id = leaf_unmask('orders', leaf_mask('orders', 7))";
    let plan = client.plan(query);
    assert!(
        plan.contains("Index") && !plan.contains("Seq Scan"),
        "{plan}"
    );
    assert_eq!(client.number(query), 7);
    client.run("SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0");
    let sum = "SELECT count(DISTINCT leaf_mask('orders', id)) FROM orders";
    assert_eq!(client.number(sum), 10_000);
    let kinds = "SELECT count(*) FROM pg_proc WHERE proname IN ('leaf_mask', 'leaf_unmask', 'leaf_mask_key')
                    AND provolatile = 's' AND proparallel = 'r'";
    assert_eq!(client.number(kinds), 3);
}

#[test]
fn masks_work_on_a_standby_and_follow_a_rotation_there() {
    let (primary, mut client) = Server::with_orders(1000);
    let standby = Server::options().start_standby_of(&primary);
    let mut there = standby.connect();
    there.run("SELECT leaf_id_parse(leaf_id_text(1001)), leaf_snowflake_time(leaf_snowflake_floor(now()))");
    let first = mask(&mut client, "leaf_mask('orders', 7)");
    assert_eq!(mask(&mut there, "leaf_mask('orders', 7)"), first);
    client.run("SELECT leaf_mask_rotate('orders')");
    standby.catch_up_with(&primary);
    let second = mask(&mut client, "leaf_mask('orders', 7)");
    assert_eq!(mask(&mut there, "leaf_mask('orders', 7)"), second);
    for change in [
        "leaf_mask_rotate('orders')",
        "leaf_tag_alter('orders', step => 5)",
        "leaf_tag_grant('orders', 'public')",
        "leaf_tag_drop('orders')",
    ] {
        refused(call(&mut there, change), "25006");
    }
}

#[test]
fn a_secret_stays_with_its_row() {
    let (server, mut client) = Server::with_orders(1000);
    client.run("SELECT leaf_mask_rotate('orders')");
    let masked = mask(&mut client, "leaf_mask('orders', 7)");
    let secret = client.text("SELECT concat_ws(' ', mask_secret_id, mask_salt) FROM leaf.alloc");
    // Changes of any kind, grants, and a replica's writes.
    client.run("SELECT leaf_tag_alter('orders', step => 5, advance_to => 100)");
    client.run("SELECT leaf_segment_next('orders'), leaf_segment_reserve('orders', 10)");
    client.run(
        "UPDATE leaf.alloc SET owner = 'postgres', description = 'x';
         SET session_replication_role = replica;
         UPDATE leaf.alloc SET max_id = 1, update_time = now();
         RESET session_replication_role",
    );
    assert_eq!(mask(&mut client, "leaf_mask('orders', 7)"), masked);
    // Another name, and back.
    client.run("UPDATE leaf.alloc SET biz_tag = 'renamed'");
    assert_eq!(mask(&mut client, "leaf_mask('renamed', 7)"), masked);
    client.run("UPDATE leaf.alloc SET biz_tag = 'orders'");
    // A copy of the database, and a dump.
    client.run("CREATE DATABASE restored");
    server.dump_and_restore("postgres", "restored");
    let mut restored = server.connect_as("postgres", "restored");
    assert_eq!(mask(&mut restored, "leaf_mask('orders', 7)"), masked);
    assert_eq!(
        restored.text("SELECT concat_ws(' ', mask_secret_id, mask_salt) FROM leaf.alloc"),
        secret
    );
    // A tag that is dropped and created again is another one.
    client.run("SELECT leaf_tag_drop('orders'); SELECT leaf_tag_create('orders')");
    assert_ne!(mask(&mut client, "leaf_mask('orders', 7)"), masked);
    assert_ne!(
        client.text("SELECT concat_ws(' ', mask_secret_id, mask_salt) FROM leaf.alloc"),
        secret
    );
}

#[test]
fn a_subscriber_masks_as_its_publisher() {
    let publisher = Server::options().set("wal_level", "logical").start();
    let mut client = publisher.connect();
    client.run("SELECT leaf_tag_create('orders'); CREATE PUBLICATION everything FOR ALL TABLES");
    let first = mask(&mut client, "leaf_mask('orders', 7)");
    let subscriber = Server::options().fresh().start();
    let mut there = subscriber.connect();
    there.run(&format!(
        "CREATE SUBSCRIPTION everything CONNECTION '{}' PUBLICATION everything",
        publisher.connection_string()
    ));
    wait_until("the row was copied", || {
        there.number("SELECT count(*) FROM leaf.alloc") == 1
            && there.number("SELECT count(*) FROM leaf.mask_secret") == 2
    });
    assert_eq!(mask(&mut there, "leaf_mask('orders', 7)"), first);
    client.run("SELECT leaf_mask_rotate('orders')");
    wait_until("the rotation was replicated", || {
        there.number("SELECT mask_version::bigint FROM leaf.alloc") == 2
    });
    let second = mask(&mut client, "leaf_mask('orders', 7)");
    assert_eq!(mask(&mut there, "leaf_mask('orders', 7)"), second);
    there.run("DROP SUBSCRIPTION everything");
}

/// Whoever reads the catalog over `pg_monitor` must not read the secrets.
#[test]
fn monitoring_shows_no_secret() {
    let (_server, mut client) = Server::with_orders(1000);
    client.run("CREATE ROLE watcher; GRANT pg_monitor TO watcher; SET ROLE watcher");
    let secret = "SELECT (leaf_mask_key('orders')).key";
    refused(client.batch_execute(secret), "42501");
    client.fails("SELECT secret FROM leaf.mask_secret", "42501");
    let shown = client.query_one("SELECT to_jsonb(s)::text FROM leaf.stat_segment AS s", &[]);
    let shown: String = shown.expect("a row").get(0);
    assert!(!shown.contains("secret"), "{shown}");
}

/// Errors quote the row: whatever constraint fails, nothing of a secret gets to the client or
/// to the log.
#[test]
fn no_error_quotes_a_part_of_a_secret() {
    let (server, mut client) = Server::with_orders(1000);
    client.run(
        "CREATE DOMAIN small AS text CHECK (length(VALUE) < 5);
         ALTER TABLE leaf.alloc ADD COLUMN note small, ADD CONSTRAINT mine CHECK (step <> 77);
         ALTER TABLE leaf.mask_secret ADD COLUMN note small NOT NULL DEFAULT 'a',
               ADD CONSTRAINT mine CHECK (note <> 'b')",
    );
    let secret = client.text("SELECT encode(secret, 'hex') FROM leaf.mask_secret");
    let secret = secret.trim_start_matches("00");
    for output in ["hex", "escape"] {
        client.run(&format!("SET bytea_output = {output}"));
        for change in [
            "UPDATE leaf.alloc SET step = 0",
            "UPDATE leaf.alloc SET step = 77",
            "UPDATE leaf.alloc SET step = NULL",
            "UPDATE leaf.alloc SET note = 'too long'",
            "UPDATE leaf.alloc SET stripe_width = -1",
            "UPDATE leaf.mask_secret SET note = 'b'",
            "UPDATE leaf.mask_secret SET note = NULL",
            "UPDATE leaf.mask_secret SET id = NULL",
            "UPDATE leaf.mask_secret SET secret = substr(secret, 1, 63)",
            "INSERT INTO leaf.mask_secret TABLE leaf.mask_secret",
        ] {
            let error = client.batch_execute(change).expect_err(change);
            let error = error.as_db_error().expect("an error of the server");
            let code = error.code().code();
            assert!(code.starts_with("23"), "{change}: {error:?}");
            shows_nothing(secret, &format!("{error:?}"));
        }
    }
    assert!(server.log().contains("Failing row contains"));
    shows_nothing(secret, &server.log());
}

/// No four bytes of the secret stand in the text, as hexadecimal digits.
fn shows_nothing(secret: &str, text: &str) {
    for start in (0..=secret.len() - 8).step_by(2) {
        assert!(!text.contains(&secret[start..start + 8]), "{text}");
    }
}

/// A tag that comes without its secret must not get other masks silently.
#[test]
fn a_tag_without_its_secret_says_so_until_it_gets_another() {
    let (_server, mut client) = Server::with_orders(1000);
    let masked = mask(&mut client, "leaf_mask('orders', 7)");
    client.run("CREATE TABLE kept AS TABLE leaf.mask_secret; DELETE FROM leaf.mask_secret");
    refused(call(&mut client, "leaf_mask('orders', 7)"), "55000");
    refused(call(&mut client, "leaf_mask_key('orders')"), "55000");
    client.run("INSERT INTO leaf.mask_secret TABLE kept");
    assert_eq!(mask(&mut client, "leaf_mask('orders', 7)"), masked);
    client.run(
        "DELETE FROM leaf.mask_secret; INSERT INTO leaf.mask_secret DEFAULT VALUES;
         UPDATE leaf.alloc SET mask_secret_id = NULL",
    );
    assert_ne!(mask(&mut client, "leaf_mask('orders', 7)"), masked);
}
