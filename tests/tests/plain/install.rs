//! Installing the plain edition, bringing it up to date, and removing it; and who may use it.

use leaf_tests::page::Page;
use leaf_tests::{Draw, INSTALLER, Ledger, Said, Server, failed, leafctl_on, reserve_by_call};

use crate::reserve;

fn leafctl(server: &Server, user: &str, arguments: &str) -> Said {
    let mut leafctl = leafctl_on(server);
    Said::by(leafctl.env("PGUSER", user).args(arguments.split(' ')))
}

/// A server without leaf, whose database `postgres` belongs to a role without superuser.
fn without_leaf() -> Server {
    let server = Server::options().plain().bare().start();
    server.connect().run(&format!(
        "CREATE ROLE {INSTALLER} LOGIN; ALTER DATABASE postgres OWNER TO {INSTALLER}"
    ));
    server
}

const NOTHING: &str = "SELECT (SELECT count(*) FROM pg_namespace WHERE nspname = 'leaf')
                            + (SELECT count(*) FROM pg_proc WHERE proname LIKE 'leaf%')
                            + (SELECT count(*) FROM pg_class WHERE relname LIKE 'leaf%')";

#[test]
fn upgraded_keeps_rows_and_grants_and_removed_leaves_nothing() {
    let server = without_leaf();
    let mut client = server.connect_as(INSTALLER, "postgres");
    assert!(
        leafctl(&server, INSTALLER, "plain upgrade")
            .failed(1)
            .contains("not installed")
    );
    leafctl(&server, INSTALLER, "plain install").done();
    server.connect().run("CREATE ROLE shop LOGIN");
    client.run(
        "SELECT leaf_tag_create('orders'); GRANT EXECUTE ON ALL ROUTINES IN SCHEMA leaf TO shop;
                GRANT EXECUTE ON ROUTINE leaf_segment_reserve TO shop",
    );
    let mut ids = Ledger::new();
    reserve(&mut client, "orders", 100, &mut ids);
    assert!(
        leafctl(&server, INSTALLER, "plain install")
            .failed(1)
            .contains("already exists")
    );
    client.run("ALTER TABLE leaf.alloc DISABLE TRIGGER leaf_check; ALTER FUNCTION leaf.grant_block SET lock_timeout = 0");
    leafctl(&server, INSTALLER, "plain upgrade").done();
    let mut shop = server.connect_as("shop", "postgres");
    // The trigger is another one: rows may have come past it.
    assert!(reserve(&mut shop, "orders", 100, &mut ids) > 101);
    client.fails("UPDATE leaf.alloc SET max_id = 1", "22023");
    assert_eq!(
        client.number("SELECT count(*) FROM pg_proc WHERE proconfig @> '{lock_timeout=0}'"),
        0
    );

    let said = leafctl(&server, INSTALLER, "plain uninstall").failed(1);
    assert!(said.contains("such as \"orders\""), "{said}");
    client.run("SELECT leaf_tag_drop('orders')");
    client.run("CALL leaf_worker_register('checkout')");
    let said = leafctl(&server, INSTALLER, "plain uninstall").failed(1);
    assert!(said.contains("node \"checkout\" may issue"), "{said}");
    client.run("DELETE FROM leaf.worker");
    client.run("CREATE SCHEMA own; CREATE FUNCTION own.leaf_snowflake_time(text) RETURNS int LANGUAGE sql RETURN 1");
    leafctl(&server, INSTALLER, "plain uninstall").done();
    client.run("SELECT own.leaf_snowflake_time('it is not leaf''s'); DROP SCHEMA own CASCADE");
    assert_eq!(client.number(NOTHING), 0);
}

#[test]
fn script_that_is_shown_installs_in_psql_in_a_schema_of_any_name() {
    let server = without_leaf();
    let mut client = server.connect_as(INSTALLER, "postgres");
    client.run("CREATE SCHEMA \"My ids\"");
    let mut shown = leafctl_on(&server);
    let script =
        Said::by(shown.args(["plain", "install", "--schema", "My ids", "--dry-run"])).done();
    let mut psql = server.program("psql");
    psql.args(["-h", &server.host(), "-U", INSTALLER, "-d", "postgres"]);
    psql.args(["-q", "-1", "-v", "ON_ERROR_STOP=1"]);
    Said::by_with(&mut psql, script).done();
    leafctl(&server, INSTALLER, "plain upgrade").done();
    client.run("SET search_path = \"My ids\"; SELECT leaf_tag_create('orders')");
    reserve(&mut client, "orders", 10, &mut Ledger::new());
    leafctl(&server, INSTALLER, "tags create parcels").done();
    assert_eq!(client.number("SELECT count(*) FROM leaf.alloc"), 2);
    for arguments in ["status", "tags list", "doctor"] {
        let said = leafctl(&server, INSTALLER, arguments).done();
        assert!(arguments == "doctor" || said.contains("parcels"), "{said}");
    }
    client.run("SELECT leaf_tag_drop('orders'), leaf_tag_drop('parcels')");
    client.run("CREATE SCHEMA own; CREATE FUNCTION own.leaf_snowflake_time(text) RETURNS int LANGUAGE sql RETURN 1");
    leafctl(&server, INSTALLER, "plain uninstall").done();
    client.run("SELECT own.leaf_snowflake_time('it is not leaf''s'); DROP SCHEMA own CASCADE");
    assert_eq!(client.number(NOTHING), 0);
}

/// Some hosts grant whatever is created in `public` to roles that have not logged in.
#[test]
fn default_privileges_give_nothing_away() {
    let server = without_leaf();
    let mut client = server.connect();
    client.run(&format!(
        "CREATE ROLE stranger LOGIN;
         ALTER DEFAULT PRIVILEGES FOR ROLE {INSTALLER} IN SCHEMA public GRANT ALL ON FUNCTIONS TO stranger;
         ALTER DEFAULT PRIVILEGES FOR ROLE {INSTALLER} GRANT ALL ON TABLES TO stranger;
         ALTER DEFAULT PRIVILEGES FOR ROLE {INSTALLER} GRANT ALL ON SCHEMAS TO stranger"
    ));
    leafctl(&server, INSTALLER, "plain install").done();
    client.run("SELECT leaf_tag_create('orders')");
    let mut stranger = server.connect_as("stranger", "postgres");
    for statement in [
        "CALL leaf_segment_reserve('orders', 1)",
        "CALL leaf_worker_register('node')",
        "SELECT leaf_tag_create('parcels')",
        "SELECT leaf_tag_incarnation('orders')",
        "SELECT leaf_new_history()",
        "SELECT leaf.grant_block('orders', 1, NULL)",
        "SELECT count(*) FROM leaf.alloc",
        "UPDATE leaf.plain SET history_skip = 0",
        "CREATE TABLE leaf.own (id int)",
    ] {
        stranger.fails(statement, "42501");
    }
    let others = "SELECT count(*) FROM pg_proc AS p, aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) AS a
                   WHERE (p.proname LIKE 'leaf%' OR p.pronamespace = 'leaf'::regnamespace) AND a.grantee <> p.proowner";
    assert_eq!(client.number(others), 0);
}

/// The two groups of grants of the page.
#[test]
fn services_and_administrators_get_what_the_page_grants_and_no_more() {
    let server = Server::options().plain().start();
    let grants = Page::read("docs/managed-hosts.md")
        .blocks
        .into_iter()
        .map(|it| it.code);
    let grants: Vec<_> = grants
        .filter(|code| code.contains("GRANT EXECUTE") && !code.contains("psql"))
        .collect();
    server.connect().run(&format!(
        "ALTER ROLE {INSTALLER} CREATEROLE; CREATE ROLE clerk LOGIN"
    ));
    let mut owner = server.connect_as(INSTALLER, "postgres");
    for group in &grants {
        owner.run(group);
    }
    let mut service = server.connect_as("checkout", "postgres");
    reserve(&mut service, "orders", 10, &mut Ledger::new());
    service.run("CALL leaf_worker_register('node')");
    service.run(
        "SELECT leaf_tag_incarnation('orders'), leaf_snowflake_decode(1);
         SELECT leaf_snowflake_time(leaf_snowflake_floor(now()))",
    );
    let of_administrators = [
        "SELECT leaf_tag_create('parcels')",
        "SELECT leaf_tag_alter('orders', step => 5)",
        "SELECT leaf_tag_drop('parcels')",
        "SELECT leaf_new_history()",
        "SELECT count(*) FROM leaf.alloc",
        "UPDATE leaf.plain SET history_skip = 20",
    ];
    let mut clerk = server.connect_as("clerk", "postgres");
    for statement in of_administrators {
        service.fails(statement, "42501");
        clerk.run(statement);
    }
    failed(reserve_by_call(&mut clerk, "orders", 1), "42501");
    for arguments in ["status", "tags list"] {
        assert!(
            leafctl(&server, "clerk", arguments)
                .done()
                .contains("orders")
        );
    }
}

/// As a restore of the public schema alone, or a wrong database, would do.
#[test]
fn install_leaves_what_is_there_alone() {
    let server = without_leaf();
    let mut client = server.connect();
    client.run("CREATE SCHEMA leaf; CREATE TABLE leaf.own (id int)");
    leafctl(&server, INSTALLER, "plain install").failed(1);
    leafctl(&server, INSTALLER, "plain uninstall").failed(1);
    assert_eq!(client.number("SELECT count(*) FROM leaf.own"), 0);
}
