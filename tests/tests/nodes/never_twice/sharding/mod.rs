//! Sharding as people do it, with the statements of the manual's "Sharding, worked".
//!
//! - [`pairs`]: a second pair of servers.
//! - [`partitions`]: one table over three servers.
//! - [`plproxy`]: functions that run where a customer's rows are.
//! - [`replication`]: two primaries that replicate to each other.
//! - [`split`]: a shard becomes two.

mod pairs;
mod partitions;
mod plproxy;
mod replication;
mod split;

use leaf_tests::page::Page;
use leaf_tests::postgres::Client;
use leaf_tests::{Centre, Draw, Options, Server, attach};

/// Where the numbers of the servers come from.
#[derive(Clone, Copy)]
enum Numbers {
    /// Each has a stripe of its own, of 64.
    Stripes,
    /// All are fed by one centre.
    Fed,
}

/// So many servers with the tag `orders`. If there is a centre, it is one of its own.
fn nodes<const N: usize>(
    numbers: Numbers,
    options: impl Fn() -> Options,
) -> (Option<Centre>, [Server; N]) {
    let options = || options().fresh();
    match numbers {
        Numbers::Stripes => {
            let servers = std::array::from_fn(|stripe| {
                let server = options().start();
                server.connect().run(&format!(
                    "SELECT leaf_tag_create('orders', step => 50, stripes => 64, stripe => {stripe})"
                ));
                server
            });
            (None, servers)
        }
        Numbers::Fed => {
            let centre = Centre::start();
            centre.create("orders", "");
            let servers = std::array::from_fn(|_| {
                let server = centre.shard_with(options());
                attach(&server, "orders", 50);
                server
            });
            (Some(centre), servers)
        }
    }
}

/// The blocks of SQL of the manual that a test runs, in their order.
fn manual(test: &str) -> Vec<String> {
    let page = Page::read("docs/nodes/sharding.md");
    let blocks = page.code_tested_by(test);
    blocks.into_iter().map(str::to_owned).collect()
}

/// Runs a block of the manual, in which hosts, and the database and role `shop`, have the
/// manual's names.
fn run(client: &mut Client, block: &str, hosts: &[(&str, &Server)]) {
    let mut block = block.replace("'shop'", "'postgres'");
    for (name, server) in hosts {
        block = block.replace(
            &format!("host '{name}'"),
            &format!("host '{}'", server.host()),
        );
        let connection = format!("'host={name} dbname=shop user=shop'");
        block = block.replace(&connection, &format!("'{}'", server.connection_string()));
    }
    // One statement at a time: CREATE SUBSCRIPTION runs outside of transactions.
    for statement in block.split_inclusive(";\n") {
        client.run(statement);
    }
}
