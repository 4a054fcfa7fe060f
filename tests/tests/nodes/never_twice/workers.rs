//! Worker ids of snowflake ids that come from a centre.

use leaf_tests::{
    Centre, Draw, Ledger, Load, Mode, Server, Snowflake, attach, refused, wait_until,
};

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
    // The shard is connected: what it asks for arrives.
    centre.create("orders", "");
    attach(&shard, "orders", 10);
    relay.lose_answers(true);
    client.run("SET leaf.wait_timeout = '2s'");
    wait_until("what it has asked for is done", || {
        refused(client.snowflakes(1), "55P03");
        there.number(leases) > 0
    });
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
fn shard_begins_above_the_ceiling_of_the_former_holder_of_its_worker_id() {
    let centre = Centre::start();
    let mut there = centre.0.connect();
    let before = there.register("'a', 7, ahead => '20 s'").expect("a lease");
    there.release(&before).expect("a release");
    let shard = centre.shard_with(Server::options().set("leaf.worker_id", "7"));
    let first = shard.connect().number(
        "SELECT (extract(epoch FROM created_at) * 1000)::bigint
           FROM leaf_snowflake_decode(leaf_snowflake_next())",
    );
    assert!(first >= before.ceiling, "{first} below {}", before.ceiling);
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
fn layout_of_the_centre_must_be_that_of_the_shard() {
    let centre = Centre::start();
    let shard = centre.shard_with(Server::options().set("leaf.snowflake_layout", "js53"));
    refused(shard.connect().snowflakes(1), "55000");
}

/// Draws from all servers until each has drawn with its present lease for a while; no id may
/// come twice.
fn draw_of_all<'s>(ledger: &mut Ledger, servers: impl IntoIterator<Item = &'s Server> + Clone) {
    for _ in 0..20 {
        for server in servers.clone() {
            ledger.add(server.connect().snowflakes(2_000).expect("ids"));
        }
    }
}

#[test]
fn shard_that_is_pointed_at_another_centre_leases_there() {
    let centres = [Centre::start(), Centre::start()];
    let shards = centres.each_ref().map(Centre::shard);
    for shard in &shards {
        shard.connect().snowflakes(10).expect("ids");
        assert_eq!(worker_id(shard), 0);
    }
    shards[0].reload("leaf.upstream", &centres[1].upstream());
    let mut ledger = Ledger::new();
    draw_of_all(&mut ledger, &shards);
    assert_eq!([worker_id(&shards[0]), worker_id(&shards[1])], [1, 0]);
    // While the other centre is away, nothing of the first one's lease is used there.
    let [mut away, present] = centres;
    away.0.stop(Mode::Fast);
    shards[0].reload("leaf.upstream", &away.upstream());
    let mut client = shards[0].connect();
    client.run("SET leaf.wait_timeout = '300ms'");
    refused(client.snowflakes(1), "55P03");
    // Another way to write where the current one is forbids nothing, also while it is away.
    let (host, port) = (present.0.host(), present.0.port());
    let other = format!("host={host},/nowhere port={port},1 user=shard dbname=postgres");
    shards[0].reload("leaf.upstream", &present.upstream());
    client.run("RESET leaf.wait_timeout");
    ledger.add(client.snowflakes(10).expect("ids"));
    let mut present = present;
    present.0.stop(Mode::Fast);
    shards[0].reload("leaf.upstream", &other);
    ledger.add(client.snowflakes(10).expect("ids"));
}

#[test]
fn shard_whose_centre_was_made_anew_at_its_address_leases_anew() {
    let mut centre = Centre::start();
    let shards = [centre.shard(), centre.shard()];
    shards[0].connect().snowflakes(10).expect("ids");
    // The extension is another one, and so is the registry. A restart makes connections new, as
    // they are where the database was dropped.
    centre
        .0
        .connect()
        .run("DROP EXTENSION leaf; CREATE EXTENSION leaf");
    centre
        .0
        .connect()
        .run("GRANT EXECUTE ON FUNCTION leaf_worker_register, leaf_worker_renew TO shard");
    centre.0.restart(Mode::Fast);
    let mut ledger = Ledger::new();
    wait_until("the first shard has another lease", || {
        draw_of_all(&mut ledger, &shards);
        let leases = "SELECT count(*) FROM leaf.worker WHERE node LIKE 'shard %'";
        centre.0.connect().number(leases) == 2
    });
    draw_of_all(&mut ledger, &shards);
    assert_ne!(worker_id(&shards[0]), worker_id(&shards[1]));
}

/// A centre whose role `shard` calls a function of somebody's own instead of leaf's.
fn hostile(arguments: &str, returns: &str, body: &str) -> Centre {
    let centre = Centre::start();
    centre.0.connect().run(&format!(
        "CREATE SCHEMA fake; GRANT USAGE ON SCHEMA fake TO shard;
         ALTER ROLE shard SET search_path = fake, public;
         CREATE FUNCTION fake.{arguments} RETURNS {returns} LANGUAGE plpgsql AS $${body}$$"
    ));
    centre
}

#[test]
fn impossible_lease_of_a_centre_is_not_used() {
    let lease =
        "leaf_worker_register(node text, of integer, clock timestamptz, ahead interval, n uuid)";
    let columns = "TABLE (worker_id bigint, nonce uuid, token bigint, start_at timestamptz,
                          ceiling timestamptz, layout text, epoch timestamptz, registry uuid, history text)";
    let shard = Centre::start().shard();
    for (worker_id, layout, start, ceiling) in [
        ("1024", "leaf", "now()", "now() + '1 h'"),
        ("-1", "leaf", "now()", "now() + '1 h'"),
        ("4294967301", "leaf", "now()", "now() + '1 h'"),
        ("0", "junk", "now()", "now() + '1 h'"),
        ("0", "leaf", "now() + '2 h'", "now() + '1 h'"),
        ("0", "leaf", "now()", "'9999-01-01'"),
    ] {
        let answer = format!(
            "BEGIN RETURN QUERY SELECT {worker_id}::bigint, n, 1::bigint, {start}::timestamptz, {ceiling}::timestamptz,
                 '{layout}', '2010-11-04 01:42:54.657+00'::timestamptz, gen_random_uuid(), 'h'; END"
        );
        let centre = hostile(lease, columns, &answer);
        shard.reload("leaf.upstream", &centre.upstream());
        let mut client = shard.connect();
        client.run("SET leaf.wait_timeout = '500ms'");
        refused(client.snowflakes(1), "55P03");
        assert_eq!(
            client.number("SELECT count(*) FROM leaf.worker"),
            0,
            "{worker_id} {layout}"
        );
    }
}

#[test]
fn text_of_a_centre_is_one_short_line() {
    let feed = "leaf_segment_feed(tags text[], counts bigint[], exact boolean[])";
    let columns = "TABLE (first bigint, last bigint, incarnation uuid, error_code text, message text, detail text)";
    let body = r"BEGIN RAISE EXCEPTION E'begin\n2026-01-01 LOG:  forged\x1b[2J%', repeat('x', 1000000); END";
    let centre = hostile(feed, columns, body);
    let shard = centre.shard();
    let mut client = shard.connect();
    client.run("SELECT leaf_tag_create('orders')");
    refused(
        client.batch_execute("SELECT leaf_tag_attach('orders')"),
        "55P03",
    );
    let cause = client.text("SELECT last_error FROM leaf.stat_upstream");
    assert!(
        cause.contains("begin") && cause.contains("forged"),
        "{cause}"
    );
    assert!(!cause.contains(char::is_control), "{cause}");
    let log = shard.log();
    let lines = || log.lines().filter(|line| line.contains("forged"));
    assert!(lines().count() > 0);
    for line in lines() {
        assert!(line.contains("begin") && line.len() < 2_000, "{line}");
        assert!(!line.contains('\x1b'), "{line}");
    }
}

#[test]
fn failover_of_the_centre_changes_no_worker_id() {
    let centre = Centre::of(Server::options().set("wal_level", "replica"));
    let mut there = centre.0.connect();
    there.run(
        "CREATE TABLE leases AS SELECT l.* FROM generate_series(1, 200) AS n,
                   LATERAL leaf_worker_register('node ' || n, ahead => '1 h') AS l",
    );
    let mut standby = Server::options().start_standby_of(&centre.0);
    let hosts = |server: &Server| (server.host(), server.port());
    let ((first, first_port), (second, second_port)) = (hosts(&centre.0), hosts(&standby));
    let upstream =
        format!("host={first},{second} port={first_port},{second_port} user=shard dbname=postgres");
    let shard = Server::options().set("leaf.upstream", &upstream).start();
    let mut ledger = Ledger::new();
    ledger.add(shard.connect().snowflakes(10).expect("ids"));
    let worker = worker_id(&shard);
    standby.catch_up_with(&centre.0);
    let config = shard.config("postgres", "postgres");
    Load::of_snowflakes(&config, 2, |load| {
        load.goes_on(100);
        let mut old = centre;
        old.0.stop(Mode::Immediate);
        load.goes_on(100);
        standby.promote();
        let mut there = standby.connect();
        let of_shard = "SELECT count(*) FROM leaf.worker WHERE node LIKE 'shard %' AND history <> (SELECT history FROM leases LIMIT 1)";
        wait_until("the shard has renewed its lease in the new history", || {
            load.goes_on(10);
            there.number(of_shard) == 1
        });
        load.goes_on(100);
    });
    assert_eq!(worker_id(&shard), worker);
    let mut there = standby.connect();
    // Each holder goes on with its nonce and token: the same registry, in another history.
    let renewed = there.number(
        "SELECT count(*) FROM leases AS l, LATERAL leaf_worker_renew(l.worker_id, l.nonce, l.token) AS r
          WHERE r.registry = l.registry AND r.history <> l.history AND r.ceiling >= l.ceiling");
    assert_eq!(renewed, 200);
    assert_eq!(there.number("SELECT count(*) FROM leaf.worker"), 201);
    standby.stop(Mode::Fast);
}
