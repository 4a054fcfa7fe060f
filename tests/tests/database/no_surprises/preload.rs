//! A server that was started without leaf says so.

use leaf_tests::page::Page;
use leaf_tests::{Draw, Mode, Server, Snowflake, refused};

#[test]
fn session_without_preload_is_told_what_to_do() {
    let mut server = Server::start();
    server
        .connect()
        .run("SELECT leaf_tag_create('orders'); SELECT leaf_segment_next('orders'), leaf_snowflake_next()");
    server.configure("shared_preload_libraries = ''\n");
    server.restart(Mode::Fast);

    let mut client = server.connect();
    for _ in 0..2 {
        let error = refused(client.next("orders"), "55000");
        let hint = error.hint().unwrap_or_default();
        assert!(hint.contains("shared_preload_libraries"), "{hint}");
    }
    refused(client.batch("orders", 3), "55000");
    refused(client.reserve("orders", 3), "55000");
    for error in [
        refused(client.snowflake(), "55000"),
        refused(client.snowflakes(5), "55000"),
    ] {
        let hint = error.hint().unwrap_or_default();
        assert!(hint.contains("shared_preload_libraries"), "{hint}");
    }
    client.run("SELECT count(*) FROM leaf.alloc");

    // Loaded by hand it is no better, and does no harm.
    let mut client = server.connect();
    let _ = client.batch_execute("LOAD 'leaf'");
    refused(client.next("orders"), "55000");
    client.run("SELECT 1");
}

#[test]
fn libraries_that_alter_system_names_one_by_one_are_loaded() {
    let page = Page::read("docs/install.md");
    let blocks = page.code_tested_by("libraries_that_alter_system_names_one_by_one_are_loaded");
    let (mut server, mut client) = Server::with_orders(1000);
    client.run(blocks[0]);
    drop(client);
    server.restart(Mode::Fast);
    let mut client = server.connect();
    let loaded = client.text("SHOW shared_preload_libraries");
    assert_eq!(loaded, "pg_stat_statements, leaf");
    client.next("orders").expect("an id");
}

#[test]
fn tags_outlive_a_start_without_preload() {
    let (mut server, mut client) = Server::with_orders(1000);
    let last = client.next("orders").expect("an id");
    drop(client);
    server.configure("shared_preload_libraries = ''\n");
    server.restart(Mode::Fast);
    server.connect().run("SELECT 1");
    server.configure("shared_preload_libraries = 'leaf'\n");
    server.restart(Mode::Fast);
    assert!(server.connect().next("orders").expect("an id") > last);
}

#[test]
fn creating_the_extension_without_preload_warns_with_the_line_to_add() {
    let server = Server::options()
        .set("shared_preload_libraries", "auto_explain")
        .bare()
        .start();
    let create = |options: &str| {
        let output = server
            .program("psql")
            .args([
                "-X",
                "-c",
                &format!("CREATE EXTENSION leaf{options}"),
                "postgres",
            ])
            .output()
            .expect("psql runs");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let warning = create("");
    assert!(
        warning.contains("shared_preload_libraries = 'auto_explain, leaf'"),
        "{warning}"
    );
    // The extension is there, and works after the restart.
    assert!(create("").contains("already exists"));
}

#[test]
fn creating_the_extension_in_a_server_that_loads_it_warns_of_nothing() {
    let server = Server::options().bare().start();
    let output = server
        .program("psql")
        .args(["-X", "-c", "CREATE EXTENSION leaf", "postgres"])
        .output()
        .expect("psql runs");
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
