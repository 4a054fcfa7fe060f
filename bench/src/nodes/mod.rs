//! A centre with a synchronous standby, and the shards that it feeds, all on this machine.

mod connection;
mod grants;
mod shards;
mod simulation;

use leaf_tests::postgres::Client;
use leaf_tests::{Centre, Draw, Server, wait_until};

use crate::Works;
use crate::report::Texts;
use crate::runs::Runs;

/// The settings of the centre that differ from PostgreSQL's defaults: one that has many shards
/// and lies on a machine with other servers.
pub const SETTINGS: [(&str, &str); 6] = [
    ("shared_buffers", "64MB"),
    ("max_wal_size", "4GB"),
    ("checkpoint_timeout", "30min"),
    ("jit", "off"),
    ("max_connections", "1100"),
    ("statement_timeout", "0"),
];

/// What the report says around its tables.
pub const TEXTS: Texts = Texts {
    head: "# A centre and its shards\n\nWritten by `make bench-nodes`. The centre, its synchronous standby, \
        the shards and those who call them share one machine. Each ratio is the first figure divided by the other \
        one: the median of all pairs of runs, with the lowest and the highest. Bounds are our own targets; NO is a \
        target that was missed.",
    sides: ["figure", "other"],
    titles: ["Ratios", "How long one call takes", "Other figures"],
};

/// What is measured.
pub const WORKS: &Works<Nodes> = &[
    ("grants at the centre", grants::at_the_centre),
    ("feeds seen by shards", shards::latency),
    ("fed tag against local tag", shards::fed_against_local),
    ("simulation", simulation::of_a_thousand_shards),
];
/// The tags of the centre: `tag_0` and so on.
const TAGS: usize = 100;

/// The servers, and how much is measured.
pub struct Nodes {
    pub centre: Centre,
    /// Confirms each commit of the centre.
    _standby: Server,
    /// Started when they are measured.
    shards: Vec<Server>,
    pub runs: Runs,
}

impl Nodes {
    /// Starts the centre with its standby, and creates the tags.
    pub fn start(runs: Runs) -> Self {
        let options = SETTINGS
            .iter()
            .fold(Server::options(), |options, (name, value)| {
                options.set(name, value)
            })
            .set("leaf.lossless_failover", "on");
        let centre = Centre::on(options.start());
        for tag in 0..TAGS {
            centre.create(&tag_name(tag), "");
        }
        // Shards with roles of their own would need no more than one lease each.
        let mut client = centre.0.connect();
        client.run("ALTER ROLE shard SET leaf.max_leases = 10000");
        let standby = Server::options().start_standby_of(&centre.0);
        centre.0.reload("synchronous_standby_names", "*");
        wait_until("the standby confirms commits", || {
            client.number("SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'") == 1
        });
        Nodes {
            centre,
            _standby: standby,
            shards: Vec::new(),
            runs,
        }
    }

    /// That many shards, with a fed tag, `fed`, and a local one, `local`.
    fn shards(&mut self, count: usize) -> &[Server] {
        while self.shards.len() < count {
            let shard = self.centre.shard_with(Server::options());
            create_tags(&mut shard.connect());
            self.shards.push(shard);
        }
        &self.shards[..count]
    }

    /// Sessions in that many databases of a shard, with the same tags.
    fn databases(&mut self, count: usize) -> Vec<Client> {
        let shard = &self.shards(1)[0];
        let mut sessions = vec![shard.connect()];
        for number in 1..count {
            let name = format!("database_{number}");
            let exists = format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'");
            let is_new = sessions[0].number(&exists) == 0;
            if is_new {
                sessions[0].run(&format!("CREATE DATABASE {name}"));
            }
            let mut session = shard.connect_as("postgres", &name);
            if is_new {
                session.run("CREATE EXTENSION leaf");
                create_tags(&mut session);
            }
            sessions.push(session);
        }
        sessions
    }

    /// How many transactions that write the centre has begun so far.
    fn transactions(&self) -> i64 {
        let begun = "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint";
        self.centre.0.connect().number(begun)
    }
}

fn create_tags(client: &mut Client) {
    client.run(&format!(
        "SELECT leaf_tag_create('local'), leaf_tag_create('fed');
         SELECT leaf_tag_attach('fed', '{}')",
        tag_name(0)
    ));
}

fn tag_name(number: usize) -> String {
    format!("tag_{number}")
}
