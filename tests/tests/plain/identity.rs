//! Which database and history the tables are of, as far as the host shows it.

use leaf_tests::{Draw, INSTALLER, Server, failed};

#[test]
fn timeline_that_a_host_hides_for_a_while_is_known_afterwards() {
    let server = Server::options().plain().start();
    let mut superuser = server.connect();
    let shown = "EXECUTE ON FUNCTION pg_walfile_name(pg_lsn)";
    let mut client = server.connect_as(INSTALLER, "postgres");
    client.run("SELECT leaf_tag_create('orders')");
    superuser.run(&format!("REVOKE {shown} FROM PUBLIC"));
    drop(client);
    let history = "SELECT history FROM leaf.alloc";
    let mut client = server.connect_as(INSTALLER, "postgres");
    client.reserve("orders", 10).expect("a block");
    assert!(superuser.text(history).starts_with("plain/?/"));
    superuser.run(&format!("GRANT {shown} TO PUBLIC"));
    client.reserve("orders", 10).expect("a block");
    assert!(superuser.text(history).starts_with("plain/00000001/"));
}

/// Each time that it seems so, a tag skips numbers, which a standby that lags does not know.
#[test]
fn timeline_is_not_hidden_by_what_passes() {
    let (server, _) = Server::options().plain().start_with_orders(1000);
    let mut superuser = server.connect();
    for (function, answer) in [
        ("pg_walfile_name(pg_lsn)", "text"),
        (
            "pg_control_system()",
            "TABLE (system_identifier bigint, pg_control_version integer)",
        ),
    ] {
        superuser.run(&format!("ALTER FUNCTION {function} RENAME TO shown"));
        // Locked catalogs, no space on the stack or in memory, a deadlock, a disk that fails.
        for code in [
            "55P03", "54001", "53200", "40P01", "40001", "57P05", "58030",
        ] {
            superuser.run(&format!(
                "CREATE OR REPLACE FUNCTION pg_catalog.{function} RETURNS {answer} LANGUAGE plpgsql
                     AS $$ BEGIN RAISE SQLSTATE '{code}'; END $$"
            ));
            failed(server.connect().reserve("orders", 10), code);
        }
        superuser.run(&format!("DROP FUNCTION pg_catalog.{function}"));
        let (name, arguments) = function.split_once('(').expect("arguments");
        superuser.run(&format!(
            "ALTER FUNCTION shown({arguments} RENAME TO {name}"
        ));
    }
    server.connect().reserve("orders", 10).expect("a block");
}
