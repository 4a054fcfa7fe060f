//! Dumps that are restored: tags, owners, grants and positions survive, nothing
//! goes back, and the worker ids of the original stay its own.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Ledger, Server, pipe, refused};
use std::process::Command;

/// A database `work` with a table that draws both kinds of ids, and what it drew.
struct Original {
    server: Server,
    admin: Client,
    work: Client,
    ids: Ledger,
    snowflakes: Ledger,
}

impl Original {
    fn new() -> Original {
        let server = Server::start();
        let mut admin = server.connect();
        admin.run("CREATE DATABASE work");
        let mut work = server.connect_as("postgres", "work");
        work.run(
            "CREATE ROLE shop LOGIN; CREATE ROLE clerk LOGIN; CREATE ROLE stranger LOGIN;
             CREATE EXTENSION leaf;
             GRANT EXECUTE ON FUNCTION leaf_tag_create TO shop;
             SET ROLE shop;
             SELECT leaf_tag_create('orders', step => 50, description => 'of the shop');
             SELECT leaf_tag_create('Rechnungen \"2026\"; it''s', start => 70000);
             SELECT leaf_tag_grant('orders', 'clerk');
             RESET ROLE;
             CREATE TABLE orders (
                 id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'),
                 event bigint UNIQUE DEFAULT leaf_snowflake_next(),
                 batch integer NOT NULL);
             ALTER TABLE orders OWNER TO shop",
        );
        let mut original = Original {
            server,
            admin,
            work,
            ids: Ledger::new(),
            snowflakes: Ledger::new(),
        };
        original.insert(333);
        original
    }

    fn insert(&mut self, rows: i32) {
        insert(&mut self.work, rows, &mut self.ids, &mut self.snowflakes);
    }

    fn dump(&self, arguments: &[&str]) -> Command {
        let mut dump = self.server.program("pg_dump");
        dump.args(arguments).arg("work");
        dump
    }

    /// A new database for a restore.
    fn database(&mut self, name: &str) -> String {
        self.admin.run(&format!("CREATE DATABASE {name}"));
        name.to_owned()
    }

    /// The database has all that the original had, and goes on from there.
    fn is_restored(&mut self, elsewhere: Option<&Server>, database: &str) {
        let server = elsewhere.unwrap_or(&self.server);
        let mut restored = server.connect_as("postgres", database);
        let tags = "SELECT string_agg(concat_ws('|', biz_tag, step, description, max_value, owner,
                                                grantees, incarnation), E'\\n' ORDER BY biz_tag)
                      FROM leaf.alloc";
        assert_eq!(restored.text(tags), self.work.text(tags));
        assert_eq!(
            restored.number("SELECT count(*) FROM orders"),
            self.work.number("SELECT count(*) FROM orders")
        );
        insert(&mut restored, 200, &mut self.ids, &mut self.snowflakes);

        // Another worker id: the original is alive, and so may its nodes be.
        let worker = "SELECT worker_id::bigint FROM leaf.stat_snowflake";
        assert_ne!(restored.number(worker), self.work.number(worker));

        let mut clerk = server.connect_as("clerk", database);
        self.ids
            .add([clerk.next("orders").expect("clerk may draw")]);
        let mut stranger = server.connect_as("stranger", database);
        refused(stranger.next("orders"), "42501");
        let mut shop = server.connect_as("shop", database);
        shop.run("SELECT leaf_tag_revoke('orders', 'clerk')");
        refused(clerk.next("orders"), "42501");
        assert_eq!(
            shop.next("Rechnungen \"2026\"; it's").expect("an id"),
            80000,
            "it is not known which grants the dump missed"
        );
        // The triggers are there, and do what they are for.
        refused(
            restored.batch_execute("UPDATE leaf.alloc SET max_id = 1 WHERE biz_tag = 'orders'"),
            "22023",
        );
    }
}

fn insert(client: &mut Client, rows: i32, ids: &mut Ledger, snowflakes: &mut Ledger) {
    let inserted = client
        .query(
            "INSERT INTO orders (batch) SELECT 1 FROM generate_series(1, $1) RETURNING id, event",
            &[&rows],
        )
        .expect("rows");
    ids.add(inserted.iter().map(|row| row.get(0)));
    snowflakes.add(inserted.iter().map(|row| row.get(1)));
}

/// Restores through the standard input of a program.
fn restored_through(dump: &[&str], program: &str, arguments: &[&str]) {
    let mut original = Original::new();
    let database = original.database("restored");
    let mut restore = original.server.program(program);
    restore.args(arguments).args(["-d", &database]);
    pipe(&mut original.dump(dump), &mut restore);
    original.is_restored(None, &database);
}

pub const PSQL: &[&str] = &["-X", "-q", "-v", "ON_ERROR_STOP=1"];

const CUSTOM: &[&str] = &["--format=custom"];

#[test]
fn plain_dump_is_restored() {
    restored_through(&[], "psql", PSQL);
}

#[test]
fn plain_dump_is_restored_in_one_transaction() {
    restored_through(&[], "psql", &[PSQL, &["--single-transaction"]].concat());
}

#[test]
fn dump_of_inserts_is_restored() {
    restored_through(&["--inserts"], "psql", PSQL);
}

#[test]
fn custom_dump_is_restored() {
    restored_through(CUSTOM, "pg_restore", &["--exit-on-error"]);
}

#[test]
fn custom_dump_is_restored_in_one_transaction() {
    restored_through(CUSTOM, "pg_restore", &["--single-transaction"]);
}

#[test]
fn directory_dump_is_restored_by_several_jobs() {
    let mut original = Original::new();
    let database = original.database("restored");
    let folder = original.server.data().with_file_name("dump");
    let folder = folder.to_str().expect("text");
    original.server.run_program(
        "pg_dump",
        &["--format=directory", "--jobs=2", "-f", folder, "work"],
    );
    original.server.run_program(
        "pg_restore",
        &["--exit-on-error", "--jobs=2", "-d", &database, folder],
    );
    original.is_restored(None, &database);
}

#[test]
fn schema_and_data_are_restored_one_after_the_other() {
    let mut original = Original::new();
    let database = original.database("restored");
    original
        .server
        .restore_from(&mut original.dump(&["--schema-only"]), &database);
    // Without the data there is no tag, and nobody invents one.
    let mut restored = original.server.connect_as("postgres", &database);
    refused(restored.next("orders"), "42704");
    assert_eq!(
        restored.text(
            "SELECT string_agg(concat_ws(' ', biz_tag, used_in, \"position\", moved), ', ')
               FROM leaf_tag_align()"
        ),
        "orders public.orders.id f"
    );
    original
        .server
        .restore_from(&mut original.dump(&["--data-only"]), &database);
    original.is_restored(None, &database);
}

#[test]
fn data_are_restored_with_triggers_disabled() {
    let mut original = Original::new();
    let database = original.database("restored");
    original
        .server
        .restore_from(&mut original.dump(&["--schema-only"]), &database);
    let mut dump = original.dump(&["--data-only", "--disable-triggers"]);
    original.server.restore_from(&mut dump, &database);
    original.is_restored(None, &database);
}

#[test]
fn whole_cluster_is_restored() {
    let mut original = Original::new();
    let other = Server::options().bare().fresh().start();
    let mut restore = other.program("psql");
    restore.args(PSQL).args(["-d", "postgres"]);
    let mut dump = original.server.program("pg_dumpall");
    // The role `postgres` is there already.
    dump.args(["--exclude-database=template1", "--no-role-passwords"]);
    let roles_that_exist = ["-v", "ON_ERROR_STOP=0"];
    pipe(&mut dump, restore.args(roles_that_exist));
    original.is_restored(Some(&other), "work");
}

#[test]
fn old_dump_under_newer_rows_is_aligned() {
    let mut original = Original::new();
    let old = original.dump(&[]).output().expect("a dump");
    assert!(old.status.success());
    // Whatever the old dump says is granted, newer rows lie above it.
    let granted = "SELECT max_id FROM leaf.alloc WHERE biz_tag = 'orders'";
    let granted = original.work.number(granted);
    while original.ids.highest() < granted {
        original.insert(5_000);
    }

    let database = original.database("restored");
    let mut restore = original.server.program("psql");
    restore.args(PSQL).args(["-d", &database]);
    leaf_tests::feed(&mut restore, &old.stdout);
    // The rows are saved more often than the rest.
    let mut restored = original.server.connect_as("postgres", &database);
    restored.run("TRUNCATE orders");
    let mut rows = original.dump(&["--data-only", "--table=public.orders"]);
    original.server.restore_from(&mut rows, &database);

    let aligned = "SELECT string_agg(concat_ws(' ', biz_tag, used_in, moved), ', ')
                     FROM leaf_tag_align()";
    assert_eq!(restored.text(aligned), "orders public.orders.id t");
    assert_eq!(restored.text(aligned), "orders public.orders.id f");
    original.is_restored(None, &database);
}

/// The owner of a database is no superuser, and was granted nothing: the dump that he makes, without
/// any option, goes on where it was taken.
#[test]
fn the_owner_of_a_database_dumps_and_restores_it() {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run("CREATE ROLE app LOGIN");
    for name in ["work", "restored"] {
        admin.run(&format!("CREATE DATABASE {name} OWNER app"));
        let mut database = server.connect_as("postgres", name);
        database.run(
            "CREATE EXTENSION leaf; GRANT EXECUTE ON FUNCTION leaf_tag_create TO app;
             GRANT CREATE ON SCHEMA public TO app",
        );
    }
    let mut work = server.connect_as("app", "work");
    work.run(
        "SELECT leaf_tag_create('orders', step => 50);
         CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'), batch integer);
         INSERT INTO orders SELECT FROM generate_series(1, 333);
         SELECT leaf_snowflake_next()",
    );
    let file = server.data().with_file_name("work.dump");
    let file = file.to_str().expect("a path");
    let dump = ["-U", "app", "-Fc", "-f", file, "work"];
    server.run_program("pg_dump", &dump);
    let restore = [
        "-U",
        "app",
        "--no-comments",
        "--exit-on-error",
        "-d",
        "restored",
        file,
    ];
    server.run_program("pg_restore", &restore);
    let mut restored = server.connect_as("app", "restored");
    let mut drawn = work.numbers("SELECT id FROM orders");
    drawn.extend(
        restored.numbers("INSERT INTO orders SELECT FROM generate_series(1, 500) RETURNING id"),
    );
    drawn.sort_unstable();
    let count = drawn.len();
    drawn.dedup();
    assert_eq!((count, drawn.len()), (833, 833));
    // The records of the worker ids of the original are there, of which none is used.
    restored.run("SELECT leaf_snowflake_next()");
    let workers = "SELECT count(*) FROM leaf.worker";
    assert_eq!(restored.number(workers), work.number(workers) + 1);
}
