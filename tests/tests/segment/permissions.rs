//! Who may draw, who sees what, and that nobody gains anything through the loader.

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Server, draw_many, refused, wait_until};
use std::thread;

/// A server with the tag `orders` of the role `owner`, and a role `stranger`.
fn server() -> (Server, Client) {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run(
        "CREATE ROLE owner LOGIN; CREATE ROLE stranger LOGIN;
         GRANT EXECUTE ON FUNCTION leaf_tag_create TO owner",
    );
    server
        .connect_as("owner", "postgres")
        .run("SELECT leaf_tag_create('orders', step => 100)");
    (server, admin)
}

#[test]
fn who_may_not_use_the_schema_of_the_tables_draws_and_alters() {
    let (server, mut admin) = server();
    admin.run("REVOKE USAGE ON SCHEMA leaf FROM PUBLIC");
    let mut owner = server.connect_as("owner", "postgres");
    owner.fails("SELECT FROM leaf.alloc", "42501");
    owner.next("orders").expect("an id");
    owner.reserve("orders", 5).expect("a block");
    owner.run("SELECT leaf_tag_alter('orders', step => 10)");
}

#[test]
fn owner_grants_and_revokes() {
    let (server, _admin) = server();
    let mut owner = server.connect_as("owner", "postgres");
    let mut stranger = server.connect_as("stranger", "postgres");
    owner.next("orders").expect("the owner draws");
    refused(stranger.next("orders"), "42501");
    for grantee in ["stranger", "PUBLIC"] {
        owner.run(&format!("SELECT leaf_tag_grant('orders', '{grantee}')"));
        stranger.next("orders").expect("a grantee draws");
        stranger.batch("orders", 500).expect("a grantee draws");
        stranger.reserve("orders", 5).expect("a grantee draws");
        // Drawing is all that a grant allows.
        refused(
            stranger.batch_execute("SELECT leaf_tag_drop('orders')"),
            "42501",
        );
        owner.run(&format!("SELECT leaf_tag_revoke('orders', '{grantee}')"));
        refused(stranger.next("orders"), "42501");
        refused(stranger.reserve("orders", 5), "42501");
    }
}

#[test]
fn revoke_reaches_a_prepared_statement_at_commit() {
    let (server, mut admin) = server();
    let mut stranger = server.connect_as("stranger", "postgres");
    admin.run("SELECT leaf_tag_grant('orders', 'stranger')");
    let next = stranger
        .prepare("SELECT leaf_segment_next('orders')")
        .expect("a statement");
    stranger.query(&next, &[]).expect("an id");
    admin.run("BEGIN; SELECT leaf_tag_revoke('orders', 'stranger')");
    stranger.query(&next, &[]).expect("not yet committed");
    admin.run("COMMIT");
    refused(stranger.query(&next, &[]), "42501");
}

#[test]
fn membership_counts_and_ends_at_once() {
    let (server, mut admin) = server();
    let mut stranger = server.connect_as("stranger", "postgres");
    admin.run("CREATE ROLE clerks; SELECT leaf_tag_grant('orders', 'clerks')");
    refused(stranger.next("orders"), "42501");
    admin.run("GRANT clerks TO stranger");
    stranger.next("orders").expect("a member draws");
    admin.run("REVOKE clerks FROM stranger");
    refused(stranger.next("orders"), "42501");
    admin.run("GRANT owner TO stranger");
    stranger
        .next("orders")
        .expect("a member of the owner draws");
    admin.run("REVOKE owner FROM stranger; ALTER ROLE stranger SUPERUSER");
    stranger.next("orders").expect("a superuser draws");
    admin.run("ALTER ROLE stranger NOSUPERUSER");
    refused(stranger.next("orders"), "42501");
}

#[test]
fn column_default_draws_as_the_inserting_role() {
    let (server, mut admin) = server();
    admin.run(
        "CREATE TABLE orders (id bigint DEFAULT leaf_segment_next('orders'), n int);
         GRANT INSERT, SELECT ON orders TO owner, stranger",
    );
    let mut owner = server.connect_as("owner", "postgres");
    let mut stranger = server.connect_as("stranger", "postgres");
    owner.run("INSERT INTO orders (n) VALUES (1)");
    refused(
        stranger.batch_execute("INSERT INTO orders (n) VALUES (2)"),
        "42501",
    );
    owner.run("SELECT leaf_tag_grant('orders', 'stranger')");
    stranger.run("INSERT INTO orders (n) VALUES (2)");
    assert_eq!(admin.number("SELECT count(DISTINCT id) FROM orders"), 2);
}

#[test]
fn security_definer_function_draws_with_its_owners_right() {
    let (server, mut admin) = server();
    admin.run("GRANT CREATE ON SCHEMA public TO owner");
    server.connect_as("owner", "postgres").run(
        "CREATE FUNCTION draw() RETURNS bigint LANGUAGE sql SECURITY DEFINER
         AS $$ SELECT leaf_segment_next('orders') $$",
    );
    let mut stranger = server.connect_as("stranger", "postgres");
    let id = stranger.number("SELECT draw()");
    refused(stranger.next("orders"), "42501");
    assert!(stranger.number("SELECT draw()") > id);
    // In one statement, the one right must not rub off on the other call.
    refused(
        stranger.batch_execute("SELECT draw(), leaf_segment_next('orders')"),
        "42501",
    );
}

#[test]
fn set_role_under_an_open_cursor_counts() {
    let (_server, mut admin) = server();
    admin.run(
        "BEGIN;
         DECLARE c CURSOR FOR SELECT leaf_segment_next('orders') FROM generate_series(1, 10);
         FETCH 2 FROM c;
         SET ROLE stranger; SAVEPOINT s",
    );
    refused(admin.batch_execute("FETCH 1 FROM c"), "42501");
    admin.run("ROLLBACK");

    let next = admin
        .prepare("SELECT leaf_segment_next('orders')")
        .expect("a statement");
    for _ in 0..3 {
        admin.run("SET ROLE owner");
        admin.query(&next, &[]).expect("the owner draws");
        admin.run("SET ROLE stranger");
        refused(admin.query(&next, &[]), "42501");
        admin.run("RESET ROLE");
        admin.query(&next, &[]).expect("a superuser draws");
    }
}

#[test]
fn missing_role_is_nobody() {
    let (server, mut admin) = server();
    let mut stranger = server.connect_as("stranger", "postgres");
    admin.run("CREATE ROLE leaver; SELECT leaf_tag_grant('orders', 'leaver'); DROP ROLE leaver");
    refused(stranger.next("orders"), "42501");
    server
        .connect_as("owner", "postgres")
        .next("orders")
        .expect("the owner draws");
    admin.run("UPDATE leaf.alloc SET owner = 'ghost', grantees = '{ghost,stranger}'");
    stranger.next("orders").expect("a grantee draws");
    refused(
        server.connect_as("owner", "postgres").next("orders"),
        "42501",
    );
    draw_many(&mut admin, "orders", 1_000);
}

#[test]
fn renamed_owner_is_found_or_nobody_but_never_another() {
    let (server, mut admin) = server();
    admin.run("ALTER ROLE owner RENAME TO former");
    refused(
        server.connect_as("stranger", "postgres").next("orders"),
        "42501",
    );
    // Names are what is stored: the role that bears it now is the owner.
    admin.run("ALTER ROLE stranger RENAME TO owner");
    server
        .connect_as("owner", "postgres")
        .next("orders")
        .expect("the owner draws");
    refused(
        server.connect_as("former", "postgres").next("orders"),
        "42501",
    );
}

#[test]
fn hostile_search_path_is_not_followed() {
    let (_server, mut admin) = server();
    admin.run(
        "CREATE SCHEMA evil;
         CREATE TABLE evil.called (what text);
         CREATE TABLE evil.alloc (biz_tag text, max_id bigint, step int);
         CREATE FUNCTION evil.spy(text, text) RETURNS boolean LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO evil.called VALUES ('='); RETURN true; END $$;
         CREATE FUNCTION evil.spy(bigint, bigint) RETURNS bigint LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO evil.called VALUES ('+'); RETURN 666; END $$;
         CREATE FUNCTION evil.now() RETURNS timestamptz LANGUAGE plpgsql AS $$
         BEGIN INSERT INTO evil.called VALUES ('now'); RETURN NULL; END $$;
         CREATE OPERATOR evil.= (LEFTARG = text, RIGHTARG = text, FUNCTION = evil.spy);
         CREATE OPERATOR evil.+ (LEFTARG = bigint, RIGHTARG = bigint, FUNCTION = evil.spy);
         ALTER DATABASE postgres SET search_path = evil, public, pg_catalog;
         ALTER ROLE owner SET search_path = evil, public, pg_catalog;
         SET search_path = evil, public, pg_catalog;
         SELECT leaf_tag_create('fresh', step => 10);
         SELECT leaf_tag_alter('fresh', step => 20, advance_to => 500);
         SELECT leaf_tag_grant('fresh', 'owner')",
    );
    assert_eq!(admin.next("fresh").expect("an id"), 500);
    draw_many(&mut admin, "fresh", 300);
    admin.reserve("fresh", 30).expect("a block");
    admin.run("BEGIN; SELECT leaf_tag_create('new')");
    admin.rows("new", 3_000).expect("ids");
    admin.run("COMMIT; SELECT * FROM leaf.stat_segment; SELECT leaf_tag_drop('fresh')");
    assert_eq!(admin.number("SELECT count(*) FROM evil.called"), 0);
}

#[test]
fn trigger_of_the_tables_owner_gains_no_superuser_rights() {
    let (_server, mut admin) = server();
    admin.run(
        "CREATE ROLE keeper NOLOGIN;
         GRANT USAGE, CREATE ON SCHEMA leaf TO keeper;
         ALTER TABLE leaf.alloc OWNER TO keeper;
         SET ROLE keeper;
         CREATE TABLE leaf.seen (who name);
         CREATE FUNCTION leaf.grab() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             INSERT INTO leaf.seen VALUES (current_user);
             BEGIN
                 SET LOCAL ROLE postgres;
                 ALTER ROLE keeper SUPERUSER;
             EXCEPTION WHEN OTHERS THEN NULL;
             END;
             BEGIN
                 ALTER ROLE keeper SUPERUSER;
             EXCEPTION WHEN OTHERS THEN NULL;
             END;
             RETURN new;
         END $$;
         CREATE TRIGGER grab BEFORE UPDATE ON leaf.alloc
            FOR EACH ROW EXECUTE FUNCTION leaf.grab();
         RESET ROLE",
    );
    draw_many(&mut admin, "orders", 2_000);
    admin.reserve("orders", 10).expect("a block");
    let calls = "SELECT count(*) FROM leaf.seen";
    assert!(admin.number(calls) > 0, "the trigger ran");
    let others = "SELECT count(*) FROM leaf.seen WHERE who <> 'keeper'";
    assert_eq!(admin.number(others), 0);
    let raised = "SELECT count(*) FROM pg_roles WHERE rolname = 'keeper' AND rolsuper";
    assert_eq!(admin.number(raised), 0);
}

#[test]
fn status_is_for_monitors() {
    let (server, mut admin) = server();
    admin.run("CREATE ROLE watcher LOGIN IN ROLE pg_monitor");
    let mut watcher = server.connect_as("watcher", "postgres");
    assert_eq!(watcher.number("SELECT count(*) FROM leaf.stat_segment"), 1);
    refused(watcher.next("orders"), "42501");
    let mut stranger = server.connect_as("stranger", "postgres");
    assert_eq!(stranger.number("SELECT count(*) FROM leaf.stat_segment"), 0);
    stranger.fails("SELECT * FROM leaf.stat_snowflake", "42501");
}

#[test]
fn revoke_reaches_an_open_cursor_at_commit() {
    let (server, mut admin) = server();
    let mut stranger = server.connect_as("stranger", "postgres");
    admin.run("SELECT leaf_tag_grant('orders', 'stranger')");
    stranger.next("orders").expect("a grantee draws");
    stranger.run(
        "BEGIN;
         DECLARE c CURSOR FOR SELECT leaf_segment_next('orders') FROM generate_series(1, 50);
         FETCH 2 FROM c",
    );
    admin.run("BEGIN; SELECT leaf_tag_revoke('orders', 'stranger')");
    stranger.run("FETCH 2 FROM c");
    admin.run("COMMIT");
    refused(stranger.batch_execute("FETCH 1 FROM c"), "42501");
}

#[test]
fn revoke_reaches_a_parallel_plan_of_an_old_snapshot() {
    let (server, mut admin) = Server::with_orders(1000);
    admin.run(
        "CREATE ROLE joe LOGIN; SELECT leaf_tag_grant('orders', 'joe');
         CREATE TABLE big AS SELECT generate_series(1, 20000) AS i; GRANT SELECT ON big TO joe",
    );
    let mut joe = server.connect_as("joe", "postgres");
    joe.run(
        "SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;
         BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class",
    );
    admin.run("SELECT leaf_tag_revoke('orders', 'joe')");
    let drawn = joe.query_one("SELECT count(leaf_segment_next('orders')) FROM big", &[]);
    refused(drawn, "42501");
    joe.run("ROLLBACK");
    refused(joe.next("orders"), "42501");
}

#[test]
fn former_owner_changes_nothing_after_the_change_of_owner() {
    let (server, mut admin) = Server::with_orders(1000);
    admin.run("CREATE ROLE a LOGIN; CREATE ROLE b LOGIN; UPDATE leaf.alloc SET owner = 'a'");
    for call in [
        "leaf_tag_grant('orders', 'a')",
        "leaf_tag_alter('orders', step => 5)",
        "leaf_tag_drop('orders')",
    ] {
        admin.run("UPDATE leaf.alloc SET owner = 'a'");
        admin.run("BEGIN; UPDATE leaf.alloc SET owner = 'b'");
        let mut former = server.connect_as("a", "postgres");
        let attempt = thread::spawn(move || former.batch_execute(&format!("SELECT {call}")));
        let mut observer = server.connect();
        wait_until("the former owner waits for the row", || {
            observer.number(
                "SELECT count(*) FROM pg_stat_activity WHERE usename = 'a' AND wait_event_type = 'Lock'",
            ) == 1
        });
        admin.run("COMMIT");
        refused(attempt.join().expect("a result"), "42501");
    }
    let mut former = server.connect_as("a", "postgres");
    refused(former.next("orders"), "42501");
    assert_eq!(admin.number("SELECT step::bigint FROM leaf.alloc"), 1000);
}

#[test]
fn session_that_has_drawn_draws_no_more_once_its_role_is_not_the_owner() {
    let (server, mut admin) = Server::with_orders(1000);
    admin.run("CREATE ROLE a LOGIN; CREATE ROLE b LOGIN; UPDATE leaf.alloc SET owner = 'a'");
    let mut former = server.connect_as("a", "postgres");
    former.next("orders").expect("an id of the owner");
    admin.run("UPDATE leaf.alloc SET owner = 'b'");
    refused(former.next("orders"), "42501");
}

#[test]
fn right_that_is_revoked_in_the_transaction_that_created_the_tag_is_gone_at_once() {
    let (_server, mut admin) = Server::with_orders(1000);
    admin.run(
        "CREATE ROLE joe; BEGIN; SELECT leaf_tag_create('own'); SELECT leaf_tag_grant('own', 'joe');
         SET ROLE joe",
    );
    admin.next("own").expect("an id of the grantee");
    admin.run("RESET ROLE; SELECT leaf_tag_revoke('own', 'joe'); SET ROLE joe");
    refused(admin.next("own"), "42501");
}

#[test]
fn new_owner_of_the_database_counts_at_once() {
    let (server, mut admin) = Server::with_orders(1000);
    admin.run("CREATE ROLE a LOGIN; CREATE ROLE b LOGIN");
    admin.run("CREATE DATABASE theirs OWNER a");
    let mut theirs = server.connect_as("postgres", "theirs");
    theirs.run(
        "CREATE EXTENSION leaf; SELECT leaf_tag_create('orders');
         SELECT leaf_tag_grant('orders', 'pg_database_owner')",
    );
    let mut a = server.connect_as("a", "theirs");
    a.next("orders").expect("the owner of the database draws");
    admin.run("ALTER DATABASE theirs OWNER TO b");
    refused(a.next("orders"), "42501");
    let mut b = server.connect_as("b", "theirs");
    b.next("orders").expect("the new owner draws");
}

#[test]
fn nothing_of_a_row_is_shown_to_who_may_only_draw() {
    let (server, mut admin) = Server::with_orders(1000);
    admin.run(
        "CREATE ROLE joe LOGIN; SELECT leaf_tag_grant('orders', 'joe');
         ALTER TABLE leaf.alloc ADD CONSTRAINT broken CHECK (max_id < 2) NOT VALID",
    );
    let mut joe = server.connect_as("joe", "postgres");
    joe.run("SET leaf.wait_timeout = '500ms'");
    let error = refused(joe.next("orders"), "55P03");
    let detail = error.detail().expect("the cause");
    assert!(detail.contains("broken"), "{detail}");
    assert!(!detail.contains("postgres"), "{detail}");
}

/// Whoever gets the name later would draw.
#[test]
fn name_of_a_dropped_role_is_revoked() {
    let (_server, mut client) = Server::with_orders(1000);
    client.run(
        r#"CREATE ROLE joe; CREATE ROLE "Public";
           SELECT leaf_tag_grant('orders', 'joe'), leaf_tag_grant('orders', 'Public'), leaf_tag_grant('orders', 'PUBLIC');
           DROP ROLE joe, "Public""#,
    );
    for (role, left) in [
        ("joe", "{Public,public}"),
        ("Public", "{public}"),
        ("Public", "{}"),
    ] {
        client.run(&format!("SELECT leaf_tag_revoke('orders', '{role}')"));
        assert_eq!(client.text("SELECT grantees::text FROM leaf.alloc"), left);
    }
    let revoke = "SELECT leaf_tag_revoke('orders', 'joe')";
    refused(client.batch_execute(revoke), "42704");
    // A role that has got such a name since keeps nobody's right.
    client.run(
        r#"SELECT leaf_tag_grant('orders', 'PUBLIC');
           CREATE ROLE "PUBLIC"; SELECT leaf_tag_revoke('orders', 'PUBLIC'); DROP ROLE "PUBLIC""#,
    );
    assert_eq!(client.text("SELECT grantees::text FROM leaf.alloc"), "{}");
}

#[test]
fn owners_see_their_own_tags_and_monitors_all() {
    let (server, mut admin) = Server::with_orders(100);
    admin.run(
        "CREATE ROLE owner LOGIN; CREATE ROLE member LOGIN IN ROLE owner; CREATE ROLE grantee LOGIN;
         CREATE ROLE monitor LOGIN IN ROLE pg_monitor;
         GRANT EXECUTE ON FUNCTION leaf_tag_create TO owner; SET ROLE owner;
         SELECT leaf_tag_create('own'), leaf_tag_grant('own', 'grantee'); RESET ROLE",
    );
    let count = "SELECT count(*) FROM leaf.stat_segment";
    for (role, seen) in [("owner", 1), ("member", 1), ("grantee", 0), ("monitor", 2)] {
        let mut client = server.connect_as(role, "postgres");
        assert_eq!(client.number(count), seen, "{role}");
        let call = "SELECT leaf.segment_stats('orders', 1, 1, 1, false)";
        match role {
            "monitor" => client.run(call),
            _ => drop(refused(client.batch_execute(call), "42501")),
        }
        if role == "grantee" {
            refused(
                client.batch_execute("SELECT leaf.segment_stats('own', 1, 1, 1, false)"),
                "42501",
            );
        }
    }
    // A function that shows what it is called with is called with nothing else.
    let mut owner = server.connect_as("owner", "postgres");
    owner.run(
        "CREATE FUNCTION pg_temp.show(tag text) RETURNS boolean COST 0.0001 LANGUAGE plpgsql AS
         $$ BEGIN IF tag = 'orders' THEN RAISE 'seen'; END IF; RETURN true; END $$;
         SELECT * FROM leaf.stat_segment WHERE pg_temp.show(biz_tag)",
    );
}
