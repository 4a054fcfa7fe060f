//! Databases that are dropped and renamed.

use crate::never_twice::workers::worker;
use leaf_tests::{Draw, Server, Snowflake};

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
