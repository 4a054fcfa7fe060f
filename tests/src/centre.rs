//! A centre and the shards whose tags it feeds.

use crate::server::Options;
use crate::{Draw, Relay, Server};
use std::time::Duration;

/// A server that feeds others, with the role `shard` for them.
pub struct Centre(pub Server);

impl Centre {
    /// A centre without a standby, which is allowed here.
    pub fn start() -> Centre {
        Centre::of(Server::options())
    }

    /// The same with other options.
    pub fn of(options: Options) -> Centre {
        let server = options
            .set("leaf.allow_unreplicated_centre", "on")
            .set("leaf.prefetch_threshold", "50")
            .start();
        Centre::on(server)
    }

    /// Makes a server a centre.
    pub fn on(server: Server) -> Centre {
        server.connect().run(
            "CREATE ROLE shard LOGIN;
             GRANT EXECUTE ON FUNCTION leaf_worker_register, leaf_worker_renew TO shard",
        );
        Centre(server)
    }

    /// Creates a tag that the shards can be fed from.
    pub fn create(&self, tag: &str, arguments: &str) {
        self.0.connect().run(&format!(
            "SELECT leaf_tag_create('{tag}'{arguments}); SELECT leaf_tag_grant('{tag}', 'shard')"
        ));
    }

    /// How a shard reaches it.
    pub fn upstream(&self) -> String {
        let (host, port) = (self.0.host(), self.0.port());
        format!("host={host} port={port} user=shard dbname=postgres")
    }

    /// A relay to this centre, and the options of a shard that knows only the relay.
    pub fn behind_relay(&self) -> (Relay, Options) {
        let relay = Relay::start(&self.0, Duration::ZERO);
        let (host, port) = relay.address();
        let upstream = format!("host={host} port={port} user=shard dbname=postgres");
        let options = Server::options().set("leaf.upstream", &upstream);
        (relay, options)
    }

    /// A shard of this centre.
    pub fn shard(&self) -> Server {
        self.shard_with(Server::options())
    }

    /// The same with other options.
    pub fn shard_with(&self, options: Options) -> Server {
        options
            .set("leaf.upstream", &self.upstream())
            .set("leaf.upstream_timeout", "2s")
            .start()
    }
}

/// Creates a fed tag at a shard.
pub fn attach(shard: &Server, tag: &str, step: u32) {
    shard.connect().run(&format!(
        "SELECT leaf_tag_create('{tag}', step => {step}); SELECT leaf_tag_attach('{tag}')"
    ));
}
