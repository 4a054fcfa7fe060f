//! Worker ids of snowflake ids that come from a centre.

use leaf_tests::{Centre, Draw, Ledger, Mode, Server, Snowflake, attach, refused, wait_until};

fn worker_id(server: &Server) -> i64 {
    let mut client = server.connect();
    client.number("SELECT worker_id::bigint FROM leaf.stat_snowflake")
}

#[test]
fn servers_of_one_centre_repeat_no_snowflake_id() {
    let centre = Centre::start();
    let shards = [centre.shard(), centre.shard(), centre.shard()];
    let mut ledger = Ledger::new();
    let mut clients = shards.each_ref().map(|shard| shard.connect());
    for _ in 0..5 {
        for client in &mut clients {
            ledger.add(client.snowflakes(500).expect("ids"));
        }
        ledger.add(centre.0.connect().snowflakes(500).expect("ids"));
    }
    let mut workers: Vec<_> = shards.iter().map(worker_id).collect();
    workers.push(worker_id(&centre.0));
    workers.sort_unstable();
    assert_eq!(workers, [0, 1, 2, 3]);
}

#[test]
fn snowflake_ids_go_on_while_the_centre_is_away_until_its_lease_ends() {
    let mut centre = Centre::start();
    let mut shard = centre.shard_with(
        Server::options()
            .set("leaf.upstream_lease", "6s")
            .set("leaf.ceiling_ahead", "200ms"),
    );
    let mut ledger = Ledger::new();
    ledger.add(shard.connect().snowflakes(10).expect("ids"));
    centre.0.stop(Mode::Fast);
    // Over a restart, too: the lease is in the row.
    shard.restart(Mode::Fast);
    ledger.add(shard.connect().snowflakes(10).expect("ids"));
    shard.restart(Mode::Immediate);
    let mut client = shard.connect();
    client.run("SET leaf.wait_timeout = '300ms'");
    ledger.add(client.snowflakes(10).expect("ids"));
    let mut error = None;
    wait_until("the lease has ended", || {
        match client.snowflakes(10) {
            Ok(ids) => ledger.add(ids),
            Err(it) => error = Some(it),
        }
        error.is_some()
    });
    let error = refused::<()>(Err(error.expect("an error")), "55P03");
    assert!(error.detail().unwrap().contains("centre"), "{error:?}");
    let ceilings = "SELECT (max(ceiling) <= max(upstream_ceiling))::int::bigint FROM leaf.worker";
    assert_eq!(client.number(ceilings), 1);
    centre.0.start_again();
    let mut patient = shard.connect();
    ledger.add(patient.snowflakes(10).expect("ids"));
    assert_eq!(worker_id(&shard), 0);
}

#[test]
fn answers_that_are_lost_cost_no_worker_id() {
    let centre = Centre::start();
    let (relay, options) = centre.behind_relay();
    let shard = options
        .set("leaf.upstream_timeout", "100ms")
        .set("leaf.upstream_lease", "1s")
        .set("leaf.ceiling_ahead", "100ms")
        .start();
    let mut there = centre.0.connect();
    let leases = "SELECT count(*) FROM leaf.worker WHERE node LIKE 'shard %'";
    let mut client = shard.connect();
    // The link is connected: what it asks for arrives, and is done.
    centre.create("orders", "");
    attach(&shard, "orders", 10);
    relay.lose_answers(true);
    client.run("SET leaf.wait_timeout = '2s'");
    refused(client.snowflakes(1), "55P03");
    assert_eq!(there.number(leases), 1);
    relay.lose_answers(false);
    client.run("RESET leaf.wait_timeout");
    let mut ledger = Ledger::new();
    ledger.add(client.snowflakes(1).expect("an id"));
    assert_eq!(there.number(leases), 1);
    // So are renewals, while ids are drawn.
    for _ in 0..8 {
        relay.lose_answers(true);
        let failures = "SELECT failures FROM leaf.stat_upstream";
        let before = client.number(failures);
        wait_until("a renewal is lost", || {
            if let Ok(ids) = client.snowflakes(5) {
                ledger.add(ids);
            }
            client.number(failures) > before
        });
        relay.lose_answers(false);
        ledger.add(client.snowflakes(5).expect("ids"));
    }
    assert_eq!(there.number(leases), 1);
}

#[test]
fn shard_in_another_history_gets_another_worker_id() {
    let centre = Centre::start();
    let shard = centre.shard();
    let mut ledger = Ledger::new();
    ledger.add(shard.connect().snowflakes(10).expect("ids"));
    let standby = Server::options().start_standby_of(&shard);
    standby.catch_up_with(&shard);
    standby.promote();
    for _ in 0..3 {
        for server in [&shard, &standby] {
            ledger.add(server.connect().snowflakes(100).expect("ids"));
        }
    }
    assert_ne!(worker_id(&shard), worker_id(&standby));
}

#[test]
fn registry_of_a_shard_leases_to_nobody() {
    let centre = Centre::start();
    let shard = centre.shard();
    let mut client = shard.connect();
    let register = "SELECT * FROM leaf_worker_register('n')";
    refused(client.batch_execute(register), "55000");
    client.snowflakes(1).expect("an id");
    // Nor does it when the centre is forgotten; and its own worker id stays the centre's.
    shard.reload("leaf.upstream", "");
    refused(client.batch_execute(register), "55000");
    client.snowflakes(1).expect("an id");
    client.run("DELETE FROM leaf.worker WHERE false");
    refused(
        client.batch_execute("SELECT * FROM leaf_worker_release(0, gen_random_uuid(), 1)"),
        "55000",
    );
}

#[test]
fn role_holds_only_as_many_worker_ids_as_it_may() {
    let centre = Centre::start();
    centre
        .0
        .connect()
        .run("ALTER ROLE shard SET leaf.max_leases = 2");
    let mut there = centre.0.connect_as("shard", "postgres");
    let register = "SELECT * FROM leaf_worker_register('n')";
    there.run(register);
    there.run(register);
    refused(there.batch_execute(register), "53400");
    there.fails("SET leaf.max_leases = 10", "42501");
    let shard = centre.shard();
    refused(shard.connect().snowflakes(1), "53400");
    // One that is repeated is the same lease.
    centre
        .0
        .connect()
        .run("ALTER ROLE shard SET leaf.max_leases = 3");
    let mut there = centre.0.connect_as("shard", "postgres");
    let again =
        "SELECT * FROM leaf_worker_register('n', nonce => '7c9e6679-7425-40de-944b-e07fc1f90ae7')";
    there.run(again);
    there.run(again);
}

#[test]
fn layout_of_the_centre_must_be_that_of_the_shard() {
    let centre = Centre::start();
    let shard = centre.shard_with(Server::options().set("leaf.snowflake_layout", "js53"));
    refused(shard.connect().snowflakes(1), "55000");
}
