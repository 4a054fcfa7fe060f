//! Ctrl-C, and readers that go away: nothing is left behind.

use leaf_tests::{Draw, Server, Signal, leafctl_in_terminal, leafctl_on, signal, wait_until};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn interrupted_statement_is_cancelled_and_changes_nothing() {
    let (server, mut client) = Server::with_orders(100);
    client.run("CREATE TABLE orders (id bigint)");
    let mut locker = server.connect();
    let mut holding = locker.transaction().expect("a transaction");
    holding.execute("LOCK TABLE orders", &[]).expect("a lock");
    let mut command = leafctl_on(&server);
    command
        .args(["tags", "adopt", "orders", "id", "adopted"])
        .env("PGOPTIONS", "-c lock_timeout=0")
        .stderr(Stdio::piped());
    let child = command.spawn().expect("leafctl starts");
    let adopting = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'SELECT %.leaf_column_adopt(%' AND state = 'active' AND pid <> pg_backend_pid()";
    wait_until("the statement runs", || client.number(adopting) == 1);
    signal(child.id() as i32, Signal::SIGINT);
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    // While the lock is still held.
    wait_until("the server has stopped working on it", || {
        client.number("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'leafctl'")
            == 0
    });
    holding.rollback().expect("it ends");
    let adopted = "SELECT count(*) FROM leaf.alloc WHERE biz_tag = 'adopted'";
    assert_eq!(client.number(adopted), 0);
    let default = "SELECT count(*) FROM pg_attrdef WHERE adrelid = 'orders'::regclass";
    assert_eq!(client.number(default), 0);
}

#[test]
fn what_takes_longer_than_a_second_shows_that_it_goes_on_at_a_terminal() {
    let (server, mut client) = Server::with_orders(100);
    client.run("CREATE TABLE orders (id bigint)");
    let mut locker = server.connect();
    let mut holding = locker.transaction().expect("a transaction");
    holding.execute("LOCK TABLE orders", &[]).expect("a lock");
    let adopt = "tags adopt orders id -d options='-clock_timeout=0'";
    let terminal = leafctl_in_terminal(&server, adopt, 80, 10);
    terminal.wait_for("adopting the column");
    terminal.keys(&["C-c"]);
    terminal.wait_for("exit 130");
    holding.rollback().expect("it ends");
}

#[test]
fn watched_status_comes_again_until_it_is_interrupted() {
    let (server, mut client) = Server::with_orders(100);
    let mut command = leafctl_on(&server);
    command
        .args(["status", "--watch=100ms", "orders"])
        .stdout(Stdio::piped());
    let mut child = command.spawn().expect("leafctl starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut position_is = |position: &str| {
        lines
            .by_ref()
            .map_while(Result::ok)
            .any(|line| line.starts_with(" orders") && line.contains(&format!(" {position} ")))
    };
    assert!(position_is("1"));
    client.next("orders").expect("an id");
    assert!(position_is("2"));
    signal(child.id() as i32, Signal::SIGINT);
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
}
