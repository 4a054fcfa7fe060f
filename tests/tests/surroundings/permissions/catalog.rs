//! Row-level security of leaf's tables.

use leaf_tests::{Draw, Ledger, Server, Snowflake, refused};

#[test]
fn row_level_security_keeps_nobody_from_drawing() {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run(
        "CREATE ROLE joe LOGIN;
         SELECT leaf_tag_create('orders', step => 10); SELECT leaf_tag_grant('orders', 'joe')",
    );
    let mut joe = server.connect_as("joe", "postgres");
    let mut ledger = Ledger::new();
    for statement in [
        "ALTER TABLE leaf.alloc ENABLE ROW LEVEL SECURITY",
        "ALTER TABLE leaf.worker ENABLE ROW LEVEL SECURITY",
        // Superusers are exempt, owners too or not.
        "ALTER TABLE leaf.alloc FORCE ROW LEVEL SECURITY",
        "ALTER DATABASE postgres SET row_security = off",
    ] {
        admin.run(statement);
        ledger.add(joe.batch("orders", 500).expect("a grantee draws"));
        ledger.add(joe.reserve("orders", 5).expect("a grantee draws").ids());
        joe.snowflake().expect("everybody draws");
    }
    admin.run("SELECT leaf_tag_alter('orders', step => 20); SELECT leaf_tag_drop('orders')");
    assert_eq!(admin.number("SELECT count(*) FROM leaf.alloc"), 0);
}

/// Where policies do apply to the owner of the tables, nothing is done in part.
#[test]
fn row_level_security_of_the_owner_is_an_error_and_never_silence() {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run(
        "CREATE ROLE keeper;
         GRANT USAGE, CREATE ON SCHEMA leaf TO keeper;
         ALTER TABLE leaf.alloc OWNER TO keeper;
         SELECT leaf_tag_create('orders', step => 10);
         ALTER TABLE leaf.alloc ENABLE ROW LEVEL SECURITY;
         ALTER TABLE leaf.alloc FORCE ROW LEVEL SECURITY;
         SET leaf.wait_timeout = '300ms'",
    );
    let error = refused(admin.next("orders"), "55P03");
    let detail = error.detail().unwrap_or_default();
    assert!(detail.contains("row-level security"), "{error:?}");
    for call in [
        "leaf_tag_create('other')",
        "leaf_tag_alter('orders', step => 5)",
        "leaf_tag_grant('orders', 'keeper')",
        "leaf_tag_drop('orders')",
    ] {
        admin.fails(&format!("SELECT {call}"), "42501");
    }
    // The next attempt of the loader may come later than 300 ms.
    admin.run("ALTER TABLE leaf.alloc NO FORCE ROW LEVEL SECURITY; RESET leaf.wait_timeout");
    assert_eq!(admin.next("orders").expect("an id"), 1);
    admin.run("SELECT leaf_tag_drop('orders')");
    refused(admin.next("orders"), "42704");
}
