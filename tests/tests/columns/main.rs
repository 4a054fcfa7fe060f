//! Columns whose values came from a sequence: taken over, and given back.

mod adopt;
mod frontier;
mod load;
mod owners;
mod release;
mod sequences;

use leaf_tests::postgres::Client;
use leaf_tests::{Draw, Server};

/// A server with the roles `app`, who may create tags and owns schema `app`, and `clerk`; and
/// a session of each and of the superuser.
struct World {
    server: Server,
    admin: Client,
    app: Client,
    clerk: Client,
}

impl World {
    fn new() -> World {
        let server = Server::start();
        let mut admin = server.connect();
        admin.run(
            "CREATE ROLE app LOGIN; CREATE ROLE clerk LOGIN;
             GRANT EXECUTE ON FUNCTION leaf_tag_create TO app;
             CREATE SCHEMA app AUTHORIZATION app; GRANT USAGE ON SCHEMA app TO clerk;
             ALTER ROLE app SET search_path = app, public;
             ALTER ROLE clerk SET search_path = app, public",
        );
        World {
            app: server.connect_as("app", "postgres"),
            clerk: server.connect_as("clerk", "postgres"),
            admin,
            server,
        }
    }
}

/// Inserts a row into `orders` and returns its id.
fn insert(client: &mut Client) -> i64 {
    client.number("INSERT INTO orders DEFAULT VALUES RETURNING id::bigint")
}
