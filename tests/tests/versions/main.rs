//! The version that is tested beside an earlier one, whose library, scripts and `leafctl` are in the
//! folder `LEAF_EARLIER`; `scripts/test-versions` puts them there.

use leaf_tests::postgres::Client;
use leaf_tests::{
    Centre, Draw, Installation, Ledger, Mode, Said, Serve, Server, Snowflake, attach, draw_many,
    earlier_leafctl, leafctl, leafctl_on,
};

/// The tags and the snowflake ids of a server.
#[derive(Default)]
struct Ids {
    orders: Ledger,
    snowflakes: Ledger,
}

impl Ids {
    fn draw(&mut self, client: &mut Client) {
        self.orders.add(draw_many(client, "orders", 300));
        let block = client.reserve("orders", 50).expect("a block");
        self.orders.add(block.ids());
        self.snowflakes.add(client.snowflakes(100).expect("ids"));
    }

    /// Draws from a service, of either version.
    fn serve(&mut self, serve: &Serve) {
        serve.wait_ready();
        self.orders.add(serve.ids("orders", 300));
        let snowflakes = serve.get("/v1/snowflake?count=100").ids();
        self.snowflakes.add(snowflakes);
    }
}

/// Both programs `leafctl`, the earlier one first.
fn services(server: &Server) -> [Serve; 2] {
    [earlier_leafctl(), leafctl()].map(|command| {
        let options = ["--snowflake", "--no-auth"];
        let connection = server.connection_string();
        Serve::launch(&mut Serve::command_of(command, &connection, &options))
    })
}

fn version(client: &mut Client) -> String {
    client.text("SELECT extversion FROM pg_extension WHERE extname = 'leaf'")
}

const NOW: &str = env!("CARGO_PKG_VERSION");

#[test]
fn upgrade_under_services_of_both_versions_repeats_no_id() {
    let (earlier, now) = (Installation::earlier(), Installation::copy());
    let (mut server, mut client) = Server::options()
        .installation(&earlier)
        .start_with_orders(1000);
    let before = version(&mut client);
    assert_ne!(before, NOW);
    let mut ids = Ids::default();
    let services = services(&server);
    let mut draw = |client: &mut Client| {
        ids.draw(client);
        services.iter().for_each(|serve| ids.serve(serve));
    };
    draw(&mut client);

    // The order of the manual: the packages, a restart, the objects of the database.
    server.restart_with(&now);
    let mut client = server.connect();
    assert_eq!(version(&mut client), before);
    draw(&mut client);
    let doctor = Said::by(leafctl_on(&server).arg("doctor"));
    assert!(doctor.out.contains("ALTER EXTENSION"), "{}", doctor.out);
    // An immediate stop: whatever was saved and read is of either version.
    server.restart(Mode::Immediate);
    let mut client = server.connect();
    draw(&mut client);
    client.run("ALTER EXTENSION leaf UPDATE");
    assert_eq!(version(&mut client), NOW);
    draw(&mut client);
    services.into_iter().for_each(Serve::stop);
}

#[test]
fn shards_and_centres_of_both_versions_repeat_no_id() {
    let (earlier, now) = (Installation::earlier(), Installation::copy());
    let mut centre = Centre::of(Server::options().installation(&earlier));
    centre.create("orders", "");
    let shards = [&earlier, &now].map(|installation| {
        let shard = centre.shard_with(Server::options().installation(installation));
        attach(&shard, "orders", 200);
        shard
    });
    let mut ids = Ids::default();
    let mut draw = || {
        for shard in &shards {
            ids.draw(&mut shard.connect());
        }
    };
    draw();
    // The centre first.
    centre.0.restart_with(&now);
    draw();
    centre.0.connect().run("ALTER EXTENSION leaf UPDATE");
    draw();
}

#[test]
fn standby_of_this_version_takes_over_from_a_primary_of_the_earlier_one() {
    let (earlier, now) = (Installation::earlier(), Installation::copy());
    let (mut primary, mut client) = Server::options()
        .installation(&earlier)
        .start_with_orders(100);
    let mut standby = Server::options().start_standby_of(&primary);
    // Standbys are upgraded first.
    standby.restart_with(&now);
    let mut ids = Ids::default();
    ids.draw(&mut client);
    standby.catch_up_with(&primary);
    primary.stop(Mode::Fast);
    let mut client = standby.promote();
    ids.draw(&mut client);
    client.run("ALTER EXTENSION leaf UPDATE");
    ids.draw(&mut client);
}
