//! Copies of a shard, in all the ways that one comes to be: each gets ids of its own from the
//! centre.

use leaf_tests::{Centre, Draw, Ledger, Mode, Options, Server, attach, draw_many, wait_until};

/// Draws enough at each server, in turns, to be fed several times; finds repetitions.
fn draw_at(servers: &[&Server], ledger: &mut Ledger) {
    for _ in 0..4 {
        for server in servers {
            ledger.add(draw_many(&mut server.connect(), "orders", 300));
        }
    }
}

fn centre_and_shard(options: Options) -> (Centre, Server) {
    let centre = Centre::start();
    centre.create("orders", "");
    let shard = centre.shard_with(options);
    attach(&shard, "orders", 100);
    (centre, shard)
}

#[test]
fn cold_copy_of_a_shard_draws_no_id_of_the_original() {
    let (_centre, mut shard) = centre_and_shard(Server::options());
    let mut ledger = Ledger::new();
    draw_at(&[&shard], &mut ledger);
    shard.stop(Mode::Fast);
    let mut copy = shard.copy();
    shard.start_again();
    copy.start_again();
    draw_at(&[&shard, &copy], &mut ledger);
}

#[test]
fn shard_that_is_set_back_draws_nothing_again() {
    let (_centre, mut shard) = centre_and_shard(Server::options());
    let mut ledger = Ledger::new();
    draw_at(&[&shard], &mut ledger);
    shard.stop(Mode::Fast);
    let mut older = shard.copy();
    shard.start_again();
    draw_at(&[&shard], &mut ledger);
    shard.stop(Mode::Immediate);
    older.start_again();
    draw_at(&[&older], &mut ledger);
}

#[test]
fn database_copied_as_template_draws_ids_of_its_own() {
    let (_centre, shard) = centre_and_shard(Server::options());
    let mut ledger = Ledger::new();
    let mut client = shard.connect();
    client.run("CREATE DATABASE other TEMPLATE postgres");
    let mut other = shard.connect_as("postgres", "other");
    for _ in 0..4 {
        ledger.add(draw_many(&mut client, "orders", 300));
        ledger.add(draw_many(&mut other, "orders", 300));
    }
}

#[test]
fn restored_dump_of_a_shard_draws_ids_of_its_own() {
    let (_centre, shard) = centre_and_shard(Server::options());
    let mut client = shard.connect();
    let mut ledger = Ledger::new();
    ledger.add(draw_many(&mut client, "orders", 300));
    client.run("CREATE DATABASE other");
    shard.dump_and_restore("postgres", "other");
    let mut other = shard.connect_as("postgres", "other");
    for _ in 0..4 {
        ledger.add(draw_many(&mut client, "orders", 300));
        ledger.add(draw_many(&mut other, "orders", 300));
    }
}

#[test]
fn shard_promoted_beside_its_living_primary_draws_ids_of_its_own() {
    let (_centre, shard) = centre_and_shard(Server::options());
    let mut ledger = Ledger::new();
    draw_at(&[&shard], &mut ledger);
    let standby = Server::options().start_standby_of(&shard);
    standby.catch_up_with(&shard);
    standby.promote();
    draw_at(&[&shard, &standby], &mut ledger);
}

#[test]
fn shard_after_a_crash_draws_nothing_again() {
    let (_centre, mut shard) = centre_and_shard(Server::options());
    let mut ledger = Ledger::new();
    for mode in [Mode::Immediate, Mode::Fast, Mode::Immediate] {
        draw_at(&[&shard], &mut ledger);
        shard.restart(mode);
    }
    draw_at(&[&shard], &mut ledger);
}

#[test]
fn fed_tag_stays_as_it_is_when_leafs_tables_are_replicated() {
    let logical = || Server::options().set("wal_level", "logical");
    let centre = Centre::start();
    centre.create("orders", "");
    let (a, b) = (centre.shard_with(logical()), centre.shard_with(logical()));
    for shard in [&a, &b] {
        attach(shard, "orders", 10);
        shard
            .connect()
            .run("SELECT leaf_tag_create('local'); CREATE TABLE t (id bigint PRIMARY KEY)");
    }
    let mut clients = [a.connect(), b.connect()];
    let row = "SELECT (upstream_tag, upstream_incarnation, incarnation, max_id)::text
                 FROM leaf.alloc WHERE biz_tag = 'orders'";
    clients[0].run("CREATE PUBLICATION p FOR ALL TABLES");
    clients[1].run(&format!(
        "CREATE SUBSCRIPTION s CONNECTION 'host={} port={} user=postgres dbname=postgres'
                    PUBLICATION p WITH (copy_data = false)",
        a.host(),
        a.port()
    ));
    let mut ledger = Ledger::new();
    for round in 0..3 {
        let before = clients[1].text(row);
        ledger.add(draw_many(&mut clients[0], "orders", 500));
        clients[0].run(&format!("INSERT INTO t VALUES ({round})"));
        let arrived = format!("SELECT count(*) FROM t WHERE id = {round}");
        wait_until("the row has arrived", || clients[1].number(&arrived) == 1);
        assert_eq!(clients[1].text(row), before);
        // Not by draws, after which the next segment is fetched some time.
        ledger.add(clients[1].reserve("orders", 50).expect("a block").ids());
    }
    // Attaching another tag does not reach the other node either.
    centre.create("local", ", start => 1000");
    clients[0].run("SELECT leaf_tag_attach('local'); INSERT INTO t VALUES (99)");
    wait_until("the row has arrived", || {
        clients[1].number("SELECT count(*) FROM t WHERE id = 99") == 1
    });
    assert_eq!(clients[1].next("local").expect("an id"), 1);
}
