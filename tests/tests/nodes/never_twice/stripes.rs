//! Stripes: nodes that know nothing of each other grant different numbers.
//!
//! - [`grants`]: whatever moves a tag, it grants numbers of its stripe only.
//! - [`arguments`]: what cannot be a stripe is refused.
//! - [`fed`]: stripes of centres, and of the tags that they feed.
//! - [`load`]: several nodes draw at the same time.
//! - [`replication`]: rows of other nodes do not change those of this one.

mod arguments;
mod fed;
mod grants;
mod load;
mod replication;

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Server, Stop};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A stripe, with blocks of [`WIDTH`].
#[derive(Clone, Copy, Debug)]
struct Stripe {
    stripes: i64,
    stripe: i64,
}

/// Numbers in a block.
const WIDTH: i64 = 100;

impl Stripe {
    fn of(stripes: i64, stripe: i64) -> Stripe {
        Stripe { stripes, stripe }
    }

    fn has(&self, id: i64) -> bool {
        id.div_euclid(WIDTH).rem_euclid(self.stripes) == self.stripe
    }

    /// Its numbers, from one on.
    fn from(self, start: i64) -> impl Iterator<Item = i64> {
        (start..).filter(move |&id| self.has(id))
    }

    /// The arguments of `leaf_tag_create`.
    fn arguments(&self) -> String {
        let Stripe { stripes, stripe } = self;
        format!("stripes => {stripes}, stripe => {stripe}, stripe_width => {WIDTH}")
    }

    /// Creates the tag `orders` in the database of a session.
    fn create(&self, client: &mut Client, more: &str) {
        let arguments = self.arguments();
        client.run(&format!(
            "SELECT leaf_tag_create('orders', step => 30, {arguments} {more})"
        ));
    }
}

/// A server with the tag `orders` of stripe 1 of 4.
fn striped() -> (Server, Client) {
    let server = Server::options().set("leaf.max_step", "1000").start();
    let mut client = server.connect();
    Stripe::of(4, 1).create(&mut client, "");
    (server, client)
}

/// A database of a server, which is a node of its own.
fn node(server: &Server, name: &str) -> Client {
    server.connect().run(&format!("CREATE DATABASE {name}"));
    let mut client = server.connect_as("postgres", name);
    client.run("CREATE EXTENSION leaf");
    client
}

/// Which node has drawn an id.
#[derive(Default)]
struct Drawn(Mutex<HashMap<i64, String>>);

impl Drawn {
    /// Enters ids; panics if one is there already.
    fn add(&self, node: &str, ids: impl IntoIterator<Item = i64>) {
        let mut drawn = self.0.lock().expect("no panic");
        for id in ids {
            if let Some(other) = drawn.insert(id, node.to_owned()) {
                panic!("{id} was drawn of {other} and of {node}");
            }
        }
    }

    /// The largest id that a node has drawn.
    fn highest(&self, node: &str) -> i64 {
        let drawn = self.0.lock().expect("no panic");
        let of_node = drawn.iter().filter(|(_, of)| of.as_str() == node);
        of_node.map(|(&id, _)| id).max().unwrap_or(i64::MIN)
    }

    /// Draws of all nodes, each a database of a server, while `then` runs.
    fn draw_of(&self, nodes: &[(&Server, &str)], then: impl FnOnce()) {
        let done = AtomicBool::new(false);
        thread::scope(|scope| {
            let _stop = Stop(&done);
            for &(server, name) in nodes {
                let done = &done;
                scope.spawn(move || {
                    let _stop = Stop(done);
                    let mut client = server.connect_as("postgres", name);
                    for call in 0.. {
                        let ids = match call % 3 {
                            0 => client.next("orders").map(|id| vec![id]),
                            1 => client.batch("orders", 7),
                            _ => client.reserve("orders", 12).map(|it| it.ids().collect()),
                        };
                        self.add(name, ids.expect("ids"));
                        if done.load(Ordering::Relaxed) {
                            break;
                        }
                    }
                });
            }
            then();
        });
    }
}
