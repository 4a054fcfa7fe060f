//! The worker id of a standby that is promoted.

use leaf_tests::{Draw, Ledger, Server, Snowflake, refused, wait_until};

/// A primary with a fixed worker id, its synchronous standby, which has confirmed a ceiling, and
/// what was drawn.
fn primary_with_fixed_worker_id(lossless_failover: &str) -> (Server, Server, Ledger) {
    let primary = Server::options()
        .set("leaf.worker_id", "5")
        .set("leaf.ceiling_ahead", "1s")
        .set("leaf.lossless_failover", lossless_failover)
        .start();
    let standby = Server::options()
        .set("cluster_name", "s1")
        .set("synchronous_standby_names", "")
        .start_standby_of(&primary);
    standby.catch_up_with(&primary);
    primary.reload("synchronous_standby_names", "s1");
    let mut ledger = Ledger::new();
    let mut client = primary.connect();
    // Two ceilings at least: the first may be from before the reload.
    let ceiling = "SELECT coalesce(max(ceiling), '-infinity')::text FROM leaf.worker";
    ledger.add(client.snowflakes(10).expect("ids"));
    let first = client.text(ceiling);
    wait_until("the ceiling was raised", || {
        ledger.add(client.snowflakes(100).expect("ids"));
        client.text(ceiling) != first
    });
    (primary, standby, ledger)
}

#[test]
fn promoted_standby_goes_on_with_the_worker_id_if_failovers_lose_nothing() {
    let (primary, standby, mut ledger) = primary_with_fixed_worker_id("on");
    // The primary runs on: nothing confirms its next ceiling.
    let mut there = standby.promote();
    let mut here = primary.connect();
    here.run("SET leaf.wait_timeout = '100ms'");
    for _ in 0..20 {
        if let Ok(ids) = here.snowflakes(500) {
            ledger.add(ids);
        }
        let ids = there.snowflakes(500).expect("ids");
        assert_eq!(there.parts(ids[0]).worker_id, 5);
        ledger.add(ids);
    }
}

#[test]
fn promoted_standby_needs_a_word_for_the_worker_id_of_a_primary_that_may_run_on() {
    let (mut primary, standby, mut ledger) = primary_with_fixed_worker_id("off");
    primary.stop(leaf_tests::Mode::Immediate);
    let mut client = standby.promote();
    let error = refused(client.snowflakes(1), "55000");
    let hint = error.hint().unwrap_or_default();
    assert!(
        hint.contains("leaf_worker_take_over") && hint.contains("another worker id"),
        "{error:?}"
    );
    assert_eq!(client.number("SELECT leaf_worker_take_over(5)::bigint"), 1);
    let ids = client.snowflakes(10).expect("ids");
    assert_eq!(client.parts(ids[0]).worker_id, 5);
    ledger.add(ids);
}

/// The primary stops to wait for it while it is cut off: no record of that reaches it.
#[test]
fn standby_that_had_confirmed_takes_another_worker_id_than_its_living_primary() {
    let primary = Server::start();
    let standby = Server::options()
        .set("cluster_name", "s")
        .set("synchronous_standby_names", "")
        .start_standby_of(&primary);
    standby.catch_up_with(&primary);
    primary.reload("synchronous_standby_names", "s");
    let mut here = primary.connect();
    let mut ledger = Ledger::new();
    ledger.add(here.snowflakes(10).expect("ids"));
    standby.catch_up_with(&primary);
    standby.reload("primary_conninfo", "");
    primary.reload("synchronous_standby_names", "");
    let mut there = standby.promote();
    for _ in 0..20 {
        ledger.add(here.snowflakes(1_000).expect("ids"));
        ledger.add(there.snowflakes(1_000).expect("ids"));
    }
    let [one, other] = [&mut here, &mut there].map(|client| {
        let id = client.snowflake().expect("an id");
        client.parts(id).worker_id
    });
    assert_ne!(one, other);
}

#[test]
fn promotions_that_lose_nothing_do_not_use_up_a_small_layout() {
    let mut primary = Server::options()
        .set("leaf.snowflake_layout", "custom:41,1,12")
        .set("leaf.ceiling_ahead", "100ms")
        .set("leaf.lossless_failover", "on")
        .start();
    let mut ledger = Ledger::new();
    let follow = |primary: &mut Server, lossless: &str| {
        let standby = Server::options()
            .set("leaf.lossless_failover", lossless)
            .start_standby_of(primary);
        // What the backup has brought was not streamed.
        primary
            .connect()
            .run("CREATE TABLE IF NOT EXISTS t (n int); INSERT INTO t VALUES (1)");
        standby.catch_up_with(primary);
        primary.stop(leaf_tests::Mode::Immediate);
        let client = standby.promote();
        *primary = standby;
        client
    };
    for _ in 0..4 {
        ledger.add(primary.connect().snowflakes(10).expect("ids"));
        let mut client = follow(&mut primary, "on");
        ledger.add(client.snowflakes(10).expect("ids"));
    }
    // Otherwise, somebody has to vouch for the former primaries.
    let mut client = follow(&mut primary, "off");
    ledger.add(client.snowflakes(10).expect("ids"));
    let mut client = follow(&mut primary, "off");
    refused(client.snowflake(), "53400");
    assert_eq!(client.number("SELECT leaf_worker_take_over()::bigint"), 2);
    ledger.add(client.snowflakes(10).expect("ids"));
}
