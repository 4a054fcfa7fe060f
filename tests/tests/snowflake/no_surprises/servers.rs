//! Standbys, servers without leaf, and databases that are dropped and renamed.

use crate::drawing::server;
use crate::never_twice::workers::worker;
use leaf_tests::{Draw, Mode, Server, Snowflake, refused};

#[test]
fn standby_draws_nothing() {
    let (primary, mut client) = server();
    let id = client.snowflake().expect("an id");
    let standby = Server::options().start_standby_of(&primary);
    standby.catch_up_with(&primary);
    let mut reader = standby.connect();
    refused(reader.snowflake(), "25006");
    refused(reader.snowflakes(5), "25006");
    assert_eq!(reader.parts(id), client.parts(id));
    assert_eq!(reader.snowflake_stat::<i32>("worker_id"), None);
}

#[test]
fn session_without_preload_is_told_what_to_do() {
    let (mut server, mut client) = server();
    client.snowflake().expect("an id");
    drop(client);
    server.configure("shared_preload_libraries = ''\n");
    server.restart(Mode::Fast);
    let mut client = server.connect();
    for _ in 0..2 {
        for error in [
            refused(client.snowflake(), "55000"),
            refused(client.snowflakes(5), "55000"),
        ] {
            let hint = error.hint().unwrap_or_default();
            assert!(hint.contains("shared_preload_libraries"), "{hint}");
        }
    }
}

#[test]
fn database_that_draws_snowflakes_can_be_dropped_and_renamed() {
    let server = Server::start();
    let mut admin = server.connect();
    admin.run("CREATE DATABASE work");
    let mut work = server.connect_as("postgres", "work");
    work.run("CREATE EXTENSION leaf");
    work.snowflakes(5_000).expect("ids");
    drop(work);
    admin.run("ALTER DATABASE work RENAME TO office");
    let mut office = server.connect_as("postgres", "office");
    assert_eq!(worker(&mut office), 0);
    drop(office);
    admin.run("DROP DATABASE office");
}
