//! From one edition to the other, as the page says.

use std::path::Path;
use std::process::Command;

use leaf_sdk::{Config, IdSource, Leaf};
use leaf_tests::page::Page;
use leaf_tests::{Draw, INSTALLER, Ledger, Said, Server, failed, reserve_by_call};

use crate::reserve;

/// The code of the block of the page with this text.
fn block(text: &str) -> String {
    let page = Page::read("docs/managed-hosts.md");
    let block = page.blocks.into_iter().find(|it| it.code.contains(text));
    block.expect("a block").code
}

/// Runs lines of the page, with the connection strings of source and target.
fn run_as_the_page_says(lines: &str, source: &Server, target: &Server) {
    let psql = source.program("psql");
    let programs = Path::new(psql.get_program()).parent().expect("a folder");
    let folder = tempfile::tempdir().expect("a folder");
    let said = Said::by(
        Command::new("bash")
            .args(["-euc", lines])
            .current_dir(&folder)
            .env("PATH", format!("{}:/usr/bin:/bin", programs.display()))
            .env("SOURCE", source.connection_string())
            .env("TARGET", target.connection_string()),
    );
    assert_eq!(said.code, Some(0), "{}", said.err);
}

/// How a service connects.
fn of_service(server: &Server) -> Leaf {
    let connection = server
        .connection_string()
        .replace("user=postgres", "user=checkout");
    Leaf::new(Config::new(&connection).expect("a connection string")).expect("a handle")
}

#[test]
fn rows_go_on_in_the_library_and_come_back() {
    let plain = Server::options().plain().fresh().start();
    let library = Server::options().fresh().start();
    let back = Server::options().plain().fresh().start();
    for server in [&library, &back] {
        server.connect().run("CREATE ROLE checkout LOGIN");
    }
    plain
        .connect()
        .run(&format!("ALTER ROLE {INSTALLER} CREATEROLE"));
    let mut owner = plain.connect_as(INSTALLER, "postgres");
    owner.run(&block(
        "GRANT EXECUTE ON ALL ROUTINES IN SCHEMA leaf TO checkout",
    ));
    let mut ids = Ledger::new();
    let service = of_service(&plain);
    let orders = service.segment("orders");
    ids.add((0..1500).map(|_| orders.next().expect("an id").get()));
    reserve(&mut plain.connect(), "orders", 5000, &mut ids);
    owner.run("CALL leaf_worker_register('node')");

    // Its buffers are the service's, whatever becomes of the row.
    run_as_the_page_says(&block("leaf-rows.sql"), &plain, &library);
    ids.add((0..100).map(|_| orders.next().expect("an id").get()));
    failed(
        reserve_by_call(&mut plain.connect_as("checkout", "postgres"), "orders", 1),
        "42501",
    );
    let mut moved = library.connect_as("checkout", "postgres");
    ids.add(moved.batch("orders", 3000).expect("ids"));
    ids.add(moved.reserve("orders", 100).expect("a block").ids());
    let service = of_service(&library);
    let orders = service.segment("orders");
    ids.add((0..1500).map(|_| orders.next().expect("an id").get()));
    service.close().expect("the server answers");
    moved.run("SELECT leaf_snowflake_next()");

    run_as_the_page_says(&block("leaf-rows-back.sql"), &library, &back);
    let mut client = back.connect_as(INSTALLER, "postgres");
    for _ in 0..5 {
        reserve(&mut client, "orders", 1000, &mut ids);
    }
    // The worker ids of before are not free here.
    let used = client.numbers("SELECT worker_id::bigint FROM leaf.worker");
    let row = client
        .query_one("CALL leaf_worker_register('node')", &[])
        .expect("a lease");
    assert!(
        !used.contains(&row.get::<_, i32>("worker_id").into()),
        "{used:?}"
    );
}
