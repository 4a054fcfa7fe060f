//! `doctor`: finds what is broken, names the cure, and finds nothing where nothing is.

mod centre;
mod citus;
mod horizon;
mod settings;

use leaf_tests::page::root;
use leaf_tests::{Draw, Said, Server, draw_many, leafctl_on, refused, wait_until};
use serde_json::Value;
use std::time::Duration;

/// What doctor finds, as `level subject: finding`, and its exit code.
fn findings(server: &Server) -> (Option<i32>, Vec<String>) {
    let said = Said::by(leafctl_on(server).args(["doctor", "-f", "json"]));
    let json: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said:?}"));
    let text = |finding: &Value, key: &str| finding[key].as_str().expect("a text").to_owned();
    let findings = json.as_array().expect("an array").iter().map(|finding| {
        assert!(!text(finding, "cure").is_empty(), "{finding}");
        let (level, subject) = (text(finding, "level"), text(finding, "subject"));
        format!("{level} {subject}: {}", text(finding, "finding"))
    });
    (said.code, findings.collect())
}

/// Doctor finds this, and nothing else at its level or above.
#[track_caller]
fn finds(server: &Server, expected: &str) {
    let (code, found) = findings(server);
    assert_eq!(code, Some(4), "{found:?}");
    assert!(
        found.iter().any(|it| it.starts_with(expected)),
        "{expected}: {found:?}"
    );
    let worse = found
        .iter()
        .filter(|it| !it.starts_with("notice") && !it.starts_with(expected));
    assert_eq!(worse.count(), 0, "{found:?}");
}

#[test]
fn healthy_server_has_no_findings() {
    let (server, mut client) = Server::with_orders(100);
    client.run(
        "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'));
         INSERT INTO orders SELECT FROM generate_series(1, 1000);
         CREATE TABLE events (id bigint DEFAULT leaf_snowflake_next());
         INSERT INTO events SELECT FROM generate_series(1, 1000)",
    );
    let said = Said::by(leafctl_on(&server).arg("doctor"));
    assert!(
        said.clone().done().contains("No problem was found"),
        "{said:?}"
    );
    // psql runs the same.
    let file = root().join("cli/src/doctor/doctor.sql");
    let file = file.to_str().expect("UTF-8");
    server.run_program(
        "psql",
        &["-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", file, "postgres"],
    );
}

#[test]
fn ids_of_blocks_are_not_taken_for_foreign_ones() {
    let (server, mut client) = Server::with_orders(100);
    client.run(
        "CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'));
         INSERT INTO orders DEFAULT VALUES;
         INSERT INTO orders SELECT lower(leaf_segment_reserve('orders', 100))",
    );
    assert_eq!(findings(&server).0, Some(0));
}

#[test]
fn server_without_leaf_is_found_out() {
    let server = Server::options()
        .set("shared_preload_libraries", "")
        .bare()
        .start();
    let (code, found) = findings(&server);
    assert_eq!(code, Some(4));
    assert!(
        found
            .iter()
            .any(|it| it.starts_with("error server: leaf is not in shared_preload_libraries")),
        "{found:?}"
    );
    assert!(
        found
            .iter()
            .any(|it| it.contains("has not been created here")),
        "{found:?}"
    );
}

#[test]
fn columns_behind_too_small_and_without_their_tag_are_found() {
    let (server, mut client) = Server::with_orders(100);
    client.run("CREATE TABLE orders (id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'))");
    client.run("INSERT INTO orders VALUES (1000000)");
    finds(
        &server,
        "error column public.orders.id: it has 1,000,000, but tag \"orders\" stands at",
    );
    client.run("SELECT leaf_tag_align('orders')");
    assert_eq!(findings(&server).0, Some(0));

    client.run("CREATE TABLE small (id integer DEFAULT leaf_segment_next('orders'))");
    finds(
        &server,
        "warning column public.small.id: type integer has room for fewer ids",
    );
    client.run("SELECT leaf_tag_alter('orders', advance_to => 2000000000)");
    finds(
        &server,
        "error column public.small.id: type integer has room for fewer ids",
    );
    client.run("DROP TABLE small; CREATE TABLE flakes (id integer DEFAULT leaf_snowflake_next())");
    finds(
        &server,
        "error column public.flakes.id: it draws snowflake ids",
    );
    client.run("DROP TABLE flakes; SELECT leaf_tag_drop('orders', force => true)");
    finds(
        &server,
        "error column public.orders.id: its default draws from tag \"orders\", which does not exist",
    );
    client.run("DROP TABLE orders");

    // A domain's default, and a tag whose name has quotes.
    client.run("SELECT leaf_tag_create('it''s', max_value => 100); CREATE DOMAIN number AS smallint DEFAULT leaf_segment_next('it''s')");
    client.run("CREATE TABLE numbered (id number PRIMARY KEY); INSERT INTO numbered VALUES (50)");
    finds(
        &server,
        "error column public.numbered.id: it has 50, but tag \"it's\" stands at 1",
    );
    // The very next id.
    client.run("UPDATE numbered SET id = 1");
    finds(
        &server,
        "error column public.numbered.id: it has 1, but tag \"it's\" stands at 1",
    );
}

#[test]
fn tags_near_their_end_are_found() {
    let server = Server::start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('full', step => 10, max_step => 10, max_value => 1000)");
    draw_many(&mut client, "full", 850);
    finds(
        &server,
        "warning tag \"full\": 85.0 % of its numbers are used",
    );
    draw_many(&mut client, "full", 120);
    finds(
        &server,
        "error tag \"full\": 97.0 % of its numbers are used",
    );
    draw_many(&mut client, "full", 29);
    wait_until("the last numbers are granted", || {
        client.number("SELECT granted_up_to FROM leaf.stat_segment") == 1_000
    });
    finds(
        &server,
        "error tag \"full\": its last numbers are granted: 1 id is left",
    );
    draw_many(&mut client, "full", 1);
    finds(&server, "error tag \"full\": it has reached its max_value");
    // With more numbers, the error is one of the past.
    refused(client.next("full"), "2200H");
    client.run("SELECT leaf_tag_alter('full', max_value => 2000)");
    draw_many(&mut client, "full", 1);
    let (_, found) = findings(&server);
    let is_past = |it: &String| it.starts_with("notice tag \"full\": a load failed");
    assert!(found.iter().any(is_past), "{found:?}");
    assert!(!found.iter().any(|it| it.starts_with("error")), "{found:?}");
}

#[test]
fn unlogged_tables_of_leaf_are_found() {
    let (server, mut client) = Server::with_orders(10);
    for table in ["leaf.alloc", "leaf.worker"] {
        client.run(&format!("ALTER TABLE {table} SET UNLOGGED"));
        finds(&server, &format!("error table {table}: it is unlogged"));
        client.run(&format!("ALTER TABLE {table} SET LOGGED"));
    }
}

#[test]
fn loads_that_fail_are_found() {
    let (server, mut client) = Server::with_orders(10);
    let mut locker = server.connect();
    let mut holding = locker.transaction().expect("a transaction");
    holding
        .execute("SELECT FROM leaf.alloc FOR UPDATE", &[])
        .expect("the row is locked");
    client.run("SET leaf.wait_timeout = '1s'");
    client.next("orders").expect_err("the row is locked");
    wait_until("the load has failed", || {
        let sql = "SELECT count(*) FROM leaf.stat_segment WHERE last_error IS NOT NULL";
        server.connect().number(sql) == 1
    });
    let (code, found) = findings(&server);
    assert_eq!(code, Some(4));
    assert!(
        found
            .iter()
            .any(|it| it.starts_with("error tag \"orders\": its last load failed")),
        "{found:?}"
    );
    assert!(
        found
            .iter()
            .any(|it| it.starts_with("warning tag \"orders\": 1 call gave up")),
        "{found:?}"
    );
    holding.rollback().expect("it ends");
    // Once there are ids again, what has failed before is no more than news.
    wait_until("ids come again", || client.next("orders").is_ok());
    client.run("SELECT leaf_segment_batch('orders', 1000)");
    wait_until("a load that has failed is past", || {
        let (_, found) = findings(&server);
        found.iter().any(|it| {
            it.starts_with("notice tag \"orders\": a load failed")
                && it.contains("its cause is gone")
        })
    });
}

#[test]
fn rights_and_roles_that_are_wrong_are_found() {
    let (server, mut client) = Server::with_orders(100);
    client.run("CREATE ROLE shop; SELECT leaf_tag_grant('orders', 'shop'); DROP ROLE shop");
    let (code, found) = findings(&server);
    assert_eq!(code, Some(0), "a notice is not an error");
    assert!(
        found.iter().any(
            |it| it.starts_with("notice tag \"orders\": \"shop\" may draw, but does not exist")
        ),
        "{found:?}"
    );
    let quiet = Said::by(leafctl_on(&server).args(["doctor", "-q"])).done();
    assert!(quiet.contains("No problem was found"), "{quiet}");

    client.run("UPDATE leaf.alloc SET owner = 'nobody'");
    finds(
        &server,
        "warning tag \"orders\": its owner, \"nobody\", does not exist",
    );
    client.run("UPDATE leaf.alloc SET owner = 'postgres'; GRANT EXECUTE ON FUNCTION leaf_tag_attach TO PUBLIC");
    finds(
        &server,
        "warning rights: every role can call leaf_tag_attach",
    );
    client.run("REVOKE EXECUTE ON FUNCTION leaf_tag_attach FROM PUBLIC");

    // The owner of the extension, whose rights the loader has.
    client.run("CREATE DATABASE owned");
    client.run("CREATE ROLE owner; GRANT ALL ON DATABASE owned TO owner");
    let mut owned = server.connect_as("postgres", "owned");
    owned.run("CREATE EXTENSION leaf; UPDATE pg_extension SET extowner = 'owner'::regrole WHERE extname = 'leaf'");
    let said = Said::by(leafctl_on(&server).args(["doctor", "-d", "owned"]));
    assert_eq!(said.code, Some(4));
    assert!(
        said.out.contains("may not change leaf's tables"),
        "{said:?}"
    );
}

#[test]
fn triggers_out_of_order_are_found() {
    let (server, mut client) = Server::with_orders(100);
    client.run("ALTER TABLE leaf.alloc ENABLE TRIGGER leaf_check");
    finds(
        &server,
        "error table leaf.alloc: trigger leaf_check does not fire always",
    );
    client.run("ALTER TABLE leaf.alloc ENABLE ALWAYS TRIGGER leaf_check");
    client.run("ALTER TABLE leaf.worker DISABLE TRIGGER leaf_truncated");
    finds(
        &server,
        "error table leaf.worker: trigger leaf_truncated does not fire always",
    );
}

#[test]
fn worker_slots_that_are_used_up_are_found() {
    let server = Server::options().set("max_worker_processes", "1").start();
    // The launcher of logical replication has the only one.
    finds(&server, "error worker slots: all 1 background workers");
}

#[test]
fn clocks_that_differ_or_go_back_are_found() {
    let server = Server::options()
        .clock()
        .set("leaf.clock_policy", "borrow")
        .start();
    let mut client = server.connect();
    client.run("SELECT leaf_snowflake_next()");
    server.clock().ahead(Duration::from_secs(90));
    client.run("SELECT leaf_snowflake_next()");
    finds(&server, "warning clock: the server's is 1m");
    server.clock().ahead(Duration::from_secs(60));
    client.run("SELECT leaf_snowflake_next()");
    let (_, found) = findings(&server);
    assert!(
        found
            .iter()
            .any(|it| it.starts_with("warning clock: it has gone back")),
        "{found:?}"
    );
}

/// Such a server is not said to have used its ids up.
#[test]
fn locked_catalog_is_found_with_who_has_locked_it() {
    let (server, mut client) = Server::with_orders(100);
    client.next("orders").expect("an id");
    let mut holder = server.connect();
    let pid = holder.number("SELECT pg_backend_pid()::bigint");
    holder.run("BEGIN; LOCK TABLE leaf.alloc IN ACCESS EXCLUSIVE MODE");
    let expected = format!("error table leaf.alloc: process {pid} (postgres) has locked it since");
    wait_until("the lock is old enough to be found", || {
        findings(&server)
            .1
            .iter()
            .any(|it| it.starts_with(&expected))
    });
    let (_, found) = findings(&server);
    assert!(
        !found.iter().any(|it| it.contains("tag \"orders\"")),
        "{found:?}"
    );
}

/// What there is to be done stands last, where the prompt is.
#[test]
fn equal_findings_of_many_tags_are_one_and_the_worst_is_said_last() {
    let server = Server::start();
    let mut client = server.connect();
    client.run(
        "SELECT leaf_tag_create(name, max_value => 1) FROM unnest('{a,b,c,d,e}'::text[]) AS name",
    );
    for tag in ["a", "b", "c", "d", "e"] {
        client.next(tag).expect("the only id");
        client.run(&format!("SELECT leaf_tag_grant('{tag}', current_user); UPDATE leaf.alloc SET grantees = '{{gone}}'"));
    }
    let said = Said::by(leafctl_on(&server).arg("doctor"));
    let lines: Vec<&str> = said.out.lines().collect();
    let (notice, error) = (lines[0], lines[2]);
    assert!(
        notice.starts_with("notice 5 tags (a, b, c, ...): \"gone\" may draw"),
        "{said:?}"
    );
    assert!(
        error.starts_with("error 5 tags (a, b, c, ...): it has reached its max_value"),
        "{said:?}"
    );
    assert_eq!(lines.last(), Some(&"1 error, 1 notice"), "{said:?}");
}

#[test]
fn loader_that_waits_for_a_standby_is_found_and_named_to_callers() {
    let (server, mut client) = Server::with_orders(100);
    server.reload("synchronous_standby_names", "nobody");
    client.run("SET leaf.wait_timeout = '1s'");
    // The loader may still be starting at first.
    wait_until("callers are told", || {
        let error = refused(client.next("orders"), "55P03");
        error.detail().is_some_and(|it| it.contains("SyncRep"))
    });
    wait_until("it is found", || {
        let (code, found) = findings(&server);
        code == Some(4)
            && found
                .iter()
                .any(|it| it.starts_with("error loader: it waits for a synchronous standby"))
    });
    server.reload("synchronous_standby_names", "");
}

/// A superuser's plan of a query would execute what the owner has put into an index.
#[test]
fn doctor_executes_nothing_of_a_tables_owner() {
    let (server, mut client) = Server::with_orders(100);
    client.run(
        "CREATE ROLE stranger LOGIN; CREATE SCHEMA AUTHORIZATION stranger; GRANT stranger TO postgres",
    );
    let mut stranger = server.connect_as("stranger", "postgres");
    stranger.run(
        "CREATE FUNCTION stranger.ran(integer) RETURNS integer IMMUTABLE LANGUAGE plpgsql AS
             $$ BEGIN RAISE LOG 'it ran as %', current_user; RETURN $1; END $$;
         CREATE TABLE stranger.t (id bigint DEFAULT leaf_segment_next('orders'));
         INSERT INTO stranger.t VALUES (1000);
         CREATE INDEX ON stranger.t (id);
         CREATE INDEX ON stranger.t ((id + stranger.ran(1)))",
    );
    assert!(server.log().contains("it ran as stranger"));
    finds(&server, "error column stranger.t.id: ");
    assert!(
        !server.log().contains("it ran as postgres"),
        "{}",
        server.log()
    );
    // What it reads is for those who may read the table.
    client.run("CREATE ROLE other LOGIN");
    let highest = "SELECT leaf.highest('stranger.t', 'id')";
    assert_eq!(client.number(highest), 1000);
    assert_eq!(stranger.number(highest), 1000);
    stranger.run("GRANT USAGE ON SCHEMA stranger TO other");
    let mut other = server.connect_as("other", "postgres");
    refused(other.simple_query(highest), "42501");
    stranger.run("GRANT SELECT ON stranger.t TO other");
    assert_eq!(other.number(highest), 1000);
    stranger.run("ALTER TABLE stranger.t ENABLE ROW LEVEL SECURITY");
    refused(other.simple_query(highest), "42501");
    // What the owner's own functions raise keeps nothing else from being checked.
    stranger.run("ALTER TABLE stranger.t FORCE ROW LEVEL SECURITY");
    let (_, found) = findings(&server);
    let said = "notice column stranger.t.id: it is not compared with tag";
    assert!(found.iter().any(|it| it.starts_with(said)), "{found:?}");
}

#[test]
fn doctor_changes_nothing_and_sees_what_the_role_may_see() {
    let (server, mut client) = Server::with_orders(100);
    client.run("CREATE ROLE watcher LOGIN IN ROLE pg_monitor; CREATE ROLE shop LOGIN");
    let before = client.text("SELECT string_agg(a::text, ' ') FROM leaf.alloc AS a");
    for role in ["postgres", "watcher", "shop"] {
        let said = Said::by(leafctl_on(&server).args(["doctor", "-U", role]));
        assert_eq!(said.code, Some(0), "{role}: {said:?}");
        let is_told = said.out.contains("sees only its own tags");
        assert_eq!(is_told, role == "shop", "{role}: {said:?}");
        let is_partial = said.out.contains("could not be checked");
        assert_eq!(is_partial, role != "postgres", "{role}: {said:?}");
    }
    // With the rights that the manual names, a member of pg_monitor can run all checks.
    let manual = std::fs::read_to_string("../docs/leafctl.md").expect("the manual");
    let grants: Vec<&str> = manual
        .lines()
        .filter(|line| line.starts_with("GRANT "))
        .collect();
    assert_eq!(grants.len(), 2, "{grants:?}");
    client.run(&grants.concat());
    let said = Said::by(leafctl_on(&server).args(["doctor", "-U", "watcher"])).done();
    assert_eq!(said, "No problem was found.\n");
    client.run("CREATE TABLE items (id bigint PRIMARY KEY DEFAULT leaf_segment_next('orders'))");
    let said = Said::by(leafctl_on(&server).args(["doctor", "-U", "watcher"])).done();
    assert!(said.contains("is not compared with tag"), "{said}");
    assert_eq!(
        client.text("SELECT string_agg(a::text, ' ') FROM leaf.alloc AS a"),
        before
    );
}

/// Each finding says whose it is, its cure goes to that database, and what is the server's is said
/// once.
#[test]
fn all_databases_of_a_server_are_examined() {
    let server = Server::options().set("max_worker_processes", "3").start();
    let mut client = server.connect();
    client.run("CREATE DATABASE shop");
    client.run("CREATE DATABASE without");
    client.run("CREATE DATABASE closed");
    client.run(
        "REVOKE CONNECT ON DATABASE closed FROM PUBLIC; CREATE ROLE joe LOGIN IN ROLE pg_monitor",
    );
    for database in ["postgres", "shop"] {
        let mut client = server.connect_as("postgres", database);
        client.run(
            "CREATE EXTENSION IF NOT EXISTS leaf; SELECT leaf_tag_create('full', max_value => 1)",
        );
        client.next("full").expect("the only id");
        client.next("full").expect_err("no ids are left");
    }
    let all = |user: &str| {
        let mut doctor = leafctl_on(&server);
        Said::by(doctor.env("PGUSER", user).args(["doctor", "-A"]))
    };
    let said = all("postgres");
    assert_eq!(said.code, Some(4), "{said:?}");
    for database in ["postgres", "shop"] {
        let finding = format!("error {database}: tag \"full\": ");
        assert_eq!(said.out.matches(&finding).count(), 1, "{said:?}");
        let cure = format!("cure: leafctl tags -d {database} alter full ");
        assert_eq!(said.out.matches(&cure).count(), 1, "{said:?}");
    }
    assert!(
        said.out
            .ends_with("Examined: postgres, shop. Without leaf: closed, template1, without.\n"),
        "{said:?}"
    );
    let slots = "worker slots: ";
    assert_eq!(said.out.matches(slots).count(), 1, "{said:?}");
    let said = all("joe");
    assert!(!said.out.contains("closed"), "{said:?}");
    assert!(
        said.out.ends_with("Without leaf: template1, without.\n"),
        "{said:?}"
    );
}
