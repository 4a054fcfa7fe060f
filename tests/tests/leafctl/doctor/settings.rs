//! What doctor finds of settings.

use super::{findings, finds};
use leaf_tests::{Draw, Said, Server, leafctl_on, wait_until};

/// Names are compared as they are stored.
#[test]
fn setting_that_quotes_all_names_changes_nothing() {
    let (server, _) = Server::with_orders(100);
    let mut leafctl = leafctl_on(&server);
    leafctl.env("PGOPTIONS", "-c quote_all_identifiers=on");
    let said = Said::by(leafctl.arg("doctor")).done();
    assert_eq!(said, "No problem was found.\n");
}

#[test]
fn settings_without_effect_are_found() {
    let (server, _) = Server::with_orders(100);
    server.configure("leaf.max_stpe = 5\nleaf.max_tags = 2000\n");
    server.connect().run("SELECT pg_reload_conf()");
    wait_until("they are found", || {
        let (_, found) = findings(&server);
        let is_found = |text| found.iter().any(|it: &String| it.starts_with(text));
        is_found("warning leaf.max_stpe: there is no such setting")
            && is_found("notice leaf.max_tags: its new value")
    });
}

/// A lease keeps what it was made with, until a session asks for something else.
#[test]
fn settings_that_are_not_those_of_the_lease_are_found() {
    let (server, mut client) = Server::with_orders(100);
    client.run("SELECT leaf_snowflake_next(); CREATE ROLE clerk");
    assert_eq!(findings(&server), (Some(0), vec![]));
    client.run("ALTER DATABASE postgres SET leaf.worker_id = 77");
    finds(
        &server,
        "warning leaf.worker_id: it is 77, but the current lease is of worker id 0",
    );
    client.run("ALTER DATABASE postgres RESET leaf.worker_id");
    client.run("ALTER ROLE clerk SET leaf.worker_id = 3; ALTER ROLE clerk IN DATABASE postgres SET leaf.snowflake_epoch = ''");
    let (code, found) = findings(&server);
    assert_eq!((code, found.len()), (Some(4), 2), "{found:?}");
    for (found, setting) in found.iter().zip(["leaf.snowflake_epoch", "leaf.worker_id"]) {
        assert_eq!(
            found,
            &format!("warning {setting}: it is set for role clerk, where it has no effect")
        );
    }
    client.run("DROP ROLE clerk; ALTER DATABASE postgres SET leaf.snowflake_layout = 'js53'");
    finds(
        &server,
        "error leaf.snowflake_layout: it is js53, but ids have layout leaf",
    );
    client.run("ALTER DATABASE postgres RESET ALL; ALTER DATABASE postgres SET leaf.snowflake_epoch = '2020-01-01'");
    finds(&server, "error leaf.snowflake_epoch: it is 2020-01-01");
    client.run("ALTER DATABASE postgres RESET ALL");
    assert_eq!(findings(&server), (Some(0), vec![]));
}

/// What a promotion will need is known before.
#[test]
fn a_fixed_worker_id_that_a_promotion_would_end_is_found() {
    let (primary, mut client) = Server::with_orders(100);
    primary.reload("leaf.worker_id", "5");
    client.run("SELECT leaf_snowflake_next()");
    assert_eq!(findings(&primary), (Some(0), vec![]));
    let _standby = Server::options().start_standby_of(&primary);
    wait_until("the standby streams", || {
        client.number("SELECT count(*) FROM pg_stat_replication") == 1
    });
    finds(
        &primary,
        "warning failover: after a promotion, snowflake ids fail with 55000",
    );
    primary.reload("leaf.worker_id", "-1");
    primary.reload("leaf.allow_unreplicated_centre", "on");
    finds(
        &primary,
        "warning failover: a promoted standby feeds nothing until leaf_tag_vouch is called",
    );
}

#[test]
fn failovers_that_use_up_the_worker_ids_are_found() {
    let primary = Server::options()
        .set("leaf.snowflake_layout", "custom:41,2,12")
        .start();
    primary.connect().run("SELECT leaf_snowflake_next()");
    let _standby = Server::options().start_standby_of(&primary);
    let mut client = primary.connect();
    wait_until("the standby streams", || {
        client.number("SELECT count(*) FROM pg_stat_replication") == 1
    });
    assert_eq!(client.number("SELECT leaf.failovers_left()"), 3);
    assert_eq!(findings(&primary).0, Some(0));
    client.run("SELECT FROM leaf_worker_register('a')");
    finds(
        &primary,
        "warning failover: a promoted standby leases another worker id, 2 times",
    );
}

#[test]
fn lossless_failovers_without_a_synchronous_standby_are_found() {
    let primary = Server::options()
        .set("leaf.lossless_failover", "on")
        .start();
    finds(
        &primary,
        "error failover: leaf.lossless_failover is on, but",
    );
    primary.reload("synchronous_standby_names", "s");
    assert_eq!(findings(&primary), (Some(0), vec![]));
}

/// Three rounds of 40 tags in 16 places.
#[test]
fn tags_that_evict_each_other_are_found() {
    let server = Server::options().set("leaf.max_tags", "16").start();
    let mut client = server.connect();
    client.run("SELECT leaf_tag_create('tag' || n, step => 10) FROM generate_series(1, 40) AS n");
    let evictions = "SELECT coalesce(max(evictions), 0)::bigint FROM leaf.stat_segment";
    let draw = "SELECT leaf_segment_next(biz_tag::text) FROM leaf.alloc ORDER BY biz_tag LIMIT 16";
    client.run(draw);
    assert_eq!(client.number(evictions), 0);
    let status = || Said::by(leafctl_on(&server).arg("status")).done();
    assert!(!status().contains("Evictions"), "{}", status());
    for _ in 0..3 {
        client.run("SELECT leaf_segment_next(biz_tag::text) FROM leaf.alloc");
    }
    let seen = client.number(evictions);
    assert!((60..=120).contains(&seen), "{seen}");
    finds(
        &server,
        &format!(
            "warning shared memory: {seen} tags were evicted since the server started, of 16 that have room at once"
        ),
    );
    let doctor = Said::by(leafctl_on(&server).arg("doctor")).out;
    assert!(doctor.contains("set leaf.max_tags to 50"), "{doctor}");
    let line = format!("Evictions of tags from shared memory since the server started: {seen}\n");
    assert!(status().contains(&line), "{}", status());
}
